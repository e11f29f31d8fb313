package responder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// newPod is a pod of the namespace of policy db, which claims those of app db.
func newPod(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
}

func requestFor(pod string) client.Object {
	return evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "db", Name: pod, UID: types.UID(pod)}, "test.example.com/jane")
}

// looks lets the responder look at pods.
func (r *rig) looks(t *testing.T, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		if _, err := r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "db", Name: pod}}); err != nil {
			t.Fatal(err)
		}
	}
}

func names(keys []reconcile.Request) []string {
	var all []string
	for _, key := range keys {
		all = append(all, key.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestWhatAnEventWakes: all pods to which an event may make a difference are looked at, and no others of those that are wanted gone.
func TestWhatAnEventWakes(t *testing.T) {
	other := newPolicy()
	other.Name, other.UID, other.Spec.Members[0].Selector = "cache", "other", metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}}
	both := newPolicy()
	both.Name, both.UID, both.Spec.Members[0].Selector = "shared", "shared", metav1.LabelSelector{MatchLabels: map[string]string{"shared": "true"}}
	twice := newPod("twice-0", "db")
	twice.Labels["shared"] = "true"
	former := newPod("former-0", "web") // the other policy's status names it
	other.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "former-0", PodName: "former-0", PodUID: "former-0"}, StartTime: metav1.Now()}}
	unwanted := newPod("db-2", "db")
	r := newRig(t, interceptor.Funcs{}, other, both, newPod("db-1", "db"), unwanted, newPod("cache-0", "cache"), newPod("web-0", "web"), twice, former,
		requestFor("db-1"), requestFor("cache-0"), requestFor("web-0"), requestFor("twice-0"), requestFor("gone-0"))
	r.looks(t, "db-0", "db-1", "cache-0", "web-0", "twice-0", "gone-0")
	s := r.reconciler
	all := []string{"cache-0", "db-0", "db-1", "gone-0", "twice-0", "web-0"}
	labelled := newPod("web-1", "web")
	labelled.Labels[v1alpha1.PolicyLabel] = "db"
	for name, c := range map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"a policy, or what its system says":                      {s.judgedBy(t.Context(), newPolicy()), []string{"db-0", "db-1"}},
		"another":                                                {s.judgedBy(t.Context(), other), []string{"cache-0"}},
		"a policy's spec":                                        {s.beside(t.Context(), newPolicy()), all},
		"a member that is wanted gone":                           {s.itselfAndPeers(t.Context(), newPod("db-1", "db")), []string{"db-0", "db-1"}},
		"a member that is not":                                   {s.itselfAndPeers(t.Context(), unwanted), []string{"db-0", "db-1"}},
		"a pod that only the label calls a member":               {s.itselfAndPeers(t.Context(), labelled), []string{"db-0", "db-1", "web-1"}},
		"a pod that two policies claim":                          {s.itselfAndPeers(t.Context(), twice), []string{"db-0", "db-1", "twice-0"}},
		"a pod of no policy":                                     {s.itselfAndPeers(t.Context(), newPod("web-0", "web")), []string{"web-0"}},
		"a pod of no policy that is not wanted gone":             {s.itselfAndPeers(t.Context(), newPod("web-1", "web")), nil},
		"a pod of no policy that a status speaks of":             {s.itselfAndPeers(t.Context(), former), []string{"cache-0"}},
		"a pod that has come under the name of one that is gone": {s.itselfAndPeers(t.Context(), newPod("gone-0", "web")), []string{"gone-0"}},
	} {
		if diff := cmp.Diff(c.want, names(c.got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPodsUnderALookAreWokenByAll: a pod of which it is not known which policy judges it may be judged by any.
func TestPodsUnderALookAreWokenByAll(t *testing.T) {
	var during []string
	var r *rig
	broken := errors.New("broken")
	faults := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, reads := list.(*v1alpha1.EvictionPolicyList); reads && r != nil {
			during = names(r.reconciler.judgedBy(ctx, &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "new"}}))
			return broken
		}
		return c.List(ctx, list, options...)
	}}
	r = newRig(t, faults)
	if _, err := r.look(t); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db-0"}, during); diff != "" {
		t.Errorf("while it is looked at: %s", diff)
	}
	if diff := cmp.Diff([]string{"db-0"}, names(r.reconciler.waiting.of("db", "new"))); diff != "" {
		t.Errorf("after that has failed: %s", diff)
	}
}

// TestNotWantedAnyMore: nothing is kept of pods that are not wanted gone.
func TestNotWantedAnyMore(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, newPod("db-1", "db"), requestFor("db-1"))
	r.looks(t, "db-1")
	if err := r.store.Delete(t.Context(), requestFor("db-1")); err != nil {
		t.Fatal(err)
	}
	r.looks(t, "db-1")
	if w := r.reconciler.waiting; len(w.policies)+len(w.pods) > 0 {
		t.Errorf("%v %v", w.policies, w.pods)
	}
}

// TestEventsCostDoesNotGrowWithRequests: of how many requests there are for other pods it does not depend what an event has the cache hand
// out, nor how many pods it wakes.
func TestEventsCostDoesNotGrowWithRequests(t *testing.T) {
	cost := func(requests int) (objects int, woken []string) {
		counting := interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				objects += meta.LenList(list)
				return err
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				objects++
				return c.Get(ctx, key, o, options...)
			},
		}
		var all []client.Object
		var pods []string
		for i := range requests {
			pods = append(pods, fmt.Sprint("web-", i))
			all = append(all, newPod(pods[i], "web"), requestFor(pods[i]))
		}
		r := newRig(t, counting, all...)
		r.looks(t, append(pods, "db-0")...)
		objects = 0
		for _, keys := range [][]reconcile.Request{
			r.reconciler.judgedBy(t.Context(), newPolicy()), r.reconciler.itselfAndPeers(t.Context(), newPod("db-1", "db")),
		} {
			woken = append(woken, names(keys)...)
		}
		return objects, woken
	}
	few, wokenByFew := cost(10)
	many, wokenByMany := cost(200)
	if few != many {
		t.Errorf("with 10 requests %d objects are read, with 200 %d", few, many)
	}
	if diff := cmp.Diff(wokenByFew, wokenByMany); diff != "" {
		t.Errorf("woken: %s", diff)
	}
}

func TestWaitingMoves(t *testing.T) {
	w, pod := newWaiting(), snapshot.Key{Namespace: "db", Name: "db-0"}
	for _, policy := range []string{undecided, "db", "db", noPolicy, "cache"} {
		w.set(pod, policy)
	}
	if got := names(w.of("db", "db")); len(got) > 0 {
		t.Errorf("its former policy wakes %v", got)
	}
	if got := names(w.of("db", "cache")); len(got) != 1 {
		t.Errorf("its policy wakes %v", got)
	}
}
