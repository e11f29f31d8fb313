package eviction

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

func replaced(pod, request string) v1alpha1.Replacing {
	return v1alpha1.Replacing{Role: "store", ID: "m-" + pod, Request: request, RequestUID: types.UID(request), StartTime: metav1.NewTime(noon)}
}

// A member that is being replaced counts as one that is on its way: for its role's limit, and for rules that ask for leaving.
func TestReplacedMembersCountAsLeaving(t *testing.T) {
	in := world(t)
	in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s1", "q1")}
	if got := reasons(Judge(in)); !slices.Equal(got, []string{AnotherIsReplaced}) {
		t.Errorf("with m-s1 replaced, m-s0 is judged %v", got)
	}
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon)}
	if got := reasons(Judge(in)); !slices.Equal(got, []string{AnotherIsLeaving}) {
		t.Errorf("with m-s1 leaving as well, m-s0 is judged %v", got)
	}
	in = world(t)
	in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q0")}
	if got := reasons(Judge(in)); len(got) > 0 {
		t.Errorf("m-s0 itself is replaced, and is judged %v", got)
	}
	in.Pod = toyPod("r0", "router")
	if got := reasons(Judge(in)); len(got) > 0 {
		t.Errorf("a member of another role is judged %v", got)
	}
}

func TestJudgeReplacing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Input)
		want   []string
	}{
		"nothing is in the way": {want: nil},
		"it is being replaced":  {change: func(in *Input) { in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q0")} }},
		"for another request":   {change: func(in *Input) { in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q9")} }, want: []string{AnotherIsReplaced}},
		"another member is":     {change: func(in *Input) { in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s1", "q1")} }, want: []string{AnotherIsReplaced}},
		"another member is, and two may be": {change: func(in *Input) {
			in.Policies[0].Policy.mostReplaced, in.Policies[0].Status.Replacing = 2, []v1alpha1.Replacing{replaced("s1", "q1")}
		}},
		"for another request, and two may be": {change: func(in *Input) {
			in.Policies[0].Policy.mostReplaced, in.Policies[0].Status.Replacing = 2, []v1alpha1.Replacing{replaced("s0", "q9")}
		}, want: []string{AnotherIsReplaced}},
		"a member of another role with its id is, and two may be": {change: func(in *Input) {
			other := replaced("s0", "q9")
			other.Role = "router"
			in.Policies[0].Policy.mostReplaced, in.Policies[0].Status.Replacing = 2, []v1alpha1.Replacing{other}
		}},
		"another member leaves": {change: func(in *Input) { in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon)} }, want: []string{AnotherIsLeaving}},
		"its former pod settles": {change: func(in *Input) {
			former := leaves("s0", "store", noon)
			former.PodUID = "former"
			in.Policies[0].Status.Leaving = []v1alpha1.Leaving{former}
		}},
		"a rule does not pass":        {change: func(in *Input) { in.Deleted = false }, want: []string{"NotDeleted"}},
		"what is known is too old":    {change: func(in *Input) { in.Policies[0].Status.Epoch = 5 }, want: []string{EvidenceStale}},
		"no other can take its place": {change: func(in *Input) { in.Pod = toyPod("x0", "single") }, want: []string{NoSuccessor}},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Deleted = true
			in.Evidence.Members["m-x0"] = expression.Facts{}
			if test.change != nil {
				test.change(&in)
			}
			if got := reasons(JudgeReplacing(in, "q0")); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// A rule about data that others have can be given up by its name. Where the system does not answer, all of them have to be; one that is marked
// never, or is about the member's own pod and node, cannot be, and neither can what is no rule's.
func TestWaivers(t *testing.T) {
	spec := toySpec()
	spec.Roles = []v1alpha1.Role{{Name: "giver", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique, Replace: v1alpha1.Replace{
		Successor: v1alpha1.SuccessorSameIdentity,
		Rules: []v1alpha1.Rule{
			{Name: "copies", Reason: "NoCopies", Expression: "member.drained", Message: "x"},
			{Name: "serves", Reason: "NotServing", Expression: `system.leader != ""`, Message: "x"},
			{Name: "old-pod", Reason: "PodThere", Expression: "pod.deleted", Message: "x"},
			{Name: "others", Reason: "OthersUnready", Expression: "unready.size() == 0", Message: "x"},
		},
	}}}
	spec.Members[0].Role = "giver"
	policy := compiled(t, spec)
	rules := policy.entryOf("giver").role.replace
	never := slices.Clone(rules)
	declared := *never[1].declared
	declared.Never = true
	never[1].declared = &declared
	for name, test := range map[string]struct {
		rules []rule
		of    Blocker
		want  []string
	}{
		"a rule about its data":         {rules, Blocker{Rule: "copies", Reason: "NoCopies"}, []string{"copies"}},
		"its fact is missing":           {rules, Blocker{Rule: "copies", Reason: FactMissing}, []string{"copies"}},
		"a rule about others":           {rules, Blocker{Rule: "others", Reason: "OthersUnready"}, []string{"others"}},
		"a rule about its pod":          {rules, Blocker{Rule: "old-pod", Reason: "PodThere"}, nil},
		"the system does not answer":    {rules, Blocker{Reason: NoEvidence}, []string{"copies", "serves"}},
		"what is known is too old":      {rules, Blocker{Reason: EvidenceStale}, []string{"copies", "serves"}},
		"a rule's reason is the same":   {rules, Blocker{Rule: "others", Reason: NoEvidence}, []string{"others"}},
		"the system knows it not":       {rules, Blocker{Reason: MemberUnknown}, nil},
		"its id is shared":              {rules, Blocker{Reason: MemberShared}, nil},
		"another is replaced":           {rules, Blocker{Reason: AnotherIsReplaced}, nil},
		"the policy is suspended":       {rules, Blocker{Reason: PolicySuspended}, nil},
		"no other may take its place":   {rules, Blocker{Reason: NoSuccessor}, nil},
		"never":                         {never, Blocker{Rule: "serves", Reason: "NotServing", Never: true}, nil},
		"never, and it is not known":    {never, Blocker{Rule: "serves", Reason: FactMissing}, nil},
		"one of what is asked is never": {never, Blocker{Reason: NoEvidence}, nil},
	} {
		if got := waivers(test.rules, &test.of); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	in := world(t)
	in.Deleted, in.Evidence = true, nil
	for _, b := range JudgeReplacing(in, "q0").Blockers {
		if b.Reason == NoEvidence && len(b.WaivedBy) > 0 {
			t.Errorf("its only rule is about its pod, and %q give it up", b.WaivedBy)
		}
	}
}

// The permit of a replacement ends what was known before, and so does its end. What others have in the status stays.
func TestPermitReplacement(t *testing.T) {
	policy := world(t).Policies[0]
	policy.Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon)}
	permit, is := PermitReplacement(policy, replaced("s0", "q0"))
	if !is || permit.Kind != Permit || permit.Version != "7" || permit.Status.Epoch != 5 || len(permit.Status.Leaving) != 1 || ReplacingFor(permit.Status, "q0") != 0 {
		t.Errorf("the permit is %+v of %+v", permit, permit.Status)
	}
	if _, is := ReleaseReplacement(policy, "q0"); is {
		t.Error("a permit that is not there is released")
	}
	policy.Status = permit.Status
	again, is := PermitReplacement(policy, replaced("s0", "q0"))
	if !is || len(again.Status.Replacing) != 1 {
		t.Errorf("the permit is written twice: %+v", again.Status.Replacing)
	}
	if other, is := PermitReplacement(policy, replaced("s0", "q9")); is {
		t.Errorf("another request takes the permit: %+v", other.Status.Replacing)
	}
	release, is := ReleaseReplacement(policy, "q0")
	if !is || release.Status.Epoch != 6 || len(release.Status.Replacing) > 0 || len(release.Status.Leaving) != 1 {
		t.Errorf("the release is %+v of %+v", release, release.Status)
	}
}

// Usher itself may delete what it replaces, whatever is known of the system by then: its first claims are gone.
func TestAdmitsItsOwnReplacement(t *testing.T) {
	in := AdmissionInput{Input: world(t), Verb: VerbDelete, User: "system:serviceaccount:usher:manager", Self: []string{"system:serviceaccount:usher:manager"}}
	in.Evidence = nil
	if Admit(in).Allow {
		t.Error("a member that is not replaced is deleted without evidence")
	}
	in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q0")}
	if got := Admit(in); !got.Allow || got.Note.Kind != ByReplacement {
		t.Errorf("%+v", got)
	}
	in.Node = &snapshot.Node{Name: "node-a"}
	if Admit(in).Allow {
		t.Error("what may run on a node that is there is deleted without a verdict")
	}
	in.Policies[0].Policy.entries[0].memberSet = true
	if got := Admit(in); !got.Allow || got.Note.Kind != ByReplacement {
		t.Errorf("a member of a MemberSet that may go: %+v", got)
	}
	in.Policies[0].Status.Replacing = nil
	if Admit(in).Allow {
		t.Error("a member of a MemberSet goes without a permit")
	}
	in.Pod.Ready = false
	if got := Admit(in); !got.Allow || got.Note.Kind != ByOwner {
		t.Errorf("one that has not joined: %+v", got)
	}
	in.Pod.Ready = true
	in.Policies[0].Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q0")}
	in.Node, in.Grace = nil, new(int64)
	if Admit(in).Allow {
		t.Error("it is deleted by force")
	}
	in.Grace, in.User = nil, "anna"
	if Admit(in).Allow {
		t.Error("another user deletes a member that is being replaced")
	}
}

// What a status reconciliation writes keeps the members that are being replaced.
func TestReconcileStatusKeepsReplacing(t *testing.T) {
	in := world(t)
	policy := in.Policies[0]
	policy.Status.Replacing = []v1alpha1.Replacing{replaced("s0", "q0")}
	policy.Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon.Add(-time.Hour))}
	result := ReconcileStatus(StatusInput{
		Now: noon, Policy: policy, Pods: in.Peers, Presences: map[types.UID]PodPresence{"uid-s1": SeenStaying}, WantedKnown: true,
	})
	at := slices.IndexFunc(result.Actions, func(a Action) bool { return a.Kind == Settle })
	if at < 0 || ReplacingFor(result.Actions[at].Status, "q0") != 0 {
		t.Errorf("%+v", result.Actions)
	}
}
