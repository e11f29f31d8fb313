package replacement

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// markedBy is a MemberSet that is so far with the member.
func markedBy(step v1alpha1.MemberRemovalStep) *v1alpha1.MemberSet {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set"}}
	set.Spec.Groups = []v1alpha1.MemberGroup{{Name: "store", Role: "store"}}
	set.Status.Members = []v1alpha1.SetMember{{
		ID: "db-0", Group: "store", State: v1alpha1.MemberWhole, Removal: &v1alpha1.MemberRemoval{Request: "q", RequestUID: "q", Step: step},
	}}
	return set
}

// A policy of a MemberSet that is deleted, and made anew by its set, costs no member its permit, and no request waits for it for ever.
func TestMarkedWhosePolicyIsDeleted(t *testing.T) {
	gone := func(m *member) { m.policy.Name = "other" }
	anew := func(m *member) { m.policy.UID, m.policy.Status.Replacing = "anew", nil }
	held := func(m *member) {
		m.policy.DeletionTimestamp, m.policy.Finalizers, m.policy.Status.Replacing = &metav1.Time{Time: noon}, []string{"shop/held"}, nil
	}
	cancelled := func(m *member) { m.request.DeletionTimestamp = &metav1.Time{Time: noon} }
	joining := func(m *member) { m.request.Status.Step = v1alpha1.ReplacementJoining }
	renamed := func(m *member) { m.policy.Spec.Roles[0].Name, m.policy.Spec.Members[0].Role = "other", "other" }
	replaced := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set"}}
	for name, test := range map[string]struct {
		set    *v1alpha1.MemberSet // nil: it is gone
		change []func(*member)
		then   v1alpha1.ReplacementStep
		want   replacement.Reason // "": it waits for nothing
		permit bool               // the policy of the name says that it may go
	}{
		"its set goes on, and it is deleted with the policy": {markedBy(v1alpha1.RemovalRemoving), []func(*member){gone, cancelled}, v1alpha1.ReplacementRemoving, replacement.PredecessorLeaving, false},
		"its set goes on": {markedBy(v1alpha1.RemovalRemoving), []func(*member){gone}, v1alpha1.ReplacementRemoving, replacement.PredecessorLeaving, false},
		"its set goes on, and the policy is there anew":          {markedBy(v1alpha1.RemovalRemoving), []func(*member){anew, cancelled}, v1alpha1.ReplacementRemoving, replacement.PredecessorLeaving, true},
		"its set goes on, and its role is another":               {markedBy(v1alpha1.RemovalRemoving), []func(*member){renamed}, v1alpha1.ReplacementRemoving, replacement.PredecessorLeaving, true},
		"its set has not begun, and its role is another":         {markedBy(v1alpha1.RemovalReplaced), []func(*member){renamed}, v1alpha1.ReplacementWaiting, replacement.MemberMissing, true},
		"it is replaced, and its role is another":                {replaced, []func(*member){renamed}, v1alpha1.ReplacementComplete, "", false},
		"its set has not begun":                                  {markedBy(v1alpha1.RemovalReplaced), []func(*member){gone}, v1alpha1.ReplacementWaiting, replacement.SourceMissing, false},
		"its set has not begun, and it is deleted":               {markedBy(v1alpha1.RemovalReplaced), []func(*member){gone, cancelled}, v1alpha1.ReplacementCancelled, "", false},
		"it is replaced, and the policy is held by a finalizer":  {replaced, []func(*member){held, joining}, v1alpha1.ReplacementComplete, "", false},
		"its set is gone without it":                             {nil, nil, v1alpha1.ReplacementRemoving, replacement.ProviderUnsupported, true},
		"its set is gone without it, and the request is deleted": {nil, []func(*member){cancelled}, v1alpha1.ReplacementCancelled, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{}}
				if test.set != nil {
					m.policy.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(test.set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
				}
				m.pod.OwnerReferences = nil
				m.request.Status.Predecessor = &v1alpha1.ReplacementPredecessor{PodName: "db-0", PodUID: "db-0", Node: "n1", StartTime: &metav1.Time{Time: noon}}
				for _, change := range test.change {
					change(m)
				}
			})
			if test.set != nil {
				if err := m.store.Create(t.Context(), test.set.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			request := &v1alpha1.ReplacementRequest{}
			for range 3 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(later)
				found := &v1alpha1.ReplacementRequest{}
				if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), found); err == nil {
					request = found
				}
			}
			if !m.has(t, m.pod) || request.UID == "" && test.then != v1alpha1.ReplacementCancelled {
				t.Fatalf("its pod is deleted by the request, or that has ended: %+v", request)
			}
			if test.then == v1alpha1.ReplacementCancelled { // it is gone with its finalizer
				if m.has(t, m.request) || client.IgnoreNotFound(m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), &v1alpha1.ReplacementRequest{})) != nil {
					t.Errorf("it is there: %+v", request.Status)
				}
				return
			}
			waits := ""
			if len(request.Status.Blockers) > 0 {
				waits = request.Status.Blockers[0].Reason
			}
			if request.Status.Step != test.then || waits != string(test.want) {
				t.Errorf("%s, waiting for %+v", request.Status.Step, request.Status.Blockers)
			}
			policy := &v1alpha1.EvictionPolicy{}
			err := m.store.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, policy)
			if permit := err == nil && len(policy.Status.Replacing) > 0; permit != test.permit {
				t.Errorf("it has its permit: %t", permit)
			}
		})
	}
}

// A request for an id that its MemberSet never had waits, and says so, whatever numbers the set gives later. One whose member the set has removed, for whatever
// request, is complete.
func TestMarkedThatThereNeverWas(t *testing.T) {
	for name, test := range map[string]struct {
		before int64 // the last number that was given, at the first look
		then   v1alpha1.ReplacementStep
		want   string
	}{
		"it never was":   {3, v1alpha1.ReplacementWaiting, "MemberMissing"},
		"it was removed": {9, v1alpha1.ReplacementComplete, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := markedBy(v1alpha1.RemovalReplaced)
			set.Status.Members[0].Removal = nil
			set.Status.Groups = []v1alpha1.MemberGroupStatus{{Name: "store", LastNumber: test.before}}
			m := newMember(t, func(m *member) {
				m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{}}
				m.policy.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
				m.policy.Status.Replacing = nil
				m.request.Spec.Member.ID, m.request.Status = "db-store-7", v1alpha1.ReplacementRequestStatus{}
			})
			if err := m.store.Create(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if i == 1 { // the set has grown
					set.Status.Groups[0].LastNumber = 10
					if err := m.store.Update(t.Context(), set); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(later)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			waits := ""
			if len(request.Status.Blockers) > 0 {
				waits = request.Status.Blockers[0].Reason
			}
			if request.Status.Step != test.then || waits != test.want {
				t.Errorf("%s, waiting for %+v", request.Status.Step, request.Status.Blockers)
			}
		})
	}
}

// A member whose name another set's pod has is replaced without a word about that pod, which stays.
func TestMarkedWhoseNameIsTaken(t *testing.T) {
	set := markedBy(v1alpha1.RemovalReplaced)
	set.Status.Members[0].State = v1alpha1.MemberJoining
	other := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
	m := newMember(t, func(m *member) {
		m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{}}
		m.policy.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
		m.policy.Status.Replacing = nil
		m.pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("MemberSet"))}
		m.request.Status = v1alpha1.ReplacementRequestStatus{}
	})
	if err := m.store.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	request := &v1alpha1.ReplacementRequest{}
	for range 4 {
		if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
			t.Fatal(err)
		}
		m.now = m.now.Add(later)
	}
	if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
		t.Fatal(err)
	}
	if p := request.Status.Predecessor; request.Status.Step != v1alpha1.ReplacementRemoving || p == nil || p.PodUID != "" || !m.has(t, m.pod) {
		t.Errorf("%s of %+v, waiting for %+v", request.Status.Step, p, request.Status.Blockers)
	}
}

// A pod of the member's name that no entry of the policy claims has no verdict of its own: what the rules say of the member decides, and where it is the set's own, whose
// labels were altered, it waits.
func TestMarkedWhosePodIsNotClaimed(t *testing.T) {
	set := markedBy(v1alpha1.RemovalReplaced)
	own := []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		labels map[string]string
		want   string
	}{
		"what nothing controls":          {nil, nil, "Said"},
		"what carries its labels":        {nil, map[string]string{"app": "db", "id": "db-0"}, "Said"},
		"its own, without its labels":    {own, nil, "MemberMissing"},
		"its own, with another's labels": {own, map[string]string{"app": "db", "id": "db-1"}, "MemberMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.policy.Spec.Members[0].Provider = &v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{}}
				m.policy.Spec.Roles[0].Replace.Rules = []v1alpha1.Rule{{Name: "r", Reason: "Said", Expression: "false", Message: "m"}}
				m.policy.OwnerReferences, m.policy.Status.Replacing = own, nil
				m.pod.OwnerReferences, m.pod.Labels = test.owners, test.labels
				m.request.Status = v1alpha1.ReplacementRequestStatus{}
			})
			if err := m.store.Create(t.Context(), set.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				m.now = m.now.Add(later)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			says := slices.ContainsFunc(request.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == test.want })
			if request.Status.Step != v1alpha1.ReplacementWaiting || !says {
				t.Errorf("%s, waiting for %+v", request.Status.Step, request.Status.Blockers)
			}
		})
	}
}
