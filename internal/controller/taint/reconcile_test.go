package taint

import (
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newReconciler sees node n1, whose taint is a minute old, and a policy of the pods with app=db.
func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	objects = append(objects, tainted(noon.Add(-time.Minute)), &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "policy"},
		Spec: v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{{
			Role: "coordinator", ID: "pod.name", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		}}},
	})
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			pod, _ := o.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).
		WithIndex(&corev1.Pod{}, wiring.GovernedNode, wiring.NodeOfGoverned).
		WithIndex(&api.EvictionRequest{}, targets.Field, targets.IndexPod).WithIndex(&api.Eviction{}, targets.Field, targets.IndexPod).Build()
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return system.Kind{Name: "http"}, true }
	now := func() time.Time { return noon }
	policyCache := policycache.New(store, kinds, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kinds, Now: now, Log: slog.New(slog.DiscardHandler)})
	return &Reconciler{
		Options: Options{
			Gatherer: &policycache.Gatherer{Policies: policyCache, Observer: observer, Live: store, Now: now},
			Act:      &act.Governed{Client: store, Policies: policyCache, Observer: observer, Lifecycle: lifecycleapi.Usher, Now: now},
		},
		client: store, live: store, seen: map[seenTaint]time.Time{},
	}
}

func tainted(since time.Time) *corev1.Node {
	added := metav1.NewTime(since)
	taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
}

// member is a governed pod on n1 that tolerates the taint for so many seconds, and that Kubernetes has tried to evict.
func member(name string, seconds int64, mutate ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels: map[string]string{"app": "db", v1alpha1.PolicyLabel: "db"},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		}}},
	}
	for _, f := range mutate {
		f(pod)
	}
	return pod
}

func disrupted(status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = status, reason }
}

func (r *Reconciler) look(t *testing.T) (requested []string, next time.Duration) {
	t.Helper()
	result, err := r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	var all api.EvictionRequestList
	if err := r.client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		request := &all.Items[i]
		if _, made := evictionrequest.LastRequestTime(request); made && request.Spec.Requester == evictionrequest.Requester(evictor) {
			requested = append(requested, request.Spec.Target.Pod.Name)
		}
	}
	return requested, result.RequeueAfter
}

// What Kubernetes has asked for while no replica answered is asked for again, for those pods alone that it meant.
func TestMissedEvictionsAreRequested(t *testing.T) {
	forever := func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = nil }
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		requested bool
		next      time.Duration
	}{
		"its toleration has run out":      {pod: member("db-0", 15), requested: true, next: again},
		"two minutes after the try":       {pod: member("db-0", 15, disrupted(corev1.ConditionFalse, "")), requested: true, next: again},
		"no try was seen":                 {pod: member("db-0", 15, func(p *corev1.Pod) { p.Status.Conditions = nil }), next: again},
		"it was preempted":                {pod: member("db-0", 15, disrupted(corev1.ConditionTrue, "PreemptionByScheduler")), next: again},
		"a moment ago":                    {pod: member("db-0", 55), next: 5 * time.Second},
		"it has not":                      {pod: member("db-0", 300), next: 250 * time.Second},
		"it has none":                     {pod: member("db-0", 0, func(p *corev1.Pod) { p.Spec.Tolerations = nil }), requested: true, next: again},
		"it tolerates the taint for good": {pod: member("db-0", 0, forever)},
		"it is terminating": {pod: member("db-0", 15, func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
		}), next: again},
		"it has ended":          {pod: member("db-0", 15, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), next: again},
		"another node":          {pod: member("db-0", 15, func(p *corev1.Pod) { p.Spec.NodeName = "n2" })},
		"no label":              {pod: member("db-0", 15, func(p *corev1.Pod) { delete(p.Labels, v1alpha1.PolicyLabel) })},
		"no policy selects it":  {pod: member("db-0", 15, func(p *corev1.Pod) { p.Labels["app"] = "web" }), next: again},
		"another namespace's":   {pod: member("db-0", 15, func(p *corev1.Pod) { p.Namespace = "else" }), next: again},
		"it came after the end": {pod: member("db-0", 15, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon) }), next: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(t, c.pod)
			requested, next := r.look(t)
			if (len(requested) == 1) != c.requested || next != c.next {
				t.Errorf("requested %v, looks again in %s", requested, next)
			}
		})
	}
}

// What was withdrawn is asked for again where the manager has withdrawn it, whatever for, and where no other did so.
func TestWithdrawnRequests(t *testing.T) {
	key := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "shop", Name: "db-0", UID: "db-0"}, evictionrequest.Requester(evictor))
	withdraw := eviction.Action{
		Kind: eviction.Withdraw, Policy: snapshot.Key{Namespace: "shop", Name: "db"}, Pod: snapshot.Key{Namespace: "shop", Name: "db-0"},
		UID: "db-0", Requester: key.Spec.Requester,
	}
	byHand := func(t *testing.T, r *Reconciler) {
		t.Helper()
		request := &api.EvictionRequest{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(key), request); err != nil {
			t.Fatal(err)
		}
		for _, intent := range []api.EvictionRequestIntent{api.EvictionRequestIntentEviction, api.EvictionRequestIntentWithdrawn} {
			request.Spec.Intent = intent
			if err := r.client.Update(t.Context(), request, client.FieldOwner("kubectl-edit")); err != nil {
				t.Fatal(err)
			}
		}
	}
	byManager := func(t *testing.T, r *Reconciler) {
		t.Helper()
		if answer := r.Act.Do(t.Context(), withdraw); answer.Code != answers.Accepted {
			t.Fatal(answer)
		}
	}
	type hand = func(*testing.T, *Reconciler)
	for name, c := range map[string]struct {
		hands []hand
		want  api.EvictionRequestIntent
	}{
		"no writer":                      {nil, api.EvictionRequestIntentEviction},
		"by the manager":                 {[]hand{byManager}, api.EvictionRequestIntentEviction},
		"by hand":                        {[]hand{byHand}, api.EvictionRequestIntentWithdrawn},
		"by hand, after the manager did": {[]hand{byManager, byHand}, api.EvictionRequestIntentWithdrawn},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(t, member("db-0", 15))
			r.look(t)
			for _, withdraw := range c.hands {
				withdraw(t, r)
			}
			if _, next := r.look(t); next != again {
				t.Errorf("looks again in %s, want %s", next, again)
			}
			request := &api.EvictionRequest{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(key), request); err != nil || request.Spec.Intent != c.want {
				t.Errorf("intent %s, error %v, want %s", request.Spec.Intent, err, c.want)
			}
		})
	}
}

// A request that is gone is made again.
func TestDeletedRequestsAreMadeAgain(t *testing.T) {
	r := newReconciler(t, member("db-0", 15))
	r.look(t)
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "shop", Name: "db-0", UID: "db-0"}, evictionrequest.Requester(evictor))
	if err := r.client.Delete(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if requested, _ := r.look(t); len(requested) != 1 {
		t.Errorf("requested %v", requested)
	}
}

// A taint that does not say when it was added counts from when it was seen first.
func TestATaintWithoutATimeCountsFromWhenItWasSeen(t *testing.T) {
	r := newReconciler(t)
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	first := r.since("n1", noon)(&taint)
	if again := r.since("n1", noon.Add(time.Minute))(&taint); !again.Equal(first) || !first.Equal(noon) {
		t.Errorf("since %s, then since %s", first, again)
	}
	r.forget("n1", nil)
	if again := r.since("n1", noon.Add(time.Minute))(&taint); !again.Equal(noon.Add(time.Minute)) {
		t.Errorf("a taint that is back counts from %s", again)
	}
	ahead := metav1.NewTime(noon.AddDate(70, 0, 0))
	if got := r.since("n1", noon)(&corev1.Taint{Key: "b", TimeAdded: &ahead}); !got.Equal(noon) {
		t.Errorf("a taint from the future counts from %s", got)
	}
}

func TestPodsThatBecomeGovernedWakeIt(t *testing.T) {
	wakes, governed := becomesGoverned(), member("db-0", 15)
	free, waiting := member("db-0", 15, func(p *corev1.Pod) { p.Labels = nil }), member("db-0", 15, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"its policy has come back": {free, governed, true}, "bound": {waiting, governed, true}, "let go": {governed, free, false},
		"nothing": {governed, governed, false}, "not governed": {free, free, false},
		"another of the name": {member("db-0", 15, func(p *corev1.Pod) { p.UID = "former" }), governed, true},
	} {
		if got := wakes.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !wakes.Create(event.CreateEvent{Object: governed}) || wakes.Create(event.CreateEvent{Object: free}) || wakes.Create(event.CreateEvent{Object: waiting}) {
		t.Error("pods that are first seen")
	}
	if keys := append(nodeOf(t.Context(), governed), nodeOf(t.Context(), free)...); len(keys) != 1 || keys[0].Name != "n1" {
		t.Errorf("wakes %v", keys)
	}
}

func TestOnlyTaintsWakeIt(t *testing.T) {
	wakes, bare := taintsChange(), tainted(noon)
	bare.Spec.Taints = nil
	cordoned := bare.DeepCopy()
	cordoned.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	if !wakes.Create(event.CreateEvent{Object: tainted(noon)}) || wakes.Create(event.CreateEvent{Object: bare}) {
		t.Error("nodes that are first seen")
	}
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"tainted": {bare, tainted(noon), true}, "over": {tainted(noon), bare, true},
		"cordoned": {bare, cordoned, false}, "nothing": {tainted(noon), tainted(noon), false},
	} {
		if got := wakes.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What the taint of a node that is off asked for while no replica answered is made up for as well: it is tolerated by none of these.
func TestMissedEvictionsFromANodeThatIsOff(t *testing.T) {
	r := newReconciler(t, member("db-0", 300))
	var node corev1.Node
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
		t.Fatal(err)
	}
	added := metav1.NewTime(noon.Add(-time.Minute))
	off := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: v1alpha1.OutOfServiceValue, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	if requested, _ := r.look(t); len(requested) != 0 {
		t.Errorf("requested %v while the toleration runs", requested)
	}
	before := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, off)
	if !taintsChange().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: &node}) || !taintsChange().Create(event.CreateEvent{Object: &node}) {
		t.Error("the taint wakes nothing")
	}
	if err := r.client.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	if requested, _ := r.look(t); len(requested) != 1 {
		t.Errorf("requested %v", requested)
	}
}
