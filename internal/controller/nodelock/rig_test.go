package nodelock

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
)

const (
	state  = "maintenance.example.com/agent"
	prefix = "lock.example.com"
)

var (
	noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	key  = client.ObjectKey{Namespace: "stack", Name: "neutron"}
	own  = prefix + "/" + snapshot.NodeLockName(key, "router")
)

// rig is the controller over a store with a policy and the nodes n1 and n2.
type rig struct {
	client.Client
	r      *reconciler
	now    time.Time
	cached *hiding
	users  []string // who has written on nodes
	refuse error    // what writes on nodes are answered
	wrote  func()   // what happens once a node was written; nil: nothing
}

// hiding is a cache that does not show one pod, or shows a policy as it was.
type hiding struct {
	client.Client
	pod  string
	kept *v1alpha1.EvictionPolicy // shown although it is gone; nil: none
}

func (h *hiding) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if policy, ok := into.(*v1alpha1.EvictionPolicy); ok && h.kept != nil {
		h.kept.DeepCopyInto(policy)
		return nil
	}
	return h.Client.Get(ctx, key, into, options...)
}

func (h *hiding) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := h.Client.List(ctx, list, options...)
	if pods, ok := list.(*corev1.PodList); ok {
		for i := range pods.Items {
			if pods.Items[i].Name == h.pod {
				pods.Items = append(pods.Items[:i], pods.Items[i+1:]...)
				break
			}
		}
	}
	return err
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	g := &rig{now: noon}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.EvictionPolicy{}).WithReturnManagedFields().
		WithObjects(append(objects, node("n1"), node("n2"))...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	indexes := append(wiring.NodeLockIndexes(), wiring.Index{Object: &v1alpha1.EvictionPolicy{}, Field: labelField, Values: labelsOf})
	for _, index := range append(indexes, wiring.TargetPodIndexes()...) {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	g.Client = builder.Build()
	g.cached = &hiding{Client: g.Client}
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return g.now }
	policies := policycache.New(g.cached, all.Kind, roles)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind, Now: now, Log: slog.New(slog.DiscardHandler)})
	g.r = newReconciler(Options{
		Act:      &act.NodeLocks{Client: g.Client, As: g.as},
		Governed: &act.Governed{Client: g.Client, Policies: policies, Observer: observer, Lifecycle: lifecycleapi.Usher, Now: now},
		Gatherer: &policycache.Gatherer{Policies: policies, Observer: observer, Live: g.Client, Now: now},
		Self:     "system:serviceaccount:usher-system:usher-manager", Now: now,
	}, g.cached, g.Client)
	return g
}

// as is the API as a ServiceAccount sees it: nodes alone, and of these what is patched.
func (g *rig) as(namespace, account string) (dynamic.Interface, error) {
	return asAccount{rig: g, account: namespace + "/" + account}, nil
}

type asAccount struct {
	dynamic.NamespaceableResourceInterface
	rig     *rig
	account string
}

func (a asAccount) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return a
}

func (a asAccount) Patch(ctx context.Context, name string, kind types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	a.rig.users = append(a.rig.users, a.account)
	if a.rig.refuse != nil {
		return nil, a.rig.refuse
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := a.rig.Patch(ctx, node, client.RawPatch(kind, body)); err != nil {
		return nil, err
	}
	if a.rig.wrote != nil {
		a.rig.wrote()
	}
	patched := &unstructured.Unstructured{Object: map[string]any{}}
	patched.SetResourceVersion(node.ResourceVersion)
	return patched, nil
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func policy(change ...func(*v1alpha1.EvictionPolicy)) *v1alpha1.EvictionPolicy {
	p := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "policy-uid"}}
	p.Spec.System.Kubernetes = &v1alpha1.Kubernetes{}
	p.Spec.ServiceAccountName = "agents"
	for _, role := range []string{"router", "agent"} {
		p.Spec.Members = append(p.Spec.Members, v1alpha1.MemberSelector{Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": role}}})
		p.Spec.Roles = append(p.Spec.Roles, v1alpha1.Role{
			Name: role, System: "kubernetes", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
		})
	}
	p.Spec.NodeLock = &v1alpha1.NodeLock{StateLabel: state, LockPrefix: prefix, Holders: []string{"router"}, Waiter: "agent"}
	for _, f := range change {
		f(p)
	}
	return p
}

func pod(name, role, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": role}}}
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func requestFor(pod string) *api.EvictionRequest {
	return evictionrequest.NewRequest(evictionrequest.Ref{Namespace: key.Namespace, Name: pod, UID: types.UID("uid-" + pod)}, evictionrequest.Requester("jane"))
}

// look lets time pass and has the controller look once.
func (g *rig) look(t *testing.T) reconcile.Result {
	t.Helper()
	g.now = g.now.Add(pause)
	result, err := g.r.reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// wantNode compares the label, "" for none, and the annotations of a node.
func (g *rig) wantNode(t *testing.T, name, label string, locks ...string) {
	t.Helper()
	var node corev1.Node
	if err := g.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, lock := range locks {
		want[lock] = ""
	}
	if diff := cmp.Diff(want, node.Annotations, cmpopts.EquateEmpty()); diff != "" || node.Labels[state] != label {
		t.Errorf("%s: label %q, want %q; locks %s", name, node.Labels[state], label, diff)
	}
}

func (g *rig) stored(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	var p v1alpha1.EvictionPolicy
	if err := g.Get(t.Context(), key, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// asked names the pods that the policy's nodeLock asks to leave.
func (g *rig) asked(t *testing.T) []string {
	t.Helper()
	var list api.EvictionRequestList
	if err := g.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var pods []string
	for i := range list.Items {
		if q := &list.Items[i]; q.Spec.Requester == "nodelock.usher.sh/neutron" && evictionrequest.Stands(q) {
			pods = append(pods, q.Spec.Target.Pod.Name)
		}
	}
	return pods
}

func (g *rig) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := g.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (g *rig) remove(t *testing.T, o client.Object) {
	t.Helper()
	if err := g.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (g *rig) mark(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	var node corev1.Node
	if err := g.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	change(&node)
	if err := g.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// respecify changes the policy as its owner does.
func (g *rig) respecify(t *testing.T, change func(*v1alpha1.EvictionPolicy)) {
	t.Helper()
	p := g.stored(t)
	change(p)
	p.Generation++
	if err := g.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func forbidden(user string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", &forbiddenError{user})
}

type forbiddenError struct{ user string }

func (f *forbiddenError) Error() string {
	return `User "` + f.user + `" cannot patch resource "nodes" in API group "" at the cluster scope`
}
