package policy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
)

// cloud is a system whose members carry servers, which it brings back elsewhere one with each call.
type cloud struct {
	mu    sync.Mutex
	left  int64
	calls []string
}

func (c *cloud) Observe(_ context.Context, members []system.Member) (*eviction.Evidence, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := &eviction.Evidence{System: expression.Facts{"safe": true}, Members: map[string]expression.Facts{}}
	for i := range members {
		said.Members[members[i].ID] = expression.Facts{"left": c.left}
	}
	return said, nil
}

func (c *cloud) Prepare(_ context.Context, step eviction.Preparation) (eviction.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	c.calls = append(c.calls, step.Name+" of "+step.Member.ID)
	return eviction.Job{ID: "1"}, nil
}

func (c *cloud) Undo(_ context.Context, step eviction.Preparation) (eviction.Undone, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "undo "+step.Name+" of "+step.Member.ID)
	return eviction.Undone{Done: true}, nil
}

func (c *cloud) Close() {}

func (c *cloud) said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

func (c *cloud) kind(*v1alpha1.System) (system.Kind, bool) {
	return system.Kind{
		Name: "http", Declared: func(s *v1alpha1.System) bool { return s.HTTP != nil }, Hosts: true, Steps: map[string]string{"Evacuate": "brings servers back"},
		Schema: expression.Schema{
			System: []expression.Field{{Name: "safe", Type: expression.Bool}}, Member: []expression.Field{{Name: "left", Type: expression.Int}},
		},
		Open: func(*v1alpha1.System, system.Access) (system.System, error) { return c, nil },
	}, true
}

// silentNode is a node that is proven off by a fence.
func silentNode(since time.Time) (*corev1.Node, *v1alpha1.NodeFence) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(since)}},
		},
	}
	fence := &v1alpha1.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: "n1-boot-1"}}
	fence.Spec.NodeName, fence.Spec.NodeUID, fence.Spec.BootID, fence.Spec.UnreachableSince = "n1", "n1", "boot-1", metav1.NewTime(since)
	fence.Status.ProvenTime, fence.Status.Taint = new(metav1.NewTime(since.Add(time.Minute))), v1alpha1.TaintByUsher
	return node, fence
}

// What a member on a lost node carries is brought back elsewhere although its pod is gone and the manager is another, until the node answers: that is undone then.
func TestMembersOfALostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{left: 2}
		node, fence := silentNode(time.Now().Add(-10 * time.Minute).Truncate(time.Second))
		pod := newMember("hv-1", "db")
		pod.Spec.NodeName = "n1"
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Spec.Members[0].ID = "pod.node"
			p.Spec.Roles[0].Lost = &v1alpha1.Lost{Prepare: []v1alpha1.Preparation{{Name: "Evacuate", When: "member.left > 0", Message: "{{member.left}} are left", Remaining: "member.left"}}}
		})
		r := newRig(t, interceptor.Funcs{}, policy, pod, node, fence)
		r.of(c)
		r.settled(t, time.Second)
		stored := r.stored(t)
		if len(stored.Status.Preparations) != 1 || stored.Status.Preparations[0].For != v1alpha1.ForLost || !slices.Contains(stored.Finalizers, v1alpha1.UndoFinalizer) {
			t.Fatalf("%+v, held by %v", stored.Status.Preparations, stored.Finalizers)
		}
		if err := r.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		r.settled(t, 2*time.Second)
		r.of(c) // another manager, which knows no answer
		r.settled(t, 5*time.Minute)
		if diff := cmp.Diff([]string{"Evacuate of n1", "Evacuate of n1"}, c.said()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if p := r.stored(t).Status.Preparations; len(p) != 1 || p[0].Job != "1" || p[0].RemainingAtStart != 2 || p[0].Remaining != 0 || p[0].Message != "" {
			t.Errorf("%+v", p)
		}
		node.Status.NodeInfo.BootID, node.Status.Conditions[0].Status = "boot-2", corev1.ConditionTrue
		if err := r.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		r.settled(t, 2*time.Minute)
		if said := c.said(); said[len(said)-1] != "undo Evacuate of n1" {
			t.Errorf("%v", said)
		}
		if p := r.stored(t).Status.Preparations; len(p) > 0 {
			t.Errorf("%+v", p)
		}
	})
}

// A node answers again while the write is under way that announces a step for its loss: nothing is asked for.
func TestANodeAnswersBeforeAStepIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{left: 1}
		node, fence := silentNode(time.Now().Add(-10 * time.Minute).Truncate(time.Second))
		pod := newMember("hv-1", "db")
		pod.Spec.NodeName = "n1"
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Spec.Members[0].ID = "pod.node"
			p.Spec.Roles[0].Lost = &v1alpha1.Lost{Prepare: []v1alpha1.Preparation{{Name: "Evacuate", When: "member.left > 0", Message: "some are left"}}}
		})
		slow := func(ctx context.Context, to client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if err := to.SubResource(sub).Patch(ctx, o, p, options...); err != nil {
				return err
			}
			written, ok := o.(*v1alpha1.EvictionPolicy)
			if ok && slices.ContainsFunc(written.Status.Preparations, func(p v1alpha1.PreparationStatus) bool { return p.LostAsked() }) {
				<-time.After(10 * time.Second)
				node.Status.NodeInfo.BootID, node.Status.Conditions[0].Status = "boot-2", corev1.ConditionTrue
				return to.Status().Update(ctx, node)
			}
			return nil
		}
		r := newRig(t, interceptor.Funcs{SubResourcePatch: slow}, policy, pod, node, fence)
		r.of(c)
		r.settled(t, time.Minute)
		if said := c.said(); node.Status.NodeInfo.BootID != "boot-2" || slices.Contains(said, "Evacuate of n1") {
			t.Errorf("%v; its boot is %s", said, node.Status.NodeInfo.BootID)
		}
	})
}

// of has the controllers ask another system, as a process that has just started.
func (r *rig) of(c *cloud) {
	kinds := policycache.New(r.Client, c.kind, nil)
	o := newOptions(r.Client, r.Client)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: c.kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	o.Gatherer.Policies, o.Gatherer.Observer = kinds, observer
	o.Act.Policies, o.Act.Observer = kinds, observer
	r.reconciler = newReconciler(o, r.Client, r.Client, r.reconciler.events)
}

// A fence wakes the policies that care when it proves its node off, and when it does so no more.
func TestFencesThatMatter(t *testing.T) {
	_, fence := silentNode(time.Now())
	unproven, over, later := fence.DeepCopy(), fence.DeepCopy(), fence.DeepCopy()
	unproven.Status.ProvenTime, over.Status.Step, later.Status.Step = nil, v1alpha1.FenceEnded, v1alpha1.FenceSameBoot
	for name, c := range map[string]struct {
		before, after *v1alpha1.NodeFence
		want          bool
	}{
		"it is proven":          {unproven, fence, true},
		"nothing is proven":     {unproven, unproven, false},
		"it is at another step": {fence, later, true},
		"nothing has changed":   {fence, fence, false},
		"it is over":            {fence, over, true},
	} {
		if got := provesOff().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	r := newRig(t, interceptor.Funcs{}, newPolicy("plain"), newPolicy("cares", func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Roles[0].Lost = &v1alpha1.Lost{}
	}), newPolicy("stands", func(p *v1alpha1.EvictionPolicy) {
		p.Status.Preparations = []v1alpha1.PreparationStatus{{Name: "Evacuate", For: v1alpha1.ForLost}}
	}))
	want := []reconcile.Request{}
	for _, name := range []string{"cares", "stands"} {
		want = append(want, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "prod", Name: name}})
	}
	if diff := cmp.Diff(want, r.reconciler.policiesThatCare(t.Context(), fence)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
