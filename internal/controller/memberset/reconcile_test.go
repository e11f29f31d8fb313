package memberset

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system/all"
)

// plainSet is a set of one plain member.
func plainSet() *v1alpha1.MemberSet {
	return &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "set", Generation: 1},
		Spec: v1alpha1.MemberSetSpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Groups: []v1alpha1.MemberGroup{{
				Name: "server", Role: "workload", Replicas: new(int32(1)), Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"kv","image":"kv"}]}}`)},
			}},
		},
	}
}

// newReconciler is one with an apiserver that has these objects.
func newReconciler(t *testing.T, objects ...client.Object) (*reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.MemberSet{}).
		WithIndex(&corev1.Pod{}, policycache.LeavingIndex, policycache.IndexLeaving).Build()
	now := func() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind, Now: now, Log: slog.New(slog.DiscardHandler)})
	r := &reconciler{client: store, live: store, Options: Options{
		Act: &act.Sets{Client: store, Observer: observer}, Members: &act.Replacements{Client: store}, Now: now,
		Gatherer: &policycache.Gatherer{Policies: policycache.New(store, all.Kind, roles), Observer: observer, Live: store, Now: now},
	}}
	return r, store
}

// settle reconciles until nothing follows at once, and returns the set with when it is looked at again.
func settle(t *testing.T, r *reconciler, store client.Client, set *v1alpha1.MemberSet) (*v1alpha1.MemberSet, time.Duration) {
	t.Helper()
	var after time.Duration
	for range 10 {
		result, err := r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil {
			t.Fatal(err)
		}
		if after = result.RequeueAfter; after > unwatched {
			break
		}
	}
	found := &v1alpha1.MemberSet{}
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(set), found); err != nil {
		t.Fatal(err)
	}
	return found, after
}

// A name that something else has, which no look by the set's label shows, is said, and not asked for again and again.
func TestANameThatIsTaken(t *testing.T) {
	set := plainSet()
	r, store := newReconciler(t, set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-server-1"}})
	found, after := settle(t, r, store, set)
	if after != later || len(found.Status.Blockers) != 1 || found.Status.Blockers[0].Reason != string(memberset.NameTaken) {
		t.Fatalf("it is looked at again in %s, and waits for %+v", after, found.Status.Blockers)
	}
	want := "where it was made for this set: kubectl label --overwrite pod kv-server-1 -n shop usher.sh/member-set=kv; else delete it, or move what it is for elsewhere"
	if found.Status.Blockers[0].Remedy != want {
		t.Error(found.Status.Blockers[0].Remedy)
	}
}

// What is another MemberSet's, or a StatefulSet's, is not advised to be deleted, or to be labelled as this one's: the set "kv" with the group "server", and "kv-server"
// with another or a StatefulSet "kv-server", give the same names.
func TestANameThatAnotherSetHas(t *testing.T) {
	other := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other", UID: "other"}}
	labelled := metav1.ObjectMeta{Namespace: "shop", Name: "kv-server-1", Labels: map[string]string{v1alpha1.MemberSetLabel: "other"}}
	owned := metav1.ObjectMeta{Namespace: "shop", Name: "kv-server-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("MemberSet"))}}
	made := metav1.ObjectMeta{Namespace: "shop", Name: "kv-server-1", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "kv-server", UID: "s", Controller: new(true)}}}
	claim := *labelled.DeepCopy()
	claim.Name = "data-kv-server-1"
	for name, test := range map[string]struct {
		there client.Object
		what  string
		of    string
	}{
		"a pod by its label":  {&corev1.Pod{ObjectMeta: labelled}, "pod kv-server-1", "MemberSet other"},
		"a pod by its owner":  {&corev1.Pod{ObjectMeta: owned}, "pod kv-server-1", "MemberSet other"},
		"a claim":             {&corev1.PersistentVolumeClaim{ObjectMeta: claim}, "claim data-kv-server-1", "MemberSet other"},
		"a StatefulSet's pod": {&corev1.Pod{ObjectMeta: made}, "pod kv-server-1", "StatefulSet kv-server"},
	} {
		t.Run(name, func(t *testing.T) {
			set := plainSet()
			if _, is := test.there.(*corev1.PersistentVolumeClaim); is {
				set.Spec.Groups[0].VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{Name: "data", Spec: runtime.RawExtension{Raw: []byte(`{"accessModes":["ReadWriteOnce"]}`)}}}
			}
			r, store := newReconciler(t, set, test.there)
			found, _ := settle(t, r, store, set)
			want := []v1alpha1.ReplacementBlocker{{
				Reason: "NameTaken", Message: test.what + " is of " + test.of + ", and this set would give its own the same name",
				Remedy: "leave it there, and have this member get another number: usher replace kv-server-1 --policy kv -n shop; or set spec.idPrefix, by which all members of this set get other names, and are replaced for it",
			}}
			if diff := cmp.Diff(want, found.Status.Blockers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A policy that could not be used is said before any member is made, and nothing of it is written.
func TestAPolicyThatWouldBeWrong(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.MemberSet)
		says   string
	}{
		"an unknown role":          {func(s *v1alpha1.MemberSet) { s.Spec.Groups[0].Role = "etcd-membr" }, `spec.groups[0].role: there is no role "etcd-membr"`},
		"a role of another system": {func(s *v1alpha1.MemberSet) { s.Spec.Groups[0].Role = "etcd-member" }, `role "etcd-member".system`},
		"a rule that is none": {func(s *v1alpha1.MemberSet) {
			s.Spec.Groups[0].Role = "own"
			own := v1alpha1.Role{Name: "own", System: "kubernetes", Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod}}
			own.Evict.Rules = []v1alpha1.Rule{{Name: "r", Reason: "R", Expression: "member.", Message: "m"}}
			s.Spec.Roles = []v1alpha1.Role{own}
		}, "spec.roles[0].evict.rules[0].expression"},
		"a namespace that cannot be governed": {func(s *v1alpha1.MemberSet) { s.Namespace = metav1.NamespaceSystem }, "metadata.namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			set := plainSet()
			test.change(set)
			r, store := newReconciler(t, set)
			found, after := settle(t, r, store, set)
			if b := found.Status.Blockers; len(b) == 0 || b[0].Reason != string(memberset.PolicyInvalid) || !strings.HasPrefix(b[0].Message, test.says) {
				t.Errorf("it waits for %+v", b)
			}
			var pods corev1.PodList
			if err := store.List(t.Context(), &pods); err != nil || len(pods.Items) > 0 || len(found.Status.Members) > 0 || after != anyway {
				t.Errorf("%d pods, %d members, and it is looked at again in %s: %v", len(pods.Items), len(found.Status.Members), after, err)
			}
		})
	}
}
