package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
)

// What a drain writes last on a node comes with what is left there, for the node's events.
func TestMarksNameWhatIsLeft(t *testing.T) {
	cases := map[string]struct {
		facts  fact
		ending drain.Outcome
		want   string
	}{
		"nothing":           {node("a", ours), drain.Running, ""},
		"a dead budget":     {all(node("a", ours), deadSet("db", "a")), drain.Running, "1 pod left: default/db (BudgetNeverAllows)"},
		"pods of elsewhere": {all(node("a", ours), pod("p", on("b")), pods("web", "a", 1)), drain.Interrupted, "1 pod left: default/web-a1 (DrainEnded)"},
		"many":              {all(node("a", ours), pods("web", "a", 5)), drain.TimedOut, "5 pods left: default/web-a1 (DrainEnded), default/web-a2 (DrainEnded), default/web-a3 (DrainEnded) and 2 more"},
		"a pod that ends":   {all(node("a", ours), pod("p", on("a"), endsAt(start.Add(time.Minute)))), drain.Interrupted, "1 pod left: default/p (Terminating)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), c.facts)
			if c.ending != drain.Running {
				s.led.End(c.ending)
			}
			for _, a := range s.decide().Actions {
				if a.Kind == drain.Mark {
					same(t, "note", c.want, a.Note)
					return
				}
			}
			t.Errorf("no mark in %v", deeds(s.last))
		})
	}
}
