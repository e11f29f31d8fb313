package replacement

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/replacement"
)

// delegate has another controller make the successor of the member, by deleting its pod, which is on node n1.
func delegate(m *member) {
	m.policy.Spec.Roles[0].Replace.Successor = v1alpha1.SuccessorAnyPod
	m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{DeletePod: &v1alpha1.DeletePodProvider{}}
	m.pod.OwnerReferences, m.pod.Spec.NodeName = nil, "n1"
	m.request.Status.Places = nil
	m.request.Status.Predecessor = &v1alpha1.ReplacementPredecessor{PodName: "db-0", PodUID: "db-0", Node: "n1", StartTime: &metav1.Time{Time: noon}}
}

// patches has an object patched instead, and returns it.
func (m *member) patches(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	return m.patchesOf(m.objects())
}

// objects has the object that is patched.
func (m *member) objects() *dynamicfake.FakeDynamicClient {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "o", ResourceVersion: "1"}}
	return dynamicfake.NewSimpleDynamicClient(scheme.Scheme, object)
}

func (m *member) patchesOf(objects dynamic.Interface) dynamic.ResourceInterface {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.r.Targets = &act.Targets{Mapper: mapper, As: func(string, string) (dynamic.Interface, error) { return objects, nil }}
	return objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("shop")
}

func patching(m *member) {
	delegate(m)
	m.policy.Spec.ServiceAccountName = "db"
	m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{Patch: &v1alpha1.PatchProvider{
		Target: v1alpha1.PatchTarget{APIVersion: "v1", Kind: "ConfigMap", Name: "db"},
		Do:     v1alpha1.ObjectPatch{Merge: `{"data": {"replace": {{member.id}}}}`},
	}}
	m.request.Status.Predecessor.Target = &v1alpha1.ReplacementTarget{APIVersion: "v1", Kind: "ConfigMap", Name: "db", UID: "o"}
}

// A request that was taken back to wait, or is under way, says what it waits for whatever becomes of its policy, and nothing goes meanwhile.
func TestDelegatedWhosePolicyChanges(t *testing.T) {
	gone := func(m *member) { m.policy.Name = "other" }
	none := func(m *member) { m.policy.Spec.Members[0].Provider = nil }
	set := func(m *member) {
		m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{}}
	}
	unclaimed := func(m *member) { m.policy.Spec.Members[0].Selector.MatchLabels = map[string]string{"app": "other"} }
	leaves := func(m *member) { m.pod.Name = "db-9" }
	for name, test := range map[string]struct {
		begun  func(*member)
		step   v1alpha1.ReplacementStep
		change []func(*member)
		want   replacement.Reason
		then   v1alpha1.ReplacementStep
	}{
		"it waits, and the policy is gone":              {delegate, v1alpha1.ReplacementWaiting, []func(*member){gone}, replacement.SourceMissing, v1alpha1.ReplacementWaiting},
		"it waits, and there is no provider":            {delegate, v1alpha1.ReplacementWaiting, []func(*member){none}, replacement.ProviderMissing, v1alpha1.ReplacementWaiting},
		"it waits, and a StatefulSet provides":          {delegate, v1alpha1.ReplacementWaiting, []func(*member){set}, replacement.ProviderUnsupported, v1alpha1.ReplacementWaiting},
		"it waits, and no entry claims the pod":         {delegate, v1alpha1.ReplacementWaiting, []func(*member){unclaimed}, replacement.MemberMissing, v1alpha1.ReplacementWaiting},
		"it waits to patch, and the policy is gone":     {patching, v1alpha1.ReplacementWaiting, []func(*member){gone}, replacement.SourceMissing, v1alpha1.ReplacementWaiting},
		"it waits to patch, and a StatefulSet does":     {patching, v1alpha1.ReplacementWaiting, []func(*member){set}, replacement.ProviderUnsupported, v1alpha1.ReplacementWaiting},
		"it waits, and policy and predecessor are gone": {delegate, v1alpha1.ReplacementWaiting, []func(*member){gone, leaves}, replacement.SourceMissing, v1alpha1.ReplacementJoining},
		"it is under way, and the policy is gone":       {patching, v1alpha1.ReplacementRemoving, []func(*member){gone}, replacement.SourceMissing, v1alpha1.ReplacementRemoving},
		"it is under way, and a StatefulSet provides":   {patching, v1alpha1.ReplacementRemoving, []func(*member){set}, replacement.ProviderMissing, v1alpha1.ReplacementRemoving},
		"its successor comes, and the policy is gone":   {delegate, v1alpha1.ReplacementJoining, []func(*member){gone, leaves}, replacement.SourceMissing, v1alpha1.ReplacementJoining},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				test.begun(m)
				m.request.Status.Step = test.step
				for _, change := range test.change {
					change(m)
				}
			})
			m.patches(t)
			m.aliveNode(t, "n1")
			for range 3 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(later)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			if b := request.Status.Blockers; request.Status.Step != test.then || len(b) == 0 || b[0].Reason != string(test.want) || !m.has(t, m.pod) {
				t.Errorf("%s, %+v", request.Status.Step, b)
			}
		})
	}
}

// A request that is deleted ends where what was patched is gone, or its operator with its kind, although the member stays, and says so.
func TestDelegatedIsDeletedWithItsObject(t *testing.T) {
	for name, serves := range map[string]bool{"its object is gone": true, "its kind is not served": false} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) { patching(m); m.request.Finalizers = append(m.request.Finalizers, "example.com/held") })
			if err := m.patches(t).Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if !serves {
				m.r.Targets.Mapper = meta.NewDefaultRESTMapper(nil)
			}
			m.aliveNode(t, "n1")
			if err := m.store.Delete(t.Context(), m.request); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(time.Minute)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			const want = "the request was deleted, and ConfigMap db, which was patched, is gone: what was asked of its operator is not taken back, and the member was not seen to go"
			if is := ready(request); request.Status.Step != v1alpha1.ReplacementCancelled || is == nil || is.Message != want || !m.has(t, m.pod) {
				t.Errorf("%s, %+v, %+v", request.Status.Step, is, request.Status.Blockers)
			}
		})
	}
}

// A request that is deleted ends, also where its policy is gone, which alone says how what was asked is taken back.
func TestDelegatedIsDeletedWithItsPolicy(t *testing.T) {
	for name, change := range map[string]func(*member){
		"a pod that waits":               func(m *member) { delegate(m); m.request.Status.Step = v1alpha1.ReplacementWaiting },
		"an object that waits":           func(m *member) { patching(m); m.request.Status.Step = v1alpha1.ReplacementWaiting },
		"an object that was patched":     patching,
		"… for a member without a pod":   func(m *member) { patching(m); m.pod.Name, m.request.Status.Predecessor.PodUID = "db-9", "" },
		"its predecessor is gone":        func(m *member) { patching(m); m.pod.Name = "db-9" },
		"… and it waits for a successor": func(m *member) { delegate(m); m.pod.Name, m.request.Status.Step = "db-9", v1alpha1.ReplacementJoining },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) { change(m); m.policy.Name = "other" })
			m.patches(t)
			if err := m.store.Delete(t.Context(), m.request); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(time.Minute)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("it stands: %v, %s, %+v", err, request.Status.Step, request.Status.Blockers)
			}
		})
	}
}

// Nothing is asked of an operator for a request that was deleted while the system was asked.
func TestNoPatchForADeletedRequest(t *testing.T) {
	for deleted, want := range map[bool]string{false: "db-0", true: ""} {
		m := newMember(t, patching)
		objects := m.patches(t)
		m.aliveNode(t, "n1")
		seen := m.looked(t)
		if deleted {
			if err := m.store.Delete(t.Context(), m.request); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := m.r.step(t.Context(), seen); err != nil {
			t.Fatal(err)
		}
		object, err := objects.Get(t.Context(), "db", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := object.Object["data"].(map[string]any); data["replace"] != nil != (want != "") {
			t.Errorf("deleted: %t, the object has %v", deleted, data)
		}
	}
}

// A pod that has become Ready since it was seen is not deleted: an eviction asks its budgets. One of which only the version is another goes.
func TestAPodThatHasBecomeReadyStays(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		goes   bool
	}{
		"its conditions say more": {func(p *corev1.Pod) { p.Status.Message = "crashes" }, true},
		"it is Ready": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, false},
		"it is another member": {func(p *corev1.Pod) { p.Labels["id"] = "db-1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, delegate)
			m.aliveNode(t, "n1")
			seen := m.looked(t)
			m.update(t, m.pod, func() { test.change(m.pod) })
			test.change(m.pod)
			if err := m.store.Status().Update(t.Context(), m.pod); err != nil {
				t.Fatal(err)
			}
			if _, _, err := m.r.step(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
			if m.has(t, m.pod) == test.goes {
				t.Errorf("the pod is there: %t", m.has(t, m.pod))
			}
		})
	}
}

// An object that its operator writes to all the time is patched, as long as it is the same one.
func TestAnObjectThatIsWrittenToMeanwhileIsPatched(t *testing.T) {
	for conflicts, want := range map[int]int{0: 1, 1: 2, 2: 2} {
		m := newMember(t, patching)
		m.aliveNode(t, "n1")
		objects, sent := m.objects(), 0
		objects.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			sent++
			return sent <= conflicts, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "db", nil)
		})
		at := m.patchesOf(objects)
		if _, _, err := m.r.step(t.Context(), m.looked(t)); err != nil {
			t.Fatal(err)
		}
		object, err := at.Get(t.Context(), "db", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if sent != want || object.Object["data"] != nil != (conflicts < 2) {
			t.Errorf("%d conflicts: %d patches, and the object has %v", conflicts, sent, object.Object["data"])
		}
	}
}
