package replacement

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
)

// member is db-0 as the apiserver has it while it is removed: its pod is on no node, and node n1, where it was, is there no more. Its role has no rules.
type member struct {
	t       *testing.T
	store   client.Client
	r       *reconciler
	now     time.Time
	request *v1alpha1.ReplacementRequest
	policy  *v1alpha1.EvictionPolicy
	pod     *corev1.Pod
	claim   *corev1.PersistentVolumeClaim
	set     *appsv1.StatefulSet
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "db", "id": "db-0"}}
}

func newMember(t *testing.T, change func(*member)) *member {
	t.Helper()
	m := &member{
		t: t, request: &v1alpha1.ReplacementRequest{ObjectMeta: named("q")}, policy: &v1alpha1.EvictionPolicy{ObjectMeta: named("db")},
		pod: &corev1.Pod{ObjectMeta: named("db-0")}, claim: &corev1.PersistentVolumeClaim{ObjectMeta: named("data-db-0")}, set: set(), now: noon,
	}
	m.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	m.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: new(true)}}
	m.policy.Spec.System.Kubernetes = &v1alpha1.Kubernetes{}
	m.policy.Spec.Roles = []v1alpha1.Role{{
		Name: "store", System: "kubernetes", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
		Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorSameIdentity},
	}}
	m.policy.Spec.Members = []v1alpha1.MemberSelector{{
		Role: "store", ID: "pod.labels.id", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Provider: &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{VolumeClaims: v1alpha1.VolumeClaimsDelete}},
	}}
	m.policy.Status.Replacing = []v1alpha1.Replacing{{Role: "store", ID: "db-0", Request: "q", RequestUID: "q", StartTime: metav1.NewTime(noon)}}
	m.request.Finalizers = []string{v1alpha1.ReplacementFinalizer}
	m.request.Spec = v1alpha1.ReplacementRequestSpec{
		Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"},
		Member: v1alpha1.ReplacementMember{Role: "store", ID: "db-0"},
	}
	m.request.Status = v1alpha1.ReplacementRequestStatus{
		Step: v1alpha1.ReplacementRemoving, StepTime: &metav1.Time{Time: noon}, PodName: "db-0",
		Places: []v1alpha1.ReplacementPlace{{Node: "n1", NodeUID: "n1", GoneTime: &metav1.Time{Time: noon}}},
		Predecessor: &v1alpha1.ReplacementPredecessor{
			PodName: "db-0", StatefulSet: "db", Node: "n1", NodeUID: "n1", Claims: []v1alpha1.ReplacementClaim{{Name: "data-db-0", UID: "data-db-0"}},
		},
	}
	m.set.Spec.Template.Labels["id"] = "db-0"
	change(m)
	m.build(t)
	return m
}

func (m *member) build(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	m.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(m.request, m.policy, m.pod, m.claim, m.set).
		WithIndex(&corev1.Pod{}, policycache.LeavingIndex, policycache.IndexLeaving).
		WithStatusSubresource(&v1alpha1.EvictionPolicy{}, &v1alpha1.ReplacementRequest{}, &corev1.Pod{}).Build()
	now := func() time.Time { return m.now }
	policies := policycache.New(m.store, all.Kind, roles)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind, Now: now, Log: slog.New(slog.DiscardHandler)})
	m.r = &reconciler{client: m.store, live: m.store, events: events.NewFakeRecorder(100)}
	m.r.Options = Options{
		Act: &act.Replacements{Client: m.store}, Governed: &act.Governed{Client: m.store, Policies: policies, Observer: observer, Now: now},
		Gatherer: &policycache.Gatherer{Policies: policies, Observer: observer, Live: m.store, Now: now}, Now: now,
	}
}

// update changes an object as the apiserver has it.
func (m *member) update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	change()
	if err := m.store.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// has reports whether the apiserver has an object, and does not delete it.
func (m *member) has(t *testing.T, object client.Object) bool {
	t.Helper()
	err := m.store.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil && object.GetDeletionTimestamp() == nil
}

// looked is the first look at the member's request.
func (m *member) looked(t *testing.T) *look {
	t.Helper()
	request := &v1alpha1.ReplacementRequest{}
	if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
		t.Fatal(err)
	}
	seen, err := m.r.look(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// aliveNode makes a node that reports.
func (m *member) aliveNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	if err := m.store.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// What has changed between a look and the removal that follows from it is looked at once more, and nothing goes.
func TestNothingGoesByAnEarlierLook(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*member)
		goes      bool
	}{
		"nothing has changed": {func(*member) {}, true},
		"its pod was bound to a node": {func(m *member) {
			m.aliveNode(m.t, "n2")
			m.update(m.t, m.pod, func() { m.pod.Spec.NodeName = "n2" })
		}, false},
		"its pod is another member": {func(m *member) { m.update(m.t, m.pod, func() { m.pod.Labels["id"] = "db-1" }) }, false},
		"its node has come back":    {func(m *member) { m.aliveNode(m.t, "n1") }, false},
		"the request was deleted": {func(m *member) {
			if err := m.store.Delete(m.t.Context(), m.request); err != nil {
				m.t.Fatal(err)
			}
		}, false},
		"the request is gone": {func(m *member) {
			m.update(m.t, m.request, func() { m.request.Finalizers = nil })
			if err := m.store.Delete(m.t.Context(), m.request); err != nil {
				m.t.Fatal(err)
			}
		}, false},
		"its policy says something else": {func(m *member) { m.update(m.t, m.policy, func() { m.policy.Generation++ }) }, false},
		"only its policy's labels change": {func(m *member) {
			m.update(m.t, m.policy, func() { m.policy.Labels["app"] = "other" })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(*member) {})
			seen := m.looked(t)
			test.meanwhile(m)
			if _, _, err := m.r.step(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
			if claim, pod := m.has(t, m.claim), m.has(t, m.pod); claim == test.goes || pod == test.goes {
				t.Errorf("the claim is there: %t, the pod is there: %t", claim, pod)
			}
		})
	}
}

// What holds a member by its first look holds it by those that follow after a write.
func TestWhatHoldsAMemberIsNotForgotten(t *testing.T) {
	for name, change := range map[string]func(*member){
		"its pod is another member": func(m *member) { m.pod.Labels["id"] = "db-1" },
		"its set and its pod are gone, and it has a permit": func(m *member) {
			m.set.Name, m.pod.Labels, m.pod.Name, m.now = "other", nil, "other-0", noon.Add(time.Hour)
			m.set.Spec.Template.Labels = nil
			m.request.Status.Step, m.request.Status.Predecessor = v1alpha1.ReplacementWaiting, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, change)
			if _, err := m.r.steps(t.Context(), m.looked(t).request); err != nil {
				t.Fatal(err)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			if !m.has(t, m.claim) || !m.has(t, m.pod) || request.Status.Step != v1alpha1.ReplacementWaiting || len(request.Status.Blockers) == 0 {
				t.Errorf("claim: %t, pod: %t, %s, blockers %v", m.has(t, m.claim), m.has(t, m.pod), request.Status.Step, request.Status.Blockers)
			}
		})
	}
}

// Of several pods that are the member by their labels none is taken for it, in whichever way its successor is made.
func TestAMemberWithSeveralPodsWaits(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*member)
		finished bool
		want     v1alpha1.ReplacementStep
	}{
		"of a StatefulSet":                {func(*member) {}, false, v1alpha1.ReplacementWaiting},
		"of another controller":           {delegate, false, v1alpha1.ReplacementWaiting},
		"of which the other has finished": {func(*member) {}, true, v1alpha1.ReplacementRemoving},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				test.change(m)
				m.request.Status.Step, m.request.Status.Predecessor, m.now = v1alpha1.ReplacementWaiting, nil, noon.Add(time.Hour)
			})
			copied := m.pod.DeepCopy()
			copied.Name, copied.UID, copied.ResourceVersion, copied.OwnerReferences = "a-copy", "a-copy", "", nil
			if test.finished {
				copied.Status.Phase = corev1.PodFailed
			}
			if err := m.store.Create(t.Context(), copied); err != nil {
				t.Fatal(err)
			}
			m.aliveNode(t, "n2")
			if _, err := m.r.steps(t.Context(), m.looked(t).request); err != nil {
				t.Fatal(err)
			}
			request := &v1alpha1.ReplacementRequest{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			shared := slices.ContainsFunc(request.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == string(replacement.MemberShared) })
			if request.Status.Step != test.want || shared == test.finished || !m.has(t, copied) || m.has(t, m.pod) == test.finished {
				t.Errorf("%s, %+v", request.Status.Step, request.Status.Blockers)
			}
		})
	}
}

// A policy that was changed since the look before a write decides by what it says by then.
func TestAPolicyThatChangesMeanwhile(t *testing.T) {
	m := newMember(t, func(*member) {})
	before := m.looked(t)
	if before.in.Retain {
		t.Fatal("volumes are kept that the policy has go")
	}
	m.update(t, m.policy, func() {
		m.policy.Generation++
		m.policy.Spec.Members[0].Provider.StatefulSet.VolumeClaims = v1alpha1.VolumeClaimsRetain
	})
	after, err := m.r.lookOn(t.Context(), before, before.request)
	if err != nil || !after.in.Retain {
		t.Errorf("retain %t, %v", after.in.Retain, err)
	}
}

// A successor whose system does not tell it from its predecessor is not taken from the cache: that may still show it Ready, or its predecessor.
func TestSuccessorBySteps(t *testing.T) {
	for name, test := range map[string]struct {
		left *metav1.Time
		want bool
	}{
		"its system has a list":        {nil, true},
		"its system knows one id only": {&metav1.Time{Time: noon}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.request.Status.Step, m.pod.Spec.NodeName = v1alpha1.ReplacementJoining, "n2"
				m.request.Status.Predecessor.PodUID, m.request.Status.Predecessor.LeftTime = "p1", test.left
				m.request.Status.Predecessor.Registration = &v1alpha1.MemberRegistration{ID: "db-0"}
			})
			if enough, err := m.r.successor(t.Context(), m.r.newLook(m.request)); err != nil || enough != test.want {
				t.Errorf("%t, %v", enough, err)
			}
		})
	}
}

// A step that takes its time, or of which the time is not known, says what it waits for.
func TestPassing(t *testing.T) {
	waits := &replacement.StepResult{Blockers: []replacement.Blocker{{Reason: replacement.SuccessorMissing}}}
	for name, test := range map[string]struct {
		begun time.Time
		want  bool
	}{
		"it has just begun":     {noon.Add(-time.Second), true},
		"it takes long":         {noon.Add(-later), false},
		"when is not known":     {time.Time{}, false},
		"by a clock that jumps": {noon.Add(time.Minute), false},
	} {
		seen := &look{in: replacement.StepInput{Now: noon, StepTime: test.begun, Progress: replacement.Progress{Phase: replacement.Joining}}}
		if got := passing(seen, waits); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What was read long before is read anew, since systems take their time: the set may make no pod any more.
func TestALongLookIsTakenAnew(t *testing.T) {
	for after, want := range map[time.Duration]replacement.Tristate{0: replacement.Yes, 2 * patience: replacement.No} {
		m := newMember(t, func(*member) {})
		seen := m.looked(t)
		m.update(t, m.set, func() { m.set.Spec.Replicas = new(int32(0)) })
		var err error
		for range 2 { // however short each of them is
			m.now = m.now.Add(after / 2)
			if seen, err = m.r.lookOn(t.Context(), seen, seen.request); err != nil {
				t.Fatal(err)
			}
		}
		if seen.in.Set.Makes != want {
			t.Errorf("after %s the set makes it: %v", after, seen.in.Set.Makes)
		}
	}
}

// What was read of a member that is off its system's list serves for longer.
func TestOutdated(t *testing.T) {
	listed := replacement.Membership{Order: replacement.LeavesFirst, Left: replacement.No}
	expelled := replacement.Membership{Order: replacement.LeavesFirst, Left: replacement.Yes}
	for _, c := range []struct {
		system replacement.Membership
		age    time.Duration
		want   bool
	}{
		{listed, 2*patience - 1, false},
		{listed, 2 * patience, true},
		{replacement.Membership{Order: replacement.LeavesFirst, Left: replacement.Unknown}, 2 * patience, true},
		{replacement.Membership{Left: replacement.Yes}, 2 * patience, true},
		{expelled, 2 * patience, false},
		{expelled, 4 * patience, true},
	} {
		l := &look{read: noon, in: replacement.StepInput{System: c.system}}
		if got := l.outdated(noon.Add(c.age)); got != c.want {
			t.Errorf("%+v, read %s ago: %t", c.system, c.age, got)
		}
	}
}

// A member that is held by what its system said before others were let go, or had gone, is looked at once more before that is reported.
func TestOvertaken(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*member)
		want      bool
	}{
		"nothing has changed":  {func(*member) {}, false},
		"a member was let go":  {func(m *member) { m.policy.Status.Epoch++ }, true},
		"its members are seen": {func(m *member) { m.policy.Status.ObservedGeneration++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(*member) {})
			seen := m.looked(t)
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.policy), m.policy); err != nil {
				t.Fatal(err)
			}
			c.meanwhile(m)
			if err := m.store.Status().Update(t.Context(), m.policy); err != nil {
				t.Fatal(err)
			}
			if got := m.r.overtaken(t.Context(), seen); got != c.want {
				t.Errorf("overtaken: %t", got)
			}
		})
	}
}

// A pod that the cache shows terminating is not deleted once more.
func TestAPodThatTerminatesIsNotDeletedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*member)
		want      int
	}{
		"it stays":      {func(*member) {}, 1},
		"it terminates": {func(m *member) { m.pod.DeletionTimestamp = &metav1.Time{Time: noon} }, 0},
		"it is a later": {func(m *member) { m.pod.UID, m.pod.DeletionTimestamp = "later", &metav1.Time{Time: noon} }, 1},
		"it is no more": {func(m *member) { m.pod.Name = "other" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(*member) {})
			seen := m.looked(t)
			deletions := 0
			m.r.Act.Client = interceptor.NewClient(m.store.(client.WithWatch), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					deletions++
					return nil
				},
			})
			m.pod.Finalizers = []string{"test/held"}
			c.meanwhile(m)
			m.pod.ResourceVersion = ""
			m.r.client = fake.NewClientBuilder().WithScheme(m.store.Scheme()).WithObjects(m.pod).Build()
			answer := m.r.deletePod(t.Context(), seen, snapshot.Key{Namespace: "shop", Name: "db-0"}, &replacement.Action{Kind: replacement.DeletePod, Name: "db-0", UID: "db-0", Version: "1"})
			if answer.Code != answers.Accepted || deletions != c.want {
				t.Errorf("%d deletions, %s", deletions, answer.Code)
			}
		})
	}
}

// A system may take as long as its policy gives it, within bounds.
func TestPatience(t *testing.T) {
	policy := func(timeout time.Duration) *v1alpha1.EvictionPolicy {
		return &v1alpha1.EvictionPolicy{Spec: v1alpha1.EvictionPolicySpec{Evidence: v1alpha1.EvidenceLimits{Timeout: metav1.Duration{Duration: timeout}}}}
	}
	for _, test := range []struct {
		policy *v1alpha1.EvictionPolicy
		want   time.Duration
	}{{nil, patience}, {policy(0), patience}, {policy(time.Second), patience}, {policy(15 * time.Second), 15 * time.Second}, {policy(time.Hour), v1alpha1.MaxTimeout}} {
		if got := patienceOf(test.policy); got != test.want {
			t.Errorf("%v: %s, not %s", test.policy, got, test.want)
		}
	}
}

// The policy of a request says how long its system may keep a worker.
func TestPatienceForARequest(t *testing.T) {
	m := newMember(t, func(m *member) { m.policy.Spec.Evidence.Timeout.Duration = 15 * time.Second })
	if got := m.r.patienceFor(t.Context(), m.request); got != 15*time.Second {
		t.Errorf("%s", got)
	}
	seen := m.looked(t)
	if seen.read = m.now.Add(-25 * time.Second); seen.outdated(m.now) {
		t.Error("what was read before one slow answer is outdated")
	}
	m.request.Spec.Source.Name = "none"
	if got := m.r.patienceFor(t.Context(), m.request); got != patience {
		t.Errorf("without a policy %s", got)
	}
}
