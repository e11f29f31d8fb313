package lostnode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/snapshot"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// rig is the controllers over a store with node n1, which is silent, its pod, a policy and what controls its power.
type rig struct {
	*reconciler
	now    time.Time
	off    bool
	asked  int
	writes int
	// most is how many writes succeed before the process is killed; negative: all.
	most int
}

var errKilled = errors.New("the process was killed")

func (r *rig) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPost {
		r.asked++
		r.off = true
		return
	}
	fmt.Fprintf(w, `{"off":%t}`, r.off)
}

func (r *rig) written() error {
	if r.most >= 0 && r.writes >= r.most {
		return errKilled
	}
	r.writes++
	return nil
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{now: noon, most: -1}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}
	node.Status.NodeInfo.BootID = "boot-1"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	policy := &v1alpha1.LostNodePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: v1alpha1.LostNodePolicySpec{MaxPerZone: 1, Fence: v1alpha1.Fence{HTTP: &v1alpha1.HTTPFence{
			Method: "POST", URL: server.URL + "/{{node.name}}", Observe: v1alpha1.HTTPObservation{URL: server.URL + "/{{node.name}}", Until: "answer.off"},
		}}},
	}
	renewed := metav1.NewMicroTime(noon.Add(-time.Hour))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, node, policy, lease, pod)...).
		WithStatusSubresource(&v1alpha1.NodeFence{}, &v1alpha1.LostNodePolicy{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			pod, _ := o.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				return errors.Join(r.written(), c.Create(ctx, o, options...))
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if err := r.written(); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
				if err := r.written(); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, o, options...)
			},
		}).Build()
	r.reconciler = &reconciler{
		Options: Options{
			Act: &act.Fences{Client: store, Now: func() time.Time { return r.now }}, Loopback: true, Now: func() time.Time { return r.now },
			Namespace: "usher-system", Self: "system:serviceaccount:usher-system:usher-manager",
			Secret: func(context.Context, snapshot.Key) (*corev1.Secret, error) { return nil, errors.New("none") },
		},
		client: store, live: store, events: events.NewFakeRecorder(1000),
	}
	return r
}

// turn is a turn of both controllers.
func (r *rig) turn(t *testing.T) {
	t.Helper()
	_, _ = r.begin(t.Context(), everything[0])
	if fence := r.fence(t); fence != nil {
		_, _ = r.step(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(fence)})
	}
	r.now = r.now.Add(5 * time.Second)
}

func (r *rig) fence(t *testing.T) *v1alpha1.NodeFence {
	t.Helper()
	var list v1alpha1.NodeFenceList
	if err := r.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	if len(list.Items) > 1 {
		t.Fatalf("%d fences of one silence", len(list.Items))
	}
	return &list.Items[0]
}

func (r *rig) tainted(t *testing.T) bool {
	t.Helper()
	var node corev1.Node
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
		t.Fatal(err)
	}
	return len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Value == v1alpha1.OutOfServiceValue
}

// A manager that is killed before any of its writes goes on: the machine is asked once, tainted after it was off, and untainted when it
// has booted anew.
func TestKilledBeforeEveryWrite(t *testing.T) {
	for most := range 12 {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := newRig(t)
			r.most = most
			r.turn(t)
			if r.tainted(t) && !r.off {
				t.Fatal("tainted before it was off")
			}
			r.most = -1
			for range 5 {
				r.turn(t)
			}
			fence := r.fence(t)
			if fence.Status.Step != v1alpha1.FenceWaitingForPods || !r.tainted(t) || r.asked > 1 {
				t.Fatalf("at %s, tainted %t, asked %d times: %+v", fence.Status.Step, r.tainted(t), r.asked, fence.Status)
			}
			r.clear(t)
			r.turn(t)
			if fence = r.fence(t); fence.Status.Step != v1alpha1.FenceWaitingForNewBoot {
				t.Fatalf("at %s", fence.Status.Step)
			}
			r.boot(t)
			for range 3 {
				r.turn(t)
			}
			if fence = r.fence(t); fence.Status.Step != v1alpha1.FenceEnded || r.tainted(t) || len(fence.Finalizers) > 0 {
				t.Fatalf("at %s, tainted %t, %v", fence.Status.Step, r.tainted(t), fence.Finalizers)
			}
		})
	}
}

func (r *rig) clear(t *testing.T) {
	t.Helper()
	if err := r.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) boot(t *testing.T) {
	t.Helper()
	var node corev1.Node
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Status.NodeInfo.BootID = "boot-2"
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(r.now)
	if err := r.client.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// What tolerates the taint stays, and what has ended holds nothing.
func TestPodsThatAreLeft(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
		change(p)
		return p
	}
	tolerates := func(seconds *int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds}}
		}
	}
	r := newRig(t, pod("agent", tolerates(nil)), pod("for-a-while", tolerates(new(int64(30)))), pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }))
	left := r.pods(t.Context(), "n1")
	if got := strings.Join(left.Names, " "); !left.Known || got != "shop/db-0 shop/for-a-while" {
		t.Errorf("left: %+v", left)
	}
}

// Without the optional role nothing is begun, and the policy says what to type.
func TestWithoutRights(t *testing.T) {
	r := newRig(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "usher.sh", Resource: "nodefences"}, "n1", errors.New(`User "usher-manager" cannot create resource`))
	refusing := interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return forbidden },
	})
	r.Act = &act.Fences{Client: refusing, Now: r.Now}
	r.turn(t)
	var policy v1alpha1.LostNodePolicy
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "all"}, &policy); err != nil {
		t.Fatal(err)
	}
	want := "kubectl create clusterrolebinding usher-lost-nodes --clusterrole=usher-lost-nodes --serviceaccount=usher-system:usher-manager"
	if message := policy.Status.Conditions[0].Message; !strings.Contains(message, want) {
		t.Error(message)
	}
	if r.asked > 0 || r.fence(t) != nil {
		t.Errorf("asked %d times", r.asked)
	}
}

// A policy whose template cannot be used says so, and fences nothing.
func TestAPolicyThatCannotBeUsed(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.Fence){
		"spec.fence.http: url":    func(f *v1alpha1.Fence) { f.HTTP.URL = "http://bmc/{{node.nme}}" },
		"spec.fence.ironic.node:": func(f *v1alpha1.Fence) { f.HTTP, f.Ironic = nil, &v1alpha1.IronicFence{Node: "{{node.nme}}"} },
	} {
		r := newRig(t)
		r.respecify(t, change)
		r.turn(t)
		var policy v1alpha1.LostNodePolicy
		if err := r.client.Get(t.Context(), client.ObjectKey{Name: "all"}, &policy); err != nil {
			t.Fatal(err)
		}
		if message := policy.Status.Conditions[0].Message; !strings.Contains(message, field) || !strings.Contains(message, "there is no fact 'nme'") {
			t.Error(message)
		}
		if r.fence(t) != nil {
			t.Error("it fences")
		}
	}
}

// respecify changes the policy's fence.
func (r *rig) respecify(t *testing.T, change func(*v1alpha1.Fence)) {
	t.Helper()
	var policy v1alpha1.LostNodePolicy
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "all"}, &policy); err != nil {
		t.Fatal(err)
	}
	change(&policy.Spec.Fence)
	if err := r.client.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
}

// Without its Secret a fence of Ironic proves nothing, sends nothing and says what is missing.
func TestIronicWithoutItsSecret(t *testing.T) {
	r := newRig(t)
	r.respecify(t, func(f *v1alpha1.Fence) {
		f.HTTP, f.Ironic = nil, &v1alpha1.IronicFence{Clouds: v1alpha1.SecretKey{Name: "ironic", Key: "clouds.yaml"}}
	})
	for range 3 {
		r.turn(t)
	}
	fence := r.fence(t)
	if fence.Status.Observation == nil || !strings.Contains(fence.Status.Observation.Message, "the Secret ironic of namespace usher-system") || r.tainted(t) {
		t.Errorf("%+v", fence.Status)
	}
	if fence.Status.RequestResult != v1alpha1.RequestNotSent {
		t.Errorf("the request is %s", fence.Status.RequestResult)
	}
}

func TestWhatWakesAFence(t *testing.T) {
	fence := func(change func(*v1alpha1.NodeFence)) *v1alpha1.NodeFence {
		f := &v1alpha1.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: "f", UID: "u", Generation: 1}}
		change(f)
		return f
	}
	before := fence(func(*v1alpha1.NodeFence) {})
	for name, c := range map[string]struct {
		after *v1alpha1.NodeFence
		want  bool
	}{
		"its own status": {fence(func(f *v1alpha1.NodeFence) { f.Status.Step = v1alpha1.FenceCalling }), false},
		"a confirmation": {fence(func(f *v1alpha1.NodeFence) { f.Generation = 2 }), true},
		"its deletion":   {fence(func(f *v1alpha1.NodeFence) { f.DeletionTimestamp = &metav1.Time{Time: noon} }), true},
	} {
		if got := respecified().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
