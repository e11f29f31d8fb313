package act

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

var (
	policyKey = snapshot.Key{Namespace: "db", Name: "db"}
	podKey    = snapshot.Key{Namespace: "db", Name: "db-0"}
	present   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// governedWorld is a store with a policy and a pod in it.
func governedWorld(t *testing.T, objects ...client.Object) *Governed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	objects = append(objects,
		&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db", UID: "policy"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db-0", UID: "pod"}},
	)
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EvictionPolicy{}, &api.Eviction{}).
		WithIndex(&api.EvictionRequest{}, targets.Field, targets.IndexPod).WithIndex(&api.Eviction{}, targets.Field, targets.IndexPod).Build()
	none := func(*v1alpha1.System) (system.Kind, bool) { return system.Kind{}, false }
	return &Governed{
		Client: store, Policies: policycache.New(store, none, nil), Lifecycle: lifecycleapi.Usher,
		Now: func() time.Time { return present },
	}
}

func (g *Governed) stored(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{}
	if err := g.Client.Get(t.Context(), policyKey, policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

func wantCode(t *testing.T, answer answers.Answer, code answers.Code) {
	t.Helper()
	if answer.Code != code {
		t.Errorf("answer %+v, want %s", answer, code)
	}
}

func permit(version string, epoch int64) eviction.Action {
	return eviction.Action{
		Kind: eviction.Permit, Policy: policyKey, Version: version,
		Status: &v1alpha1.EvictionPolicyStatus{
			Epoch:       epoch,
			Leaving:     []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "pod"}, StartTime: metav1.NewTime(present), Requester: "me"}},
			MemberCount: 99, // not its business
		},
	}
}

func TestAPermitIsWrittenOnlyOnTheVersionThatWasDecidedUpon(t *testing.T) {
	g := governedWorld(t)
	decided := g.stored(t)
	wantCode(t, g.WriteSeen(t.Context(), decided, v1alpha1.EvictionPolicyStatus{
		MemberCount: 3, System: v1alpha1.SystemStatus{Kind: "http", Error: "down"},
	}), answers.Accepted)
	wantCode(t, g.Do(t.Context(), permit(decided.ResourceVersion, 1)), answers.Conflict)
	if n := len(g.stored(t).Status.Leaving); n != 0 {
		t.Errorf("%d permits were written on another version", n)
	}
	wantCode(t, g.Do(t.Context(), permit(g.stored(t).ResourceVersion, 1)), answers.Accepted)
	wantCode(t, g.Do(t.Context(), permit("", 2)), answers.Rejected)

	after := g.stored(t)
	if after.Status.Epoch != 1 || len(after.Status.Leaving) != 1 || after.Status.MemberCount != 3 {
		t.Errorf("status %+v, want epoch 1, one permit, and what is seen untouched", after.Status)
	}
	known, err := g.Policies.Policy(t.Context(), policyKey)
	if err != nil || known.ResourceVersion != after.ResourceVersion {
		t.Errorf("the policyCache knows version %s, %v; want %s", known.ResourceVersion, err, after.ResourceVersion)
	}
	wantCode(t, g.WriteSeen(t.Context(), after, v1alpha1.EvictionPolicyStatus{System: v1alpha1.SystemStatus{Kind: "http"}}), answers.Accepted)
	last := g.stored(t).Status
	if last.System.Error != "" || last.MemberCount != 0 || len(last.Leaving) != 1 || last.Epoch != 1 {
		t.Errorf("status %+v, want what is seen replaced and the permit untouched", last)
	}
	settle := permit(g.stored(t).ResourceVersion, 2)
	settle.Kind, settle.Status.Leaving = eviction.Settle, nil
	wantCode(t, g.Do(t.Context(), settle), answers.Accepted)
	if last := g.stored(t).Status; len(last.Leaving) != 0 || last.Epoch != 2 {
		t.Errorf("status %+v, want no permit", last)
	}
	settle.Version, settle.Status.Epoch = g.stored(t).ResourceVersion, 3
	settle.Seen = &v1alpha1.EvictionPolicyStatus{Epoch: 99, MemberCount: 5, System: v1alpha1.SystemStatus{Kind: "http"}}
	wantCode(t, g.Do(t.Context(), settle), answers.Accepted)
	if last := g.stored(t).Status; last.MemberCount != 5 || last.Epoch != 3 {
		t.Errorf("status %+v, want what is seen with it", last)
	}
}

func TestWhatIsRefusedEndsTheRest(t *testing.T) {
	g := governedWorld(t)
	refused := permit("1000", 1)
	refused.Version = "1"
	outdated := refused
	outdated.BestEffort = true
	best := outdated
	best.Version = ""
	ask := eviction.Action{Kind: eviction.Request, Pod: podKey, UID: "pod", Requester: "me"}
	for _, permit := range []eviction.Action{refused, outdated} {
		if at, answer := g.DoAll(t.Context(), []eviction.Action{permit, ask}); at.Kind != eviction.Permit || answer.Code != answers.Conflict {
			t.Errorf("best effort %t: stopped at %q with %s", permit.BestEffort, at.Kind, answer.Code)
		}
	}
	if n := len(g.requests(t)); n != 0 {
		t.Errorf("%d requests after a refused permit", n)
	}
	if _, answer := g.DoAll(t.Context(), []eviction.Action{best, ask}); answer.Code != answers.Accepted || answer.RetryAfter != retryBestEffort {
		t.Errorf("answer %+v although the permit was made as best effort", answer)
	}
	if n := len(g.requests(t)); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// What was decided by a policy that has vanished since is not carried out, also where its permit is made as best effort: those who asked for
// it were refused by that policy.
func TestPermitOfAPolicyThatHasVanishedEndsTheRest(t *testing.T) {
	g := governedWorld(t)
	permit := permit(g.stored(t).ResourceVersion, 1)
	permit.BestEffort = true
	if err := g.Client.Delete(t.Context(), g.stored(t)); err != nil {
		t.Fatal(err)
	}
	ask := eviction.Action{Kind: eviction.Request, Pod: podKey, UID: "pod", Requester: "me"}
	if at, answer := g.DoAll(t.Context(), []eviction.Action{permit, ask}); at.Kind != eviction.Permit || answer.Code != answers.Gone {
		t.Errorf("stopped at %q with %+v", at.Kind, answer)
	}
	if n := len(g.requests(t)); n != 0 {
		t.Errorf("%d requests after a permit that could not be written", n)
	}
}

func (g *Governed) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := g.Client.Get(t.Context(), podKey, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func (g *Governed) requests(t *testing.T) []api.EvictionRequest {
	t.Helper()
	var list api.EvictionRequestList
	if err := g.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestRequests(t *testing.T) {
	g := governedWorld(t)
	now := present
	g.Now = func() time.Time { return now }
	ask := eviction.Action{Kind: eviction.Request, Pod: podKey, UID: "pod", Requester: "system:admin"}
	wantCode(t, g.Do(t.Context(), ask), answers.Accepted)
	request := g.requests(t)[0]
	want := api.EvictionRequestSpec{
		Target:    api.EvictionRequestTarget{Pod: &api.EvictionRequestPodReference{Name: "db-0", UID: "pod"}},
		Requester: evictionrequest.Requester("system:admin"), Intent: api.EvictionRequestIntentEviction,
	}
	if diff := cmp.Diff(want, request.Spec); diff != "" {
		t.Error(diff)
	}
	if owners := request.OwnerReferences; len(owners) != 1 || owners[0].UID != "pod" {
		t.Errorf("owners %v: the request would outlive its pod", owners)
	}
	at := func(after time.Duration, want time.Duration) {
		t.Helper()
		now = present.Add(after)
		wantCode(t, g.Do(t.Context(), ask), answers.Accepted)
		all := g.requests(t)
		if asked, ok := evictionrequest.LastRequestTime(&all[0]); len(all) != 1 || !ok || !asked.Equal(present.Add(want)) {
			t.Errorf("after %s: %d requests, asked at %s, want at %s", after, len(all), asked, present.Add(want))
		}
	}
	at(59*time.Second, 0)
	at(61*time.Second, 61*time.Second)
	at(-time.Hour, -time.Hour) // what is written there lies in the future
	at(61*time.Second, 61*time.Second)

	squat := g.requests(t)[0]
	squat.Spec.Target.Pod.Name = "db-1"
	if err := g.Client.Update(t.Context(), &squat); err != nil {
		t.Fatal(err)
	}
	if answer := g.Do(t.Context(), ask); answer.Code == answers.Accepted || !strings.Contains(answer.Message, "is about another pod") {
		t.Errorf("its name is taken: %+v", answer)
	}
	squat.Spec.Target.Pod.Name = "db-0"
	if err := g.Client.Update(t.Context(), &squat); err != nil {
		t.Fatal(err)
	}

	other := eviction.Action{Kind: eviction.Withdraw, Pod: podKey, UID: "another", Requester: want.Requester}
	wantCode(t, g.Do(t.Context(), other), answers.Accepted)
	if g.requests(t)[0].Spec.Intent != api.EvictionRequestIntentEviction {
		t.Error("the request for another pod of the name was withdrawn")
	}
	other.UID = "pod"
	wantCode(t, g.Do(t.Context(), other), answers.Accepted)
	if g.requests(t)[0].Spec.Intent != api.EvictionRequestIntentWithdrawn {
		t.Error("the request was not withdrawn")
	}
	at(62*time.Second, 62*time.Second)
	if g.requests(t)[0].Spec.Intent != api.EvictionRequestIntentEviction {
		t.Error("a repeated request after a withdrawal has no effect")
	}
	g.Lifecycle.Group, g.Lifecycle.Version = "", ""
	wantCode(t, g.Do(t.Context(), ask), answers.Rejected)
}

// TestARequestByHandIsNotAdmissions: a request that a user made by hand stands when an eviction by the same user is refused.
func TestARequestByHandIsNotAdmissions(t *testing.T) {
	ref := evictionrequest.Ref{Namespace: "db", Name: "db-0", UID: "pod"}
	g := governedWorld(t, evictionrequest.NewRequest(ref, evictionrequest.Requester("jane")))
	wantCode(t, g.Do(t.Context(), eviction.Action{Kind: eviction.Request, Pod: podKey, UID: "pod", Requester: "jane"}), answers.Accepted)
	if request := g.requests(t)[0]; request.Annotations[evictionrequest.LastRequestTimeAnnotation] != "" {
		t.Error("the request by hand ends with what admission asked for")
	}
	wantCode(t, g.Do(t.Context(), eviction.Action{Kind: eviction.Withdraw, Pod: podKey, UID: "pod", Requester: evictionrequest.Requester("jane")}), answers.Accepted)
	if request := g.requests(t)[0]; request.Spec.Intent != api.EvictionRequestIntentEviction {
		t.Error("the request by hand was withdrawn")
	}
}

func TestLabels(t *testing.T) {
	g := governedWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "ns"}})
	known := policycache.Facts(g.pod(t))
	wantCode(t, g.LabelPod(t.Context(), known, "db"), answers.Accepted)
	// By now its other labels may be others than those by which nothing guards it.
	wantCode(t, g.UnlabelPod(t.Context(), known), answers.Conflict)
	if got := g.pod(t).Labels[v1alpha1.PolicyLabel]; got != "db" {
		t.Errorf("label %q", got)
	}
	wantCode(t, g.UnlabelPod(t.Context(), policycache.Facts(g.pod(t))), answers.Accepted)
	if _, ok := g.pod(t).Labels[v1alpha1.PolicyLabel]; ok {
		t.Error("the label is still there")
	}
	wantCode(t, g.UnlabelPod(t.Context(), &snapshot.Pod{Namespace: "db", Name: "db-0", UID: "pod"}), answers.Rejected)
	for _, step := range []struct {
		label string
		has   bool
		want  map[string]string
	}{
		{v1alpha1.GovernedLabel, true, map[string]string{v1alpha1.GovernedLabel: "true"}},
		{v1alpha1.AuditedLabel, true, map[string]string{v1alpha1.GovernedLabel: "true", v1alpha1.AuditedLabel: "true"}},
		{v1alpha1.GovernedLabel, false, map[string]string{v1alpha1.AuditedLabel: "true"}},
		{v1alpha1.AuditedLabel, false, nil},
	} {
		wantCode(t, g.LabelNamespace(t.Context(), "db", "ns", step.label, step.has), answers.Accepted)
		namespace := &corev1.Namespace{}
		if err := g.Client.Get(t.Context(), snapshot.Key{Name: "db"}, namespace); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, namespace.Labels, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %s %t: %s", step.label, step.has, diff)
		}
	}
	for _, policy := range []string{"trial", ""} {
		wantCode(t, g.AuditPod(t.Context(), known, policy), answers.Accepted)
		if got, ok := g.pod(t).Labels[v1alpha1.AuditLabel]; got != policy || ok != (policy != "") {
			t.Errorf("audit label %q, %t", got, ok)
		}
	}
	long := "a23456789-a23456789-a23456789-a23456789-a23456789-a23456789-a2.-more"
	wantCode(t, g.LabelPod(t.Context(), known, long), answers.Accepted)
	if got := g.pod(t).Labels[v1alpha1.PolicyLabel]; got != long[:62] {
		t.Errorf("label value %q", got)
	}
}

func TestAPolicyIsHeldOnce(t *testing.T) {
	g := governedWorld(t)
	stale := g.stored(t)
	wantCode(t, g.HoldPolicy(t.Context(), stale, false), answers.Accepted)
	wantCode(t, g.HoldPolicy(t.Context(), stale, true), answers.Accepted)
	held := g.stored(t)
	if diff := cmp.Diff([]string{v1alpha1.UndoFinalizer}, held.Finalizers); diff != "" {
		t.Error(diff)
	}
	wantCode(t, g.HoldPolicy(t.Context(), held, true), answers.Accepted)
	wantCode(t, g.HoldPolicy(t.Context(), stale, true), answers.Conflict)
	wantCode(t, g.HoldPolicy(t.Context(), held, false), answers.Accepted)
	if diff := cmp.Diff([]string{}, g.stored(t).Finalizers, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestFirstPermitHoldsItsPolicy: a replica that writes the first permit holds the policy before, since none may lead until the policy
// is deleted, and upon the version that was decided upon. It costs one write, where a deletion would have to wait for the member.
func TestFirstPermitHoldsItsPolicy(t *testing.T) {
	refusing := func(g *Governed) {
		g.Client = interceptor.NewClient(g.Client.(client.WithWatch), interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "evictionpolicies"}, "db", errors.New("a policy engine says no"))
		}})
	}
	settled := func(p *v1alpha1.EvictionPolicy) {
		p.Spec.System.HTTP = &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://db"}}}
		p.Spec.Members = []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
		p.Spec.Roles = []v1alpha1.Role{{Name: "node", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique, Evict: v1alpha1.Evict{Settle: &metav1.Duration{}}}}
	}
	finalizers := func(names ...string) func(*v1alpha1.EvictionPolicy) {
		return func(p *v1alpha1.EvictionPolicy) { p.Finalizers = names }
	}
	deleted := func(ago time.Duration) func(*Governed) {
		return func(g *Governed) {
			if err := g.Client.Delete(t.Context(), g.stored(t)); err != nil {
				t.Fatal(err)
			}
			at := g.stored(t).DeletionTimestamp.Add(ago)
			g.Now = func() time.Time { return at }
		}
	}
	busy := func(g *Governed) {
		g.Client = interceptor.NewClient(g.Client.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewTooManyRequests("the apiserver has too much to do", 1)
		}})
	}
	const others = "foregroundDeletion"
	for name, c := range map[string]struct {
		policy func(*v1alpha1.EvictionPolicy)
		given  func(*Governed)
		stale  bool
		held   bool
		code   answers.Code
		permit bool
		says   string
	}{
		"it is not held":                      {held: true, code: answers.Accepted, permit: true},
		"another has written it since":        {stale: true, code: answers.Conflict},
		"the system needs no time":            {policy: settled, code: answers.Accepted, permit: true},
		"the apiserver refuses the finalizer": {given: refusing, code: answers.Accepted, permit: true},
		"it is being deleted, held":           {policy: finalizers(others, v1alpha1.UndoFinalizer), given: deleted(time.Second), held: true, code: answers.Accepted, permit: true},
		"it is being deleted, not held":       {policy: finalizers(others), given: deleted(vanishing - time.Second), code: answers.RefusedForNow, says: "policy db/db is being deleted and may go any moment"},
		"the apiserver is busy":               {given: busy, held: true, code: answers.RefusedForNow, says: "the apiserver has too much to do"},
		"it is being deleted, and stays":      {policy: finalizers(others), given: deleted(vanishing), code: answers.Accepted, permit: true},
		"it is being deleted, the system needs no time": {
			policy: func(p *v1alpha1.EvictionPolicy) { settled(p); finalizers(others)(p) }, given: deleted(time.Second), code: answers.Accepted, permit: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := governedWorld(t)
			policy := g.stored(t)
			if c.policy != nil {
				c.policy(policy)
				if err := g.Client.Update(t.Context(), policy); err != nil {
					t.Fatal(err)
				}
			}
			if c.given != nil {
				c.given(g)
			}
			action := permit(g.stored(t).ResourceVersion, 1)
			if c.stale {
				wantCode(t, g.WriteSeen(t.Context(), policy, v1alpha1.EvictionPolicyStatus{MemberCount: 3}), answers.Accepted)
			}
			answer := g.Do(t.Context(), action)
			wantCode(t, answer, c.code)
			if !strings.HasPrefix(answer.Message, c.says) || answer.Vanishing != (name == "it is being deleted, not held") {
				t.Errorf("it says %q, vanishing: %t", answer.Message, answer.Vanishing)
			}
			after := g.stored(t)
			if held := slices.Contains(after.Finalizers, v1alpha1.UndoFinalizer); held != c.held || (len(after.Status.Leaving) > 0) != c.permit {
				t.Errorf("held %t, want %t; permits %v", held, c.held, after.Status.Leaving)
			}
		})
	}
}

func TestWhatASystemSaidIsKeptWhileItMatters(t *testing.T) {
	g := governedWorld(t)
	policy := g.stored(t)
	step := eviction.Preparation{Name: "Exclude", Member: v1alpha1.MemberRef{PodUID: "pod"}, Asked: present}
	g.receive(policy, eviction.Reply{Step: step}, system.ErrTerminal)
	policy.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{PodUID: "pod"}, Name: "Exclude"}}
	want := []eviction.Reply{{Step: step, Error: system.ErrTerminal.Error(), Terminal: true}}
	if diff := cmp.Diff(want, g.Replies(policy)); diff != "" {
		t.Error(diff)
	}
	g.receive(policy, eviction.Reply{Step: step}, nil)
	if diff := cmp.Diff([]eviction.Reply{{Step: step}}, g.Replies(policy)); diff != "" {
		t.Errorf("after a second call: %s", diff)
	}
	policy.Status.Preparations = nil
	if replies := g.Replies(policy); len(replies) != 0 || len(g.replies) != 0 {
		t.Errorf("replies %v of a step that is settled", replies)
	}
}
