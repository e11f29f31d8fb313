package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

const critical = 2_000_000_000

func TestWavesLeaveOneAfterTheOther(t *testing.T) {
	s := tell(t, asked(force, evictDaemons), node("a", ours), daemonSet("agent"), daemonSet("net"),
		pod("batch", on("a"), priority(-5)),
		pod("web", on("a")),
		pod("gold", on("a"), priority(1000)),
		pod("dns", on("a"), priority(critical)),
		pod("first", on("a"), priority(1000), order(-1)),
		pod("last", on("a"), order(7)),
		pod("agent-a", on("a"), ofDaemon("agent"), order(-9)),
		pod("net-a", on("a"), ofDaemon("net"), priority(critical)))
	for _, name := range []string{"first", "batch", "web", "gold", "last", "dns", "agent-a", "net-a"} {
		s.expect("evict " + name)
		s.answer(answers.Accepted)
		s.then(time.Millisecond)
		s.expect() // asking is not leaving
		s.then(time.Millisecond, gone(name))
	}
	s.expect("mark a drained")
}

func TestOneWaveLeavesTogether(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("c", on("a")), pod("a", on("a")), pod("b", on("a"), priority(1)))
	s.expect("evict a", "evict c")
	s.holds("b: EarlierWave")
	same(t, "waves", []int{0, 0, 1}, []int{s.status("a").Wave, s.status("c").Wave, s.status("b").Wave})
	same(t, "message", "waits for a and 1 more pod of earlier waves", s.status("b").Blockers[0].Message)
	same(t, "remedy", "wait, while nothing moves no longer than until 12:05:00; or usher why pod/a -n default", s.status("b").Blockers[0].Remedy)
}

// Each node has waves of its own: a slow one does not keep the others.
func TestWavesOfNodesAreApart(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours), node("b", ours),
		pod("low", on("a")), pod("high-a", on("a"), priority(1)), pod("high-b", on("b"), priority(1)))
	s.expect("evict low", "evict high-b")
}

// A pod that is held for good holds no later wave, except the DaemonSets' pods that may serve it.
func TestBlockedPodsAndLaterWaves(t *testing.T) {
	held := all(pod("held", on("a"), ofSet("held")), statefulSet("held", 1), budget("held", 1, 1, 1, minAvailable("1")))
	cases := map[string]struct {
		later fact
		want  []string
	}{
		"of higher priority": {pod("later", on("a"), priority(5)), []string{"evict later"}},
		"critical":           {pod("later", on("a"), priority(critical)), []string{"evict later"}},
		"of a DaemonSet":     {all(daemonSet("d"), pod("later", on("a"), ofDaemon("d"))), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, asked(force, evictDaemons), node("a", ours), held, c.later)
			s.decide()
			same(t, "evictions", c.want, evictions(s.last))
		})
	}
}

// A pod whose owner is called DaemonSet in another API group leaves like any other:
// kubectl evicts it, with --ignore-daemonsets too.
func TestDaemonSetOfAnotherGroup(t *testing.T) {
	s := tell(t, asked(ignoreDaemons), node("a", ours), pod("kruise-a", on("a"), ofDaemon("kruise"), ofGroup("apps.kruise.io/v1alpha1")),
		pod("web", on("a"), ofSet("web")), statefulSet("web", 1))
	s.expect("evict kruise-a", "evict web")
}

func TestDaemonSetPodIsEvictedOnce(t *testing.T) {
	s := tell(t, asked(evictDaemons), node("a", ours), daemonSet("agent"), pod("agent-1", on("a"), ofDaemon("agent")))
	s.expect("evict agent-1")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("agent-1"), pod("agent-2", on("a"), ofDaemon("agent"), createdAt(start), toleratesAll))
	s.expect("mark a drained")
	same(t, "state", drain.Staying, s.status("agent-2").State)
}

func evictions(d drain.Decision) []string {
	var out []string
	for _, a := range d.Actions {
		if a.Kind == drain.Evict || a.Kind == drain.Delete {
			out = append(out, deedOf(a))
		}
	}
	return out
}
