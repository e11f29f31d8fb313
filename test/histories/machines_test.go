package histories

import (
	"slices"
	"testing"
)

// TestALostMachineIsAnAccident checks that a member is indispensable since the machine of another was lost, where the truth goes by that: not only since the system goes on.
func TestALostMachineIsAnAccident(t *testing.T) {
	for name, c := range map[string]struct {
		site     func(*world) site
		accident bool
	}{
		"routers by who is Ready":        {newFloor, true},
		"routers by what the store says": {newHTTPSite, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.Context(), 1)
			w.site = c.site(w)
			if err := w.populate(); err != nil {
				t.Fatal(err)
			}
			routers := []string{"router-0", "router-1"}
			for _, p := range w.site.members() {
				if p.role == "router" && !slices.Contains(routers, p.pod) {
					w.site.stop(p.pod)
				}
			}
			w.safety.changed(w, natural, "the others have ended")
			w.loseMachine(routers[0], false)
			n, needed := w.safety.needed[routers[1]]
			if needed != c.accident || needed && n.cause != accident || w.safety.accident.IsZero() == c.accident {
				t.Errorf("%s is needed: %t, %+v; the last accident was %s", routers[1], needed, n, w.safety.accident)
			}
		})
	}
}
