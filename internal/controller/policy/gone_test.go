package policy

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// restoring is a system that undoes what it is asked to undo, once it may.
type restoring struct {
	mute
	hangs  bool
	undone []string
	calls  atomic.Int32
}

func (s *restoring) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	s.calls.Add(1)
	if s.hangs {
		return s.mute.Undo(ctx, step)
	}
	s.undone = append(s.undone, string(step.Member.PodUID))
	return eviction.Undone{Done: true}, nil
}

// newReplaced is the controller of a policy whose member was prepared and has left, and is back in another pod that is Ready. It returns what
// it writes of the policy's status.
func newReplaced(t *testing.T, s *restoring) (r *rig, writes *[]string) {
	t.Helper()
	long := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	former := v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "former"}
	policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Evidence.Timeout.Duration = 30 * time.Second
		p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: former, StartTime: long, Requester: "jane"}}
		p.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: former, Name: "Empty", State: v1alpha1.PreparationBegun, StartTime: long, LastRequestTime: long}}
		p.Status.Blocked = []v1alpha1.BlockedMember{{MemberRef: former, Rule: "safe", Reason: "Unsafe"}}
	})
	back := newMember("db-0", "db")
	back.UID = "back"
	back.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	writes = new([]string)
	r = newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
		body, err := p.Data(o)
		*writes = append(*writes, string(body))
		return errors.Join(err, c.SubResource(resource).Patch(ctx, o, p, options...))
	}}, policy, back)
	kind := func(*v1alpha1.System) (system.Kind, bool) {
		kind := rest.Kind()
		kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return s, nil }
		return kind, true
	}
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	r.reconciler.Act.Observer, r.reconciler.Gatherer.Observer = observer, observer
	r.reconciler.Act.Answered = func(*v1alpha1.EvictionPolicy) {}
	return r, writes
}

// The end of a permit, of what was prepared for its pod, and in which pod the member is now, are one write.
func TestPermitAndPreparationEndInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &restoring{}
		r, writes := newReplaced(t, s)
		r.settled(t, 20*time.Second)
		left := r.stored(t).Status
		if len(left.Leaving)+len(left.Preparations) > 0 || left.Epoch != 2 || !slices.Equal(s.undone, []string{"back"}) {
			t.Fatalf("left: %+v; undone for %v", left, s.undone)
		}
		ends := slices.DeleteFunc(*writes, func(w string) bool { return !strings.Contains(w, `"leaving"`) })
		if len(ends) != 1 || len(left.Blocked) != 1 || left.Blocked[0].PodUID != "back" || !strings.Contains(ends[0], `"back"`) {
			t.Errorf("written: %q", *writes)
		}
	})
}

// A system that does not answer keeps no other member waiting: the permit ends, and the preparation is marked.
func TestHangingUndoKeepsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &restoring{hangs: true}
		r, _ := newReplaced(t, s)
		r.settled(t, 9*time.Second)
		if left := r.stored(t).Status; len(left.Leaving) != 1 || left.Preparations[0].State != v1alpha1.PreparationBegun || s.calls.Load() != 1 {
			t.Errorf("at first: %+v after %d calls", left, s.calls.Load())
		}
		r.settled(t, 2*time.Second)
		left := r.stored(t).Status
		if len(left.Leaving) > 0 || len(left.Preparations) != 1 || left.Preparations[0].State != v1alpha1.PreparationUndoing || left.Preparations[0].PodUID != "back" {
			t.Errorf("after the bound: %+v", left)
		}
		pass(time.Minute)
	})
}

// The list of blocked members names the pods in which they are now, also while they are not judged anew.
func TestFormerlyBlockedMembersAreInTheirPods(t *testing.T) {
	f := newFacts(t, 3)
	f.evidence.System["safe"] = false
	f.policy.Status = f.seen()
	f.policy.Status.Epoch++
	f.pods[0].UID, f.pods[0].Node = "moved", "elsewhere"
	f.pods[1].UID, f.pods[1].Deletion = "moved-and-terminating", present
	got := f.unjudged()
	if got == nil || got.Blocked[0].PodUID != "moved" || got.Blocked[0].Node != "elsewhere" || got.Blocked[1].PodUID == "moved-and-terminating" {
		t.Fatalf("%+v", got)
	}
	f.policy.Status = *got
	if again := f.unjudged(); again != nil {
		t.Errorf("written again: %+v", again)
	}
}

// The list has each pod once, as its schema insists: one that is listed already is not the pod in which another member is, and what has no id
// is nowhere else.
func TestFormerlyBlockedMembersAreListedOnce(t *testing.T) {
	for name, id := range map[string]string{"two pods have one id": `"same"`, "no pod has an id": `pod.labels["id"]`} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t, 3, func(p *v1alpha1.EvictionPolicy) { p.Spec.Members[0].ID = id })
			f.evidence.System["safe"] = false
			f.policy.Status = f.seen()
			f.policy.Status.Epoch++
			f.pods = f.pods[2:]
			listed := map[v1alpha1.MemberRef]bool{}
			for _, blocked := range f.formerlyBlocked() {
				key := v1alpha1.MemberRef{Role: blocked.Role, ID: blocked.ID, PodUID: blocked.PodUID}
				if listed[key] {
					t.Errorf("listed twice: %+v", blocked)
				}
				listed[key] = true
			}
			if len(listed) != 3 {
				t.Errorf("listed: %v", listed)
			}
		})
	}
}
