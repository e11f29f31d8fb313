package policy

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// behind is a cache whose watch of policies hangs: it has those of some time ago.
type behind struct {
	client.Reader

	policies []v1alpha1.EvictionPolicy
}

func (b *behind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if policies, ok := list.(*v1alpha1.EvictionPolicyList); ok {
		policies.Items = b.policies
		return nil
	}
	return b.Reader.List(ctx, list, options...)
}

// listing counts the lists of policies past the cache, and can fail them.
type listing struct {
	client.Reader

	broken error
	lists  int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	l.lists++
	if l.broken != nil {
		return l.broken
	}
	return l.Reader.List(ctx, list, options...)
}

// hang has the rig's cache show these policies from now on, whatever is written.
func (r *rig) hang(policies ...*v1alpha1.EvictionPolicy) *listing {
	stale, live := &behind{Reader: r.Client}, &listing{Reader: r.Client}
	for _, policy := range policies {
		stale.policies = append(stale.policies, *policy)
	}
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return rest.Kind(), true }
	policyCache := policycache.New(stale, kinds, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kinds, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	g := &policycache.Gatherer{Policies: policyCache, Observer: observer, Live: live, Now: time.Now}
	r.reconciler.Options = Options{Gatherer: g, Act: &act.Governed{Client: r.Client, Policies: policyCache, Observer: observer, Lifecycle: r.reconciler.Act.Lifecycle, Now: time.Now}, Requests: true}
	return live
}

// A label goes only where no policy guards its pod by a read past the cache: one whose watch hangs lacks a policy that was created, or
// its newest selector, and a pod without the label leaves unjudged. The read is made where a label is about to go, and once for all.
func TestALabelStaysWhileThePolicyIsNotInTheCache(t *testing.T) {
	other := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
		p.Generation, p.Spec.Members[0].Selector.MatchLabels = 2, map[string]string{"app": "other"}
	})
	for name, c := range map[string]struct {
		cached []*v1alpha1.EvictionPolicy
		stored []client.Object
		broken error
		keeps  bool
		lists  int // in two looks
	}{
		"a policy that the cache has not seen":       {stored: []client.Object{newPolicy("db")}, keeps: true, lists: 1},
		"one of another name":                        {stored: []client.Object{newPolicy("db-2")}, keeps: true, lists: 1},
		"a selector that the cache has not seen":     {cached: []*v1alpha1.EvictionPolicy{other}, stored: []client.Object{newPolicy("db")}, keeps: true, lists: 2},
		"the policies cannot be read":                {broken: errors.New("no answer"), keeps: true, lists: 1},
		"there is none":                              {lists: 2}, // and one for the namespace's label
		"there is one, and it does not select them":  {cached: []*v1alpha1.EvictionPolicy{other}, stored: []client.Object{other.DeepCopy()}, lists: 1},
		"all pods are governed, nothing is read":     {cached: []*v1alpha1.EvictionPolicy{newPolicy("db")}, stored: []client.Object{newPolicy("db")}, keeps: true},
		"the cache has one that is gone, as it were": {cached: []*v1alpha1.EvictionPolicy{newPolicy("db")}, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, interceptor.Funcs{}, append(c.stored, newMember("db-0", "db"), newMember("db-1", "db"))...)
				live := r.hang(c.cached...)
				live.broken = c.broken
				_, _ = r.label(t)
				pass(replaceGrace)
				next, err := r.label(t)
				if (err != nil) != (c.broken != nil) || live.lists != c.lists {
					t.Errorf("%d lists, want %d; error %v", live.lists, c.lists, err)
				}
				if behind := c.keeps && c.lists > 0 && c.broken == nil; behind != (next > 0) {
					t.Errorf("looks again in %s", next)
				}
				want := map[string]string{"db-0": "", "db-1": ""}
				if c.keeps {
					want = map[string]string{"db-0": "db", "db-1": "db"}
				}
				if diff := cmp.Diff(want, r.labels(t)); diff != "" {
					t.Error(diff)
				}
				if want := c.keeps || len(c.cached) > 0; r.guarded(t) != want {
					t.Errorf("the namespace is guarded: %t, want %t", r.guarded(t), want)
				}
			})
		})
	}
}

// The namespace's label goes on a read of its own: reading and labelling pods takes a while.
func TestANamespaceStaysGuardedWhileItsPolicyIsNotInTheCache(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, newPolicy("db"))
	live := r.hang()
	if next, err := r.label(t); err != nil || next != replaceGrace || live.lists != 1 || !r.guarded(t) {
		t.Errorf("looks again in %s after %d lists, %v; the namespace is guarded: %t", next, live.lists, err, r.guarded(t))
	}
}
