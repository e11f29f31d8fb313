package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		given  func(*Input)
		answer Answer
		want   []string // reasons
		needed []string
	}{
		"all rules pass": {given: func(*Input) {}, answer: Allowed},
		"a rule fails, its step is needed": {
			given:  func(in *Input) { in.Evidence.Members["m-s0"]["drained"] = false },
			answer: Blocked, want: []string{"NotDrained"}, needed: []string{"Drain"},
		},
		"all failing rules are reported, steps in their order": {
			given: func(in *Input) {
				in.Evidence.Members["m-s0"]["drained"] = false
				in.Evidence.System["leader"] = "m-s0"
			},
			answer: Blocked, want: []string{"NotDrained", "IsLeader"}, needed: []string{"Resign", "Drain"},
		},
		"no evidence": {
			given:  func(in *Input) { in.Evidence = nil },
			answer: Blocked, want: []string{NoEvidence},
		},
		"the system answers too much": {
			given:  func(in *Input) { in.Evidence = &Evidence{Observed: noon, Error: "too large", TooLarge: true} },
			answer: Blocked, want: []string{EvidenceTooLarge},
		},
		"the system cannot be asked": {
			given:  func(in *Input) { in.Evidence = &Evidence{Observed: noon, Error: "401"} },
			answer: Blocked, want: []string{NoEvidence},
		},
		"two pods give its id": {
			given:  func(in *Input) { in.Evidence.Shared = map[string][]string{"m-s0": {"s0", "s9"}} },
			answer: Blocked, want: []string{MemberShared},
		},
		"two other pods give one id": {
			given:  func(in *Input) { in.Evidence.Shared = map[string][]string{"m-s1": {"s1", "s9"}} },
			answer: Allowed,
		},
		"one left under a role that is called otherwise now": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "disk", noon)}
			},
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"one left as another role's, and is this one's now": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "router", noon)}
			},
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"one left as this role's, and is another's now": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("r0", "store", noon)}
			},
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"one of another role left": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("r0", "router", noon)}
			},
			answer: Allowed,
		},
		"one left whose pod is not seen, under a role that there is no more": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s9", "disk", noon)}
			},
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"evidence at its limit": {given: func(in *Input) { in.Evidence.Observed = noon.Add(-10 * time.Second) }, answer: Allowed},
		"old evidence": {
			given:  func(in *Input) { in.Evidence.Observed = noon.Add(-11 * time.Second) },
			answer: Blocked, want: []string{EvidenceStale},
		},
		"old evidence still shows what is wrong, but begins nothing": {
			given: func(in *Input) {
				in.Evidence.Observed = noon.Add(-time.Minute)
				in.Evidence.Members["m-s0"]["drained"] = false
			},
			answer: Blocked, want: []string{EvidenceStale, "NotDrained"},
		},
		"evidence from the future": {
			given:  func(in *Input) { in.Evidence.Observed = noon.Add(time.Minute) },
			answer: Blocked, want: []string{EvidenceStale},
		},
		"evidence of an earlier epoch": {
			given:  func(in *Input) { in.Evidence.Epoch = 3 },
			answer: Blocked, want: []string{EvidenceStale},
		},
		"evidence of a later epoch than the status known here": {
			given:  func(in *Input) { in.Evidence.Epoch = 5 },
			answer: Blocked, want: []string{EvidenceStale},
		},
		"the system does not know the member": {
			given:  func(in *Input) { delete(in.Evidence.Members, "m-s0") },
			answer: Blocked, want: []string{MemberUnknown},
		},
		"a fact is missing": {
			given:  func(in *Input) { delete(in.Evidence.Members["m-s0"], "drained") },
			answer: Blocked, want: []string{FactMissing, RuleFailed},
		},
		"a fact is of another type": {
			given:  func(in *Input) { in.Evidence.Members["m-s0"]["drained"] = "yes" },
			answer: Blocked, want: []string{RuleFailed, RuleFailed},
		},
		"another has a permit": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon)}
			},
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"another is terminating": {
			given:  func(in *Input) { in.Peers[1] = terminating(toyPod("s1", "store")) },
			answer: Blocked, want: []string{AnotherIsLeaving},
		},
		"rules are asked while another is leaving": {
			given: func(in *Input) {
				in.Peers[1] = terminating(toyPod("s1", "store"))
				in.Evidence.Members["m-s0"]["drained"] = false
			},
			answer: Blocked, want: []string{AnotherIsLeaving, "NotDrained"},
		},
		"a pod of another role is terminating": {
			given:  func(in *Input) { in.Peers[3] = terminating(toyPod("r0", "router")) },
			answer: Allowed,
		},
		"it has a permit itself and is terminating itself": {
			given: func(in *Input) {
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s0", "store", noon)}
				in.Pod = terminating(in.Pod)
				in.Peers[0] = in.Pod
			},
			answer: Allowed,
		},
		"another is being prepared": {
			given: func(in *Input) {
				in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s1", v1alpha1.PreparationBegun, noon)}
				in.Evidence.Members["m-s0"]["drained"] = false
			},
			answer: Blocked, want: []string{"NotDrained", AnotherIsPrepared},
		},
		"another was prepared and is gone": {
			given: func(in *Input) {
				in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s9", v1alpha1.PreparationBegun, noon)}
				in.Evidence.Members["m-s0"]["drained"] = false
			},
			answer: Blocked, want: []string{"NotDrained"}, needed: []string{"Drain"},
		},
		"it is being prepared": {
			given: func(in *Input) {
				in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon)}
				in.Evidence.Members["m-s0"]["drained"] = false
			},
			answer: Blocked, want: []string{"NotDrained", PreparationPending}, needed: []string{"Drain"},
		},
		"it was prepared": {
			given: func(in *Input) {
				in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon)}
			},
			answer: Allowed,
		},
		"what prepared it is being undone": {
			given: func(in *Input) {
				in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationUndoing, noon)}
			},
			answer: Blocked, want: []string{PreparationPending},
		},
		"no policy": {
			given: func(in *Input) {
				in.Policies = nil
				delete(in.Pod.Labels, v1alpha1.PolicyLabel)
			},
			answer: Allowed,
		},
		"a label without its policy": {given: func(in *Input) { in.Policies = nil }, answer: Blocked, want: []string{PolicyUnknown}},
		"a label in a namespace that nothing governs": {
			given: func(in *Input) { in.Policies, in.Ungoverned = nil, true }, answer: Allowed,
		},
		"an empty label": {
			given: func(in *Input) { in.Policies, in.Pod.Labels[v1alpha1.PolicyLabel] = nil, "" }, answer: Blocked, want: []string{PolicyUnknown},
		},
		// The policy's newest version may select the pod, and not have come here yet (found by the simulation).
		"a label whose policy does not select the pod": {
			given: func(in *Input) { in.Pod.Labels["role"] = "none" }, answer: Blocked, want: []string{PolicyUnknown},
		},
		// … or ask something of the pod's role.
		"a label whose policy asks nothing of the pod's role": {
			given: func(in *Input) { in.Pod.Labels["role"] = "router" }, answer: Blocked, want: []string{PolicyUnknown},
		},
		"another policy's label on a pod whose role asks nothing": {
			given:  func(in *Input) { in.Pod.Labels["role"], in.Pod.Labels[v1alpha1.PolicyLabel] = "router", "other" },
			answer: Blocked, want: []string{PolicyUnknown},
		},
		"a policy of another namespace": {
			given:  func(in *Input) { in.Policies[0].Key.Namespace = "else"; delete(in.Pod.Labels, v1alpha1.PolicyLabel) },
			answer: Allowed,
		},
		"two policies": {
			given: func(in *Input) {
				in.Policies = append(in.Policies, Declared{
					Key: snapshot.Key{Namespace: "shop", Name: "other"}, Policy: in.Policies[0].Policy,
				})
			},
			answer: Blocked, want: []string{ClaimedTwice},
		},
		"a role without rules needs no evidence": {
			given:  func(in *Input) { in.Pod = toyPod("r1", "router"); in.Evidence = nil },
			answer: Allowed,
		},
		"a role without state may leave together": {
			given: func(in *Input) {
				in.Pod = toyPod("r1", "router")
				in.Peers[3] = terminating(toyPod("r0", "router"))
			},
			answer: Allowed,
		},
		"never, while the system cannot be asked": {
			given:  func(in *Input) { in.Pod = toyPod("x0", "single"); in.Evidence = nil },
			answer: Never, want: []string{NoEvidence, "Single"},
		},
		"a static pod": {given: func(in *Input) { in.Pod.Mirror = true }, answer: Never, want: []string{Unmovable}},
		"a pod of a DaemonSet": {
			given:  func(in *Input) { in.Pod.Owner = daemonSet; in.Evidence.Members["m-s0"]["drained"] = false },
			answer: Never, want: []string{Unmovable, "NotDrained"},
		},
		"a pod of a DaemonSet that has ended": {
			given: func(in *Input) { in.Pod.Owner, in.Pod.Phase = daemonSet, corev1.PodFailed }, answer: Allowed,
		},
		"a pod of a DaemonSet that is not governed": {
			given: func(in *Input) { in.Pod.Owner, in.Pod.Labels = daemonSet, nil }, answer: Allowed,
		},
		"a pod of another group's DaemonSet": {
			given: func(in *Input) { in.Pod.Owner.APIVersion, in.Pod.Owner.Kind = "apps.kruise.io/v1alpha1", "DaemonSet" }, answer: Allowed,
		},
		"a pod that has ended": {given: func(in *Input) { in.Pod.Phase = corev1.PodFailed; in.Evidence = nil }, answer: Allowed},
		"a pod without a node, freshly read": {
			given:  func(in *Input) { in.Pod.Node, in.Fresh, in.Evidence = "", true, nil },
			answer: Allowed,
		},
		"a pod without a node, as the cache says": {
			given:  func(in *Input) { in.Pod.Node, in.Evidence = "", nil },
			answer: Blocked, want: []string{NoEvidence},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			c.given(&in)
			got := Judge(in)
			if got.Answer != c.answer {
				t.Errorf("answer %s, want %s", got.Answer, c.answer)
			}
			if diff := cmp.Diff(c.want, reasons(got)); diff != "" {
				t.Errorf("reasons: %s", diff)
			}
			if diff := cmp.Diff(c.needed, stepNames(got)); diff != "" {
				t.Errorf("steps: %s", diff)
			}
			for _, b := range got.Blockers {
				if b.Message == "" {
					t.Errorf("%s has no words", b.Reason)
				}
			}
		})
	}
}

func TestMessages(t *testing.T) {
	in := world(t)
	in.Pod = toyPod("s1", "store")
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s2", "store", noon)}
	want := []Blocker{
		{
			Reason:  AnotherIsLeaving,
			Message: "s2 (m-s2) is on the way out, and of role store one may leave at a time; it waits until that was seen gone",
			Remedy:  "wait; usher why pod/s2 -n shop shows what holds that one while it is there", Retry: 5 * time.Second,
		},
		{Rule: "drained", Reason: "NotDrained", Message: "m-s1 still holds shards a, b", Remedy: "move 2 shards", Retry: lookAgain},
		{Rule: "no-leader", Reason: "IsLeader", Message: "m-s1 leads", Retry: lookAgain},
	}
	if diff := cmp.Diff(want, Judge(in).Blockers); diff != "" {
		t.Error(diff)
	}
}

// The advice is typed as it stands: it names the policies, each once, and their namespace.
func TestPoliciesThatClaimAPodAreNamed(t *testing.T) {
	in := world(t)
	in.Policies = append(in.Policies, Declared{Key: snapshot.Key{Namespace: "shop", Name: "other"}, Policy: in.Policies[0].Policy})
	want := "change the selectors so that each pod is claimed once: kubectl edit evictionpolicy -n shop " + in.Policies[0].Key.Name + " other"
	if got := Judge(in).Blockers[0]; got.Reason != ClaimedTwice || got.Remedy != want {
		t.Errorf("%+v", got)
	}
}

func TestSuspendedAndInvalid(t *testing.T) {
	in := world(t)
	spec := toySpec()
	spec.Suspend = true
	in.Policies[0].Policy = compiled(t, spec)
	in.Evidence.Members["m-s0"]["drained"] = false
	got := Judge(in)
	if diff := cmp.Diff([]string{PolicySuspended, "NotDrained"}, reasons(got)); diff != "" {
		t.Error(diff)
	}
	if len(got.Needed) > 0 {
		t.Error("a suspended policy asks for a step")
	}

	spec = toySpec()
	spec.Members[1].Role = "unknown"
	in.Policies[0].Policy, _ = Compile(spec, toyRoles(), toyDeclared)
	got = Judge(in)
	if diff := cmp.Diff([]string{PolicyInvalid}, reasons(got)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(got.Blockers[0].Message, `spec.members[1].role: there is no role "unknown"`) {
		t.Error(got.Blockers[0].Message)
	}
}

func TestUnreadableSelectorBlocksByLabel(t *testing.T) {
	in := world(t)
	spec := toySpec()
	spec.Members[0].Selector.MatchLabels = map[string]string{"role": "not a value!"}
	in.Policies[0].Policy, _ = Compile(spec, toyRoles(), toyDeclared)
	if diff := cmp.Diff([]string{PolicyInvalid}, reasons(Judge(in))); diff != "" {
		t.Error(diff)
	}
}

func TestIDThatCannotBeDetermined(t *testing.T) {
	in := world(t)
	spec := toySpec()
	spec.Members[0].ID = `pod.labels["server"]`
	in.Policies[0].Policy = compiled(t, spec)
	got := Judge(in)
	if diff := cmp.Diff([]string{MemberUnknown}, reasons(got)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(got.Blockers[0].Message, `"server" is not known`) {
		t.Error(got.Blockers[0].Message)
	}
}

func TestJudgeReplace(t *testing.T) {
	for name, c := range map[string]struct {
		given  func(*Input)
		answer Answer
		want   []string
	}{
		"the old pod is there":               {given: func(*Input) {}, answer: Blocked, want: []string{"NotDeleted"}},
		"the old pod is known to be deleted": {given: func(in *Input) { in.Deleted = true }, answer: Allowed},
		"without evidence": {
			given: func(in *Input) { in.Deleted, in.Evidence = true, nil }, answer: Blocked, want: []string{NoEvidence},
		},
		"others that leave do not matter": {
			given: func(in *Input) {
				in.Deleted = true
				in.Peers[1] = terminating(in.Peers[1])
			},
			answer: Allowed,
		},
		"any member takes a router's place": {given: func(in *Input) { in.Pod = toyPod("r0", "router"); in.Evidence = nil }, answer: Allowed},
		"no member takes a single server's": {
			given: func(in *Input) { in.Pod = toyPod("x0", "single"); in.Evidence = nil }, answer: Never, want: []string{NoSuccessor},
		},
	} {
		in := world(t)
		c.given(&in)
		got := JudgeReplace(in)
		if got.Answer != c.answer || !cmp.Equal(reasons(got), c.want) {
			t.Errorf("%s: got %s %v, want %s %v", name, got.Answer, reasons(got), c.answer, c.want)
		}
	}
}

// A member may have no pod: it is lost, or runs outside the cluster.
func TestJudgeReplaceWithoutAPod(t *testing.T) {
	change := func(in *Input, suspended bool) {
		spec := toySpec()
		spec.Suspend = suspended
		spec.Roles = toyRoles()[:1]
		spec.Roles[0].Replace.Rules = []v1alpha1.Rule{{Name: "drained", Reason: "NotDrained", Expression: "member.drained", Message: "{{member.id}} holds data"}}
		in.Policies[0].Policy = compiled(t, spec)
	}
	byFacts := func(in *Input) { change(in, false) }
	asking := func(expression string) func(*Input) {
		return func(in *Input) {
			spec := toySpec()
			spec.Roles = toyRoles()[:1]
			spec.Roles[0].Replace.Rules = []v1alpha1.Rule{{Name: "pod", Reason: "NotDeleted", Expression: expression, Message: "x"}}
			in.Policies[0].Policy = compiled(t, spec)
		}
	}
	ofRole := func(role string) func(*Input) { return func(in *Input) { in.Absent.Member.Role = role } }
	for name, c := range map[string]struct {
		given  func(*Input)
		answer Answer
		want   []string
	}{
		"a rule asks for the pod":           {given: func(*Input) {}, answer: Blocked, want: []string{PodMissing}},
		"and all of it is known to be gone": {given: func(in *Input) { in.Deleted = true }, answer: Allowed},
		"of which a process may go on": {
			given: func(in *Input) {
				in.Deleted = true
				lingering := leaves("s0", "store", in.Now)
				lingering.LingerSeconds = 30
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{lingering}
			},
			answer: Blocked, want: []string{PodMissing},
		},
		"or for more of it": {
			given: func(in *Input) {
				asking("pod.deleted && pod.ready")(in)
				in.Deleted = true
			},
			answer: Blocked, want: []string{PodMissing},
		},
		"or for something else":      {given: asking("pod.deleted || member.drained"), answer: Blocked, want: []string{PodMissing}},
		"or whether there is a node": {given: asking("!has(pod.node)"), answer: Blocked, want: []string{PodMissing}},
		"in a name of two":           {given: asking(`member.id == "m-s0" && pod.name == member.id`), answer: Blocked, want: []string{PodMissing}},
		"it has a pod after all":     {given: func(in *Input) { byFacts(in); in.Absent.Member.ID = "m-s2" }, answer: Blocked, want: []string{MemberUnknown, MemberUnknown}},
		"no member is named":         {given: func(in *Input) { in.Absent = nil }, answer: Blocked, want: []string{MemberUnknown}},
		"it has no id":               {given: func(in *Input) { byFacts(in); in.Absent.Member.ID = "" }, answer: Blocked, want: []string{MemberUnknown}},
		"the policy has a problem": {
			given: func(in *Input) {
				byFacts(in)
				in.Policies[0].Policy = in.Policies[0].Policy.With(Problem{"spec", "bad"})
			},
			answer: Blocked, want: []string{PolicyInvalid},
		},
		"rules ask the system alone":  {given: byFacts, answer: Allowed},
		"the system says no":          {given: func(in *Input) { byFacts(in); in.Absent.Member.ID = "m-s1" }, answer: Blocked, want: []string{"NotDrained"}},
		"the system does not know it": {given: func(in *Input) { byFacts(in); in.Absent.Member.ID = "m-x" }, answer: Blocked, want: []string{MemberUnknown}},
		"without evidence":            {given: func(in *Input) { byFacts(in); in.Evidence = nil }, answer: Blocked, want: []string{NoEvidence}},
		"its own permit does not matter": {
			given: func(in *Input) {
				byFacts(in)
				in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s0", "store", noon)}
			},
			answer: Allowed,
		},
		"any pod takes a router's place":      {given: ofRole("router"), answer: Allowed},
		"the policy has no members of a role": {given: ofRole("arbiter"), answer: Blocked, want: []string{MemberUnknown}},
		"the policy is not there":             {given: func(in *Input) { in.Policies = nil }, answer: Blocked, want: []string{MemberUnknown}},
		"the policy of another name is there": {given: func(in *Input) { in.Absent.Policy.Name = "other" }, answer: Blocked, want: []string{MemberUnknown}},
		"the policy is suspended":             {given: func(in *Input) { change(in, true) }, answer: Blocked, want: []string{PolicySuspended}},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Pod, in.Absent = nil, &Absent{Policy: in.Policies[0].Key, Member: v1alpha1.MemberRef{Role: "store", ID: "m-s0"}}
			in.Peers = in.Peers[2:] // s0 and s1 have no pods
			c.given(&in)
			got := JudgeReplace(in)
			if got.Answer != c.answer || !cmp.Equal(reasons(got), c.want) {
				t.Errorf("got %s %v, want %s %v", got.Answer, got.Blockers, c.answer, c.want)
			}
		})
	}
}

// Without a pod there is nothing to evict.
func TestNothingIsEvictedWithoutAPod(t *testing.T) {
	in := world(t)
	in.Pod = nil
	if got := Judge(in); got.Answer != Blocked || !cmp.Equal(reasons(got), []string{MemberUnknown}) {
		t.Errorf("got %s %v", got.Answer, got.Blockers)
	}
}

func BenchmarkJudge(b *testing.B) {
	in := world(b)
	for b.Loop() {
		if Judge(in).Answer != Allowed {
			b.Fatal("blocked")
		}
	}
}
