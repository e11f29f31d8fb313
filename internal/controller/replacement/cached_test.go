package replacement

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// waits is a request that waits for node n1, which does not report, and what the cache has.
type waits struct {
	request *v1alpha1.ReplacementRequest
	node    *corev1.Node
	policy  *v1alpha1.EvictionPolicy
	pod     *corev1.Pod
	looked  time.Time
}

func waitsForNode(change func(*waits)) *waits {
	w := &waits{
		request: &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "q"}},
		node:    &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}},
		policy:  &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "p"}},
		pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p2"}},
		looked:  noon.Add(-time.Second),
	}
	w.request.Spec.Source.Name = "db"
	w.request.Status.Places = []v1alpha1.ReplacementPlace{{Node: "n1", NodeUID: "n1"}}
	in := replacement.StepInput{
		Now: noon, Set: replacement.Set{Name: "db", Makes: replacement.Yes}, Member: v1alpha1.MemberRef{PodName: "db-0"},
		Pod: &replacement.NamedPod{UID: "p1", Node: replacement.Node{Name: "n1", UID: "n1", State: replacement.NodeLost}},
	}
	result := replacement.Step(in)
	status := replacement.Reported(&w.request.Status, 1, &in, &result)
	w.request.Status.Blockers, w.request.Status.Conditions = status.Blockers, status.Conditions
	w.ready(corev1.ConditionUnknown)
	change(w)
	return w
}

func (w *waits) ready(is corev1.ConditionStatus) {
	w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
}

func (w *waits) joins(registration *v1alpha1.MemberRegistration) {
	w.request.Status.Step = v1alpha1.ReplacementJoining
	w.request.Status.Predecessor = &v1alpha1.ReplacementPredecessor{PodName: "db-0", StatefulSet: "db", Registration: registration}
}

// A request is left alone only for a while, and only as long as the cache shows what its status says that it waits for.
func TestStands(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*waits)
		want   time.Duration
	}{
		"the node is silent":            {func(*waits) {}, anyway - time.Second},
		"it was not looked at for long": {func(w *waits) { w.looked = noon.Add(-anyway) }, 0},
		"it was never looked at":        {func(w *waits) { w.looked = time.Time{} }, 0},
		"it was deleted": {func(w *waits) {
			w.request.DeletionTimestamp, w.request.Finalizers = &metav1.Time{Time: noon}, []string{v1alpha1.ReplacementFinalizer}
		}, 0},
		"data is given up": {func(w *waits) { w.request.Generation = 1 }, 0},
		"the node reports": {func(w *waits) { w.ready(corev1.ConditionTrue) }, 0},
		"the node is not ready, which its status does not say": {func(w *waits) { w.ready(corev1.ConditionFalse) }, 0},
		"the node is another":        {func(w *waits) { w.node.UID = "n2" }, 0},
		"the node is gone":           {func(w *waits) { w.node.Name = "n2" }, 0},
		"its status does not say so": {func(w *waits) { w.request.Status.Blockers = nil }, 0},
		"it has a permit":            {func(w *waits) { w.policy.Status.Replacing = []v1alpha1.Replacing{{RequestUID: "q"}} }, 0},
		"the policy is gone":         {func(w *waits) { w.policy.Name = "other" }, 0},
		"the predecessor is removed": {func(w *waits) { w.joins(nil); w.request.Status.Step = v1alpha1.ReplacementRemoving }, 0},
		"the predecessor has gone": {func(w *waits) {
			w.joins(nil)
			w.request.Status.Step = v1alpha1.ReplacementRemoving
			w.pod.Name = "db-1"
		}, later - time.Second},
		"the predecessor goes": {func(w *waits) {
			w.joins(nil)
			w.request.Status.Step, w.request.Status.Predecessor.PodUID = v1alpha1.ReplacementRemoving, "p2"
			w.pod.DeletionTimestamp, w.pod.Finalizers = &metav1.Time{Time: noon}, []string{"held"}
		}, later - time.Second},
		"no successor is there":       {func(w *waits) { w.joins(nil); w.pod.Name = "db-1" }, later - time.Second},
		"the successor is on no node": {func(w *waits) { w.joins(nil) }, later - time.Second},
		"… for long":                  {func(w *waits) { w.joins(nil); w.looked = noon.Add(-later) }, 0},
		"the successor starts":        {func(w *waits) { w.joins(nil); w.pod.Spec.NodeName = "n2" }, later - time.Second},
		"… and is to be on a list":    {func(w *waits) { w.joins(&v1alpha1.MemberRegistration{ID: "1"}); w.pod.Spec.NodeName = "n2" }, 0},
		"the successor is Ready": {func(w *waits) {
			w.joins(nil)
			w.pod.Spec.NodeName = "n2"
			w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitsForNode(c.change)
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.request, w.node, w.policy, w.pod).Build()
			r := &reconciler{client: cached}
			r.Gatherer, r.Now = &policycache.Gatherer{Policies: policycache.New(cached, nil, nil)}, func() time.Time { return noon }
			r.known.looked("q", w.looked)
			got, err := r.stands(t.Context(), w.request)
			if err != nil || got != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// The cache's request counts unless the apiserver has returned a later one of the same UID.
func TestLatestRequest(t *testing.T) {
	of := func(uid types.UID, version string) *v1alpha1.ReplacementRequest {
		return &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	for name, c := range map[string]struct {
		noted []*v1alpha1.ReplacementRequest
		want  string
	}{
		"nothing was noted":           {want: "10"},
		"an earlier one":              {noted: []*v1alpha1.ReplacementRequest{of("q", "9")}, want: "10"},
		"a later one":                 {noted: []*v1alpha1.ReplacementRequest{of("q", "11")}, want: "11"},
		"the last that was noted":     {noted: []*v1alpha1.ReplacementRequest{of("q", "12"), of("q", "11")}, want: "11"},
		"a later one of another name": {noted: []*v1alpha1.ReplacementRequest{of("q2", "11")}, want: "10"},
	} {
		t.Run(name, func(t *testing.T) {
			var k knowledge
			for _, q := range c.noted {
				k.note(q)
			}
			if got := k.latest(of("q", "10")).ResourceVersion; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := k.latest(of("q", "20")).ResourceVersion; got != "20" || k.versions["q"] != nil {
				t.Errorf("%s, want what the cache has by then, and nothing kept", got)
			}
		})
	}
}

// What is remembered of requests beside the cache is bounded as that is.
func TestLargeRequestsAreNotRemembered(t *testing.T) {
	large := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{
		UID: "q", ResourceVersion: "11", Finalizers: []string{"example.com/held", v1alpha1.ReplacementFinalizer},
		Labels: map[string]string{"large": "x"}, Annotations: map[string]string{"large": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
	var k knowledge
	k.note(large)
	got := k.latest(&v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{UID: "q", ResourceVersion: "10"}})
	if len(got.Labels)+len(got.Annotations)+len(got.ManagedFields) > 0 || len(got.Finalizers) != 2 {
		t.Errorf("%+v", got.ObjectMeta)
	}
}

// A look is kept for the next one where little is kept with it: what its owner has made large is read again.
func TestLargeLooksAreNotKept(t *testing.T) {
	large := map[string]string{"large": strings.Repeat("x", mostLook)}
	for name, c := range map[string]struct {
		change func(*look)
		kept   bool
	}{
		"a small one":        {func(*look) {}, true},
		"without a pod":      {func(l *look) { l.pod, l.made, l.template = nil, nil, nil }, true},
		"of a large pod":     {func(l *look) { l.pod.Annotations = large }, false},
		"of a large set":     {func(l *look) { l.made.Annotations = large }, false},
		"of a large spec":    {func(l *look) { l.template.Subdomain = large["large"] }, false},
		"of a large request": {func(l *look) { l.request.Annotations = large }, true},
	} {
		l := &look{request: &v1alpha1.ReplacementRequest{}, pod: &corev1.Pod{}, made: &corev1.Pod{}, template: &corev1.PodSpec{}}
		c.change(l)
		var k knowledge
		k.hold(l)
		got := k.held("")
		if (got != nil) != c.kept || got != nil && len(got.request.Annotations) > 0 {
			t.Errorf("%s: %+v, want it kept %t", name, got, c.kept)
		}
	}
}
