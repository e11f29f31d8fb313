package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure/record"
)

// pass lets time go by in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func same(t *testing.T, w *world, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.cluster.log()); diff != "" {
		t.Errorf("asked, -want +got:\n%s", diff)
	}
}

func TestNothingIsDoneWhereNothingIsShort(t *testing.T) {
	inWorld(t, func(w *world) { w.synced(w.pod("a", 300)) }, func(w *world) {
		pass(time.Minute)
		same(t, w)
		if len(w.cluster.shown) != 1 || len(w.cluster.shown[0].True) != 0 {
			t.Errorf("shown %+v; want one word at the start, that there is no pressure", w.cluster.shown)
		}
	})
}

func TestSoftThresholdEvictsInOrderAfterItsGrace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 100), w.pod("big", 400), w.pod("modest", 350, requesting("400Mi")))
		w.cluster.then = func(verb, name string) { w.gone(name) }
	}, func(w *world) {
		pass(9 * time.Second)
		same(t, w)
		pass(3 * time.Second)
		same(t, w, "evict big 0s")
		pass(time.Minute)
		same(t, w, "evict big 0s")
		if got := w.cluster.events; !slices.Equal(got, []string{"UnderPressure", "EvictedForPressure", "NoPressure"}) {
			t.Errorf("events %v", got)
		}
	})
}

func TestSoftThresholdPassesOverWhoIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 100), w.pod("big", 400), w.pod("middle", 350))
		w.cluster.then = func(verb, name string) { w.gone(name) }
		w.cluster.answers["evict big"] = answers.Answer{Code: answers.RefusedByBudget, Message: "its budget is used up"}
	}, func(w *world) {
		pass(15 * time.Second)
		same(t, w, "evict big 0s", "evict middle 0s")
	})
}

func TestHardThresholdRemovesOneAndWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 200), w.pod("big", 400), w.pod("middle", 320))
		w.cluster.then = func(verb, name string) {
			time.AfterFunc(800*time.Millisecond, func() { w.gone(name) })
		}
	}, func(w *world) {
		pass(500 * time.Millisecond)
		same(t, w, "remove big 1s")
		pass(time.Minute)
		same(t, w, "remove big 1s")
	})
}

// TestHardThresholdIsSeenSoon: from 500 MiB above it, the next look comes while it lasts, however fast memory is filled.
func TestHardThresholdIsSeenSoon(t *testing.T) {
	inWorld(t, func(w *world) { w.synced(w.pod("a", 100), w.pod("leak", 300)) }, func(w *world) {
		pass(3*time.Second + 17*time.Millisecond)
		w.uses("uid-leak", 830)
		began := time.Now()
		for len(w.cluster.log()) == 0 {
			pass(time.Millisecond)
		}
		if took := time.Since(began); took > 130*time.Millisecond {
			t.Errorf("asked %v after %s", w.cluster.log(), took)
		}
	})
}

// TestWhoGoesIsReadOnceMore: between two readings of the pods another one has become the largest.
func TestWhoGoesIsReadOnceMore(t *testing.T) {
	for after := range 12 {
		inWorld(t, func(w *world) { w.synced(w.pod("small", 450), w.pod("big", 380)) }, func(w *world) {
			pass(time.Second + time.Duration(after)*9*time.Millisecond)
			w.uses("uid-big", 500)
			pass(time.Second)
			if got := w.cluster.log(); len(got) == 0 || !strings.HasPrefix(got[0], "remove big ") {
				t.Errorf("%d: asked %v, want big removed", after, got)
			}
		})
	}
}

func TestLooksAreRareWhereMuchIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("sys/fs/cgroup/kubepods/memory.max", "max\n")
		w.synced(w.pod("a", 100))
	}, func(w *world) {
		pass(10 * time.Second)
		before := w.looks()
		pass(time.Minute)
		if looks := w.looks() - before; looks > 60 {
			t.Errorf("%d looks in a minute with gigabytes left", looks)
		}
	})
}

// TestLooksBecomeRarerWhereNoPodMayGo: a node may stay short for long, and looking on costs.
func TestLooksBecomeRarerWhereNoPodMayGo(t *testing.T) {
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }
	inWorld(t, func(w *world) { w.synced(w.pod("static", 950, static)) }, func(w *world) {
		pass(20 * time.Second)
		before := w.looks()
		pass(time.Minute)
		if looks := w.looks() - before; looks > 120 {
			t.Errorf("%d looks in a minute, want one or two a second", looks)
		}
		same(t, w)
	})
}

func (w *world) looks() int {
	families, err := w.agent.metrics.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() == "usher_agent_looks_total" {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return int(total)
}

func TestKillsOnTheNodeWhileTheApiserverIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 200), w.pod("big", 400), w.pod("middle", 320))
		w.agent.apiserver.record(os.ErrDeadlineExceeded)
	}, func(w *world) {
		pass(200 * time.Millisecond)
		same(t, w)
		if got := w.read(w.folder("uid-big") + "/cgroup.kill"); got != "1" {
			t.Errorf("big was not killed: %q", got)
		}
		for _, other := range []string{"small", "middle"} {
			if got := w.read(w.folder("uid-"+"small") + "/cgroup.kill"); got != "" {
				t.Errorf("%s was killed as well", other)
			}
		}
	})
}

// TestAnAnswerThatNeverCameMeansAway: the pod may be on its way for all that is known, so it is waited for; then it is
// killed, and no other in its place.
func TestAnAnswerThatNeverCameMeansAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 200), w.pod("big", 400), w.pod("middle", 320))
		w.cluster.answers["remove big"] = answers.Answer{Code: answers.Unavailable, Message: "timeout"}
	}, func(w *world) {
		pass(time.Second)
		if w.agent.apiserver.reachable() {
			t.Error("the apiserver counts as reachable")
		}
		same(t, w, "remove big 1s")
		pass(15 * time.Second)
		same(t, w, "remove big 1s")
		for name, want := range map[types.UID]string{"small": "", "big": "1", "middle": ""} {
			if got := w.read(w.folder("uid-"+name) + "/cgroup.kill"); got != want {
				t.Errorf("%s: cgroup.kill holds %q, want %q", name, got, want)
			}
		}
	})
}

func TestAPodThatIsLeavingIsWaitedFor(t *testing.T) {
	leaving := func(p *corev1.Pod) {
		grace := int64(5)
		p.DeletionTimestamp = new(p.CreationTimestamp)
		p.DeletionTimestamp.Time = time.Now().Add(5 * time.Second)
		p.DeletionGracePeriodSeconds = &grace
	}
	inWorld(t, func(w *world) {
		w.synced(w.pod("small", 200), w.pod("going", 400, leaving), w.pod("middle", 320))
	}, func(w *world) {
		pass(4 * time.Second)
		same(t, w)
	})
}

// TestRecordSaysWhyAPodWent: what was decided on can be explained later.
func TestRecordSaysWhyAPodWent(t *testing.T) {
	inWorld(t, func(w *world) {
		static := func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }
		w.synced(w.pod("small", 50), w.pod("big", 200), w.pod("middle", 180), w.pod("static", 490, static))
		w.cluster.then = func(verb, name string) { w.gone(name) }
	}, func(w *world) {
		pass(time.Second)
		files, err := os.ReadDir(w.agent.records.dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%d records, %v", len(files), err)
		}
		text, err := os.ReadFile(w.agent.records.dir + "/" + files[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		r, err := record.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Node.Name != "worker-1" || len(r.Pods) != 4 || r.ConfigFrom != record.FromAgent || len(r.Notes) != 2 {
			t.Errorf("the record is %s", text)
		}
		if want := "shop/static was passed over: mirror pod"; !slices.Contains(r.Notes, want) {
			t.Errorf("%q, want %q among it", r.Notes, want)
		}
	})
}

func TestGovernedPodsAreAskedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("member", 920, governedBy("db")))
		w.cluster.answers["evict member"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: 5 * time.Second}
	}, func(w *world) {
		pass(time.Second)
		same(t, w, "request member", "evict member 0s")
	})
}

// TestAStopTakesTheAnnotationBack: a last resort that is given up in the middle leaves nothing that lets others past the policy.
func TestAStopTakesTheAnnotationBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.agent.loop.podUsage.policyOf = func(*resident, time.Time) (bool, v1alpha1.PressureMode) { return true, v1alpha1.PressureLastResort }
		w.synced(w.pod("member", 920, governedBy("db")))
		w.cluster.answers["evict member"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: 5 * time.Second}
		w.cluster.hang, w.cluster.mending = "remove member", time.Second
		w.t.Cleanup(func() {
			if asked := w.cluster.log(); len(asked) == 0 || asked[len(asked)-1] != "mend member" {
				w.t.Errorf("asked %q, want the annotation taken back at last", asked)
			}
		})
	}, func(w *world) {
		pass(time.Second)
		if asked := w.cluster.log(); asked[len(asked)-1] != "break member" {
			w.t.Fatalf("asked %q, want the glass broken and the removal under way", asked)
		}
	})
}

// TestLooksGoOnWhileOthersAreAsked: neither many governed pods nor a slow apiserver keep the agent from its node.
func TestLooksGoOnWhileOthersAreAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		all := []*corev1.Pod{w.pod("big", 300)}
		for i := range 20 {
			all = append(all, w.pod(fmt.Sprintf("member-%d", i), 1, governedBy("db")))
		}
		w.cluster.hang = "withdraw member-7"
		w.synced(all...)
	}, func(w *world) {
		pass(5 * time.Second)
		withdrawn := w.cluster.log()
		w.uses("uid-big", 900)
		pass(time.Second)
		then := w.cluster.log()[len(withdrawn):]
		if len(withdrawn) != 19 || len(then) == 0 || !strings.HasPrefix(then[0], "remove big ") {
			t.Errorf("%d requests were taken back, want 19; then it asked %q, want big removed", len(withdrawn), then)
		}
	})
}

// TestTheEndIsNotHeldUp: a request that does not end when it is given up keeps the agent only a little.
func TestTheEndIsNotHeldUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cluster.hang, w.cluster.deaf = "withdraw member", true
		w.synced(w.pod("member", 100, governedBy("db")))
	}, func(w *world) {
		pass(time.Second)
		w.t.Cleanup(func() {
			if shown := w.cluster.shown; len(shown) == 0 || !shown[len(shown)-1].Over {
				w.t.Errorf("shown %v, want a goodbye at last", shown)
			}
		})
	})
}

// TestRequestsOfAnEarlierLifeAreTakenBack: at once and, as one may still arrive then, when it cannot any more.
func TestRequestsOfAnEarlierLifeAreTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("member", 100, governedBy("db")), w.pod("other", 100))
	}, func(w *world) {
		pass(carriedOutWithin - time.Second)
		same(t, w, "withdraw member")
		pass(time.Hour)
		same(t, w, "withdraw member", "withdraw member")
	})
}
