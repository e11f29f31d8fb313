package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Where a budget begins to allow one, one pod is evicted, and none is deleted past it beside that, although the hold is over.
func TestHoldGoesOnBesideAnEviction(t *testing.T) {
	s := maintained(t, time.Hour, statefulSet("db", 4), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("a")), pod("db-2", ofSet("db"), on("b")), pod("db-3", ofSet("db"), on("b"), unready),
		budget("db", 3, 3, 4, minAvailable("3")))
	s.decide()
	s.beat(59 * time.Minute)
	s.decide()
	s.answer(answers.Accepted)
	s.beat(2 * time.Minute)
	s.then(0, pod("db-3", ofSet("db"), on("b")), budget("db", 4, 3, 4, minAvailable("3"), budgetVersion("2")))
	s.decide()
	if got := deeds(s.last); len(got) > 1 {
		t.Errorf("in one decision, under a budget that allows one: %v", got)
	}
	s.beat(100 * time.Millisecond)
	s.decide()
	if len(s.last.Actions) > 0 {
		t.Errorf("in flight: %v", deeds(s.last))
	}
}

// An eviction that is in flight, or got no answer, shows that the budget lets pods go.
func TestHoldGoesOnBesideAnEvictionOnItsWay(t *testing.T) {
	for _, code := range []answers.Code{"", answers.Unavailable} {
		s := maintained(t, time.Hour, statefulSet("db", 4), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("a")), pod("db-2", ofSet("db"), on("b")), pod("db-3", ofSet("db"), on("b"), unready),
			budget("db", 3, 3, 4, minAvailable("3")))
		s.decide()
		s.beat(59*time.Minute + 59*time.Second)
		s.then(0, pod("db-3", ofSet("db"), on("b")), budget("db", 4, 3, 4, minAvailable("3"), budgetVersion("2")))
		s.expect("evict db-0")
		if code != "" {
			s.answer(code)
		}
		s.beat(2 * time.Second)
		if got, _ := s.deletes(); got != nil {
			t.Errorf("answer %q: deleted %v beside the eviction", code, got)
		}
	}
}

// The same of pods that leave by evictions, since a grace was given, and are surged.
func TestHoldOfASurgeGoesOnBesideAnEviction(t *testing.T) {
	five := 5 * time.Second
	s := maintained(t, 2*time.Minute, node("b"), deployment("web", 4, surgedBy(theirs, 2, start)), pods("web", "a", 2, marked(theirs)), pods("web", "b", 2),
		statefulSet("db", 1), pod("db-0", on("b"), ofSet("db"), unready, func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }),
		budget("web", 4, 4, 5, maxUnavailable("1")))
	s.req.Grace = &five
	for s.now.Before(start.Add(150 * time.Second)) {
		s.decide()
		if s.count(drain.Evict, drain.Delete) > 0 {
			t.Fatalf("too early for this test")
		}
		s.answer(answers.Accepted)
		s.beat(10 * time.Second)
		if !s.now.Before(start.Add(115 * time.Second)) {
			break
		}
	}
	s.beat(30 * time.Second)
	s.then(0, pod("db-0", on("b"), ofSet("db"), func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }), budget("web", 5, 4, 5, maxUnavailable("1"), budgetVersion("2")))
	s.decide()
	if s.count(drain.Evict, drain.Delete) > 1 {
		t.Errorf("%s: maxUnavailable 1 allows one, and at once: %v", s.now.Sub(start), deeds(s.last))
	}
}

// Past its budget, too, a surged pod goes for a replacement that is ready: here one is, and two pods are to leave.
func TestHoldOfASurgeEndsForAReplacement(t *testing.T) {
	five := 5 * time.Second
	unbudgeted := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "none"} }
	for _, swap := range []bool{false, true} {
		first, second := unbudgeted, func(*snapshot.Pod) {}
		if swap {
			first, second = second, first
		}
		s := maintained(t, time.Minute, node("b"), deployment("web", 4, surgedBy(theirs, 2, start)),
			pod("web-a1", of("web"), on("a"), first), pod("web-a2", of("web"), on("a"), second), pod("web-b1", of("web"), on("b")), pod("web-b2", of("web"), on("b"), unready),
			statefulSet("db", 1), pod("db-0", on("b"), ofSet("db"), unready, func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }),
			budget("web", 2, 2, 4, minAvailable("2")))
		s.req.Grace = &five
		for range 12 {
			s.decide()
			if n := s.count(drain.Evict, drain.Delete); n > 1 {
				t.Errorf("with one replacement ready, %d go: %v", n, deeds(s.last))
			}
			for _, a := range s.open {
				code := answers.Accepted
				if a.Kind == drain.Evict || a.Kind == drain.Delete {
					code = answers.Denied // so that nothing leaves before
				}
				s.led.Answer(a, answers.Answer{Code: code}, s.now)
			}
			s.open = nil
			s.beat(15 * time.Second)
		}
	}
}

// A governed pod is held no longer where its request is being deleted and kept by a finalizer.
func TestHoldOfARequestThatAFinalizerKeeps(t *testing.T) {
	both := func(p *snapshot.Pod) { governed(p); p.Labels["app"] = "db" }
	request := askedBy(theirs, "db-0", func(r *snapshot.Request) { r.Created = start; r.Deleted = true })
	s := maintained(t, time.Hour, budget("db", 2, 2, 3, minAvailable("2")), statefulSet("db", 3), pod("db-0", ofSet("db"), on("a"), both), request)
	for range 240 {
		s.decide()
		if s.count(drain.Delete) > 0 {
			return
		}
		s.answer(answers.Accepted)
		s.beat(time.Minute)
	}
	t.Errorf("not deleted after %s%s", s.now.Sub(start), s.where())
}
