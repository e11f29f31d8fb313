package policy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/rest"
)

var present = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newFacts is a policy over the pods app=db of a system that is well.
func newFacts(t *testing.T, pods int, change ...func(*v1alpha1.EvictionPolicy)) *facts {
	t.Helper()
	policy := newPolicy("db", change...)
	own := declare(policy)
	f := &facts{
		now: present, policy: policy, problems: own.Policy.Problems(), all: []eviction.Declared{own}, own: own, guarded: true,
		evidence: &eviction.Evidence{Observed: present.Add(-20 * time.Second), System: expression.Facts{"safe": true}, Summary: "well"},
	}
	f.evidence.Members = map[string]expression.Facts{}
	for i := range pods {
		name := "db-" + string(rune('0'+i))
		f.evidence.Members[name] = expression.Facts{}
		f.pods = append(f.pods, &snapshot.Pod{
			Namespace: "prod", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "db", v1alpha1.PolicyLabel: "db"}, Phase: corev1.PodRunning,
		})
	}
	return f
}

func newPolicy(name string, change ...func(*v1alpha1.EvictionPolicy)) *v1alpha1.EvictionPolicy {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), Generation: 3},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{HTTP: &v1alpha1.HTTP{
				Access: v1alpha1.Access{Endpoints: []string{"http://db"}}, Facts: []v1alpha1.Get{{Name: "safe", URL: "/safe"}},
			}},
			Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Roles: []v1alpha1.Role{{
				Name: "node", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{
					{Name: "safe", Reason: "Unsafe", Expression: "system.safe == true", Message: "not safe"},
				}},
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
			}},
		},
	}
	for _, f := range change {
		f(policy)
	}
	return policy
}

func declare(policy *v1alpha1.EvictionPolicy) eviction.Declared {
	compiled, _ := eviction.Compile(&policy.Spec, nil, rest.Kind().Declaration(&policy.Spec.System))
	key := snapshot.Key{Namespace: policy.Namespace, Name: policy.Name}
	return eviction.Declared{Key: key, Version: "1", Policy: compiled, Status: &policy.Status}
}

func manyShards() []any {
	shards := make([]any, 5000)
	for i := range shards {
		shards[i] = strconv.Itoa(i)
	}
	return shards
}

func TestConditions(t *testing.T) {
	tests := []struct {
		name    string
		pods    int
		policy  func(*v1alpha1.EvictionPolicy)
		change  func(*facts)
		reason  string
		says    string
		more    string // the condition beside Ready
		isReady bool
	}{
		{name: "at work", pods: 3, reason: ReasonGoverning, says: "3 members, and the system answers", isReady: true},
		{name: "one member", pods: 1, reason: ReasonGoverning, says: "1 member, and", isReady: true},
		{name: "no member", reason: ReasonNoMembers, says: "no pod of the namespace matches", isReady: true},
		{
			name: "not answered yet", pods: 3, change: func(f *facts) { f.evidence = nil },
			reason: ReasonAsking, says: "asked for the first time", more: v1alpha1.ConditionReconciling,
		},
		{
			name: "answers too much", pods: 3, change: func(f *facts) { f.evidence = &eviction.Evidence{Error: "too large: 80 MiB", TooLarge: true} },
			reason: ReasonEvidenceTooLarge, says: "80 MiB", more: v1alpha1.ConditionStalled,
		},
		{
			name: "down", pods: 3, change: func(f *facts) { f.evidence = &eviction.Evidence{Error: "http://db: 401 Unauthorized"} },
			reason: ReasonSystemUnreachable, says: "http://db: 401 Unauthorized", more: v1alpha1.ConditionReconciling,
		},
		{
			name: "a member is not labelled", pods: 3, change: func(f *facts) { delete(f.pods[1].Labels, v1alpha1.PolicyLabel) },
			reason: ReasonLabelling, says: "1 member without a label", more: v1alpha1.ConditionReconciling,
		},
		{
			name: "the namespace is not labelled", change: func(f *facts) { f.guarded = false },
			reason: ReasonLabelling, says: "the namespace is labelled: false", more: v1alpha1.ConditionReconciling,
		},
		{
			name: "suspended", pods: 3, policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true },
			reason: ReasonSuspended, says: "spec.suspend is set",
		},
		{
			name: "invalid", pods: 3, policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Roles[0].Evict.Rules[0].Expression = "system." },
			reason: ReasonInvalid, says: "spec.roles[0].evict.rules[0].expression: ", more: v1alpha1.ConditionStalled,
		},
		{
			name: "invalid and suspended", policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend, p.Spec.Members[0].Role = true, "none" },
			reason: ReasonInvalid, says: "spec.members[0].role", more: v1alpha1.ConditionStalled,
		},
		{
			name: "claimed twice", pods: 2, change: func(f *facts) { f.all = append(f.all, declare(newPolicy("other"))) },
			reason: ReasonClaimedTwice, says: "2 pods claimed more than once, by db (spec.members[0]) and other (spec.members[0])", more: v1alpha1.ConditionStalled,
		},
		{
			name: "no id", pods: 1, policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Members[0].ID = "pod.labels['nowhere']" },
			reason: ReasonMemberUnknown, says: "the id of 1 pod cannot be determined from spec.members[].id: db-0: ", more: v1alpha1.ConditionStalled,
		},
		{
			name: "a rule that takes too long", pods: 1, policy: func(p *v1alpha1.EvictionPolicy) {
				p.Spec.Roles[0].Evict.Rules[0].Expression = "system.safe.all(a, system.safe.exists(b, a == b))"
			},
			change: func(f *facts) { f.evidence.System["safe"] = manyShards() },
			reason: ReasonRuleFailed, says: "db-0: rule safe has no answer: it takes too long", more: v1alpha1.ConditionStalled,
		},
		{
			name: "a fact is missing of all members", pods: 2, change: func(f *facts) { delete(f.evidence.System, "safe") },
			reason: ReasonFactMissing, says: `by a wrong name: rule safe asks for "system.safe", which the system did not say; it waits until it does`, more: v1alpha1.ConditionReconciling,
		},
		{
			name: "a fact is missing of one member", pods: 2, policy: func(p *v1alpha1.EvictionPolicy) {
				p.Spec.System.HTTP.MemberFacts = []v1alpha1.Get{{Name: "empty", URL: "/empty"}}
				p.Spec.Roles[0].Evict.Rules[0].Expression = "member.empty == true"
			},
			change: func(f *facts) { f.evidence.Members["db-0"]["empty"] = false },
			reason: ReasonGoverning, isReady: true,
		},
		{
			name: "deleted", pods: 3, policy: func(p *v1alpha1.EvictionPolicy) {
				p.DeletionTimestamp = &metav1.Time{Time: present}
				p.Status.Preparations = []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{ID: "db-1"}, Name: "Exclude"}}
			},
			reason: ReasonUndoing, says: "Exclude of db-1", more: v1alpha1.ConditionReconciling,
		},
		{
			name: "deleted while a member settles", pods: 1, policy: func(p *v1alpha1.EvictionPolicy) {
				p.DeletionTimestamp = &metav1.Time{Time: present}
				p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", PodName: "db-7", PodUID: "gone"}, GoneTime: &metav1.Time{Time: present}}}
			},
			reason: ReasonSettling, says: "db-7 until " + present.Add(31*time.Second).UTC().Format(time.RFC3339), more: v1alpha1.ConditionReconciling,
		},
		{
			name: "deleted while a member terminates", pods: 1, policy: func(p *v1alpha1.EvictionPolicy) {
				p.DeletionTimestamp = &metav1.Time{Time: present}
				p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", PodName: "db-7", PodUID: "gone"}}}
			},
			reason: ReasonSettling, says: "db-7 until 30s after it was seen gone, which is waited for until " + present.Add(undoPatience).UTC().Format(time.RFC3339),
			more: v1alpha1.ConditionReconciling,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFacts(t, test.pods, func(p *v1alpha1.EvictionPolicy) {
				p.Status.Conditions = []metav1.Condition{{Type: "Mine", Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
				if test.policy != nil {
					test.policy(p)
				}
			})
			if test.change != nil {
				test.change(f)
			}
			status := f.seen()
			got := map[string]metav1.Condition{}
			for _, c := range status.Conditions {
				got[c.Type] = c
			}
			ready := got[v1alpha1.ConditionReady]
			if ready.Reason != test.reason || !strings.Contains(ready.Message, test.says) || ready.ObservedGeneration != 3 {
				t.Errorf("Ready is %+v, want %s with %q", ready, test.reason, test.says)
			}
			if (ready.Status == metav1.ConditionTrue) != test.isReady {
				t.Errorf("Ready is %s", ready.Status)
			}
			for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
				if _, there := got[kind]; there != (kind == test.more) {
					t.Errorf("condition %s is there: %t", kind, there)
				}
			}
			if _, there := got["Mine"]; !there {
				t.Error("a condition of another client was removed")
			}
			if status.ObservedGeneration != 3 || int(status.MemberCount) != test.pods {
				t.Errorf("generation %d, %d members", status.ObservedGeneration, status.MemberCount)
			}
		})
	}
}

func TestRolesCountWhoMayLeave(t *testing.T) {
	f := newFacts(t, 3)
	want := []v1alpha1.RoleStatus{{Role: "node", MemberCount: 3, EvictableCount: 3}}
	if diff := cmp.Diff(want, f.seen().Roles); diff != "" {
		t.Errorf("evidence of 20 s ago counts for a status: %s", diff)
	}
	f.evidence.System["safe"] = false
	want[0].EvictableCount = 0
	if diff := cmp.Diff(want, f.seen().Roles); diff != "" {
		t.Error(diff)
	}
}

func TestStatusNamesBlockedMembers(t *testing.T) {
	f := newFacts(t, 3)
	if got := f.seen().Blocked; len(got) > 0 {
		t.Errorf("blocked although all may leave: %+v", got)
	}
	f.evidence.System["safe"] = false
	slices.Reverse(f.pods)
	got := f.seen().Blocked
	want := v1alpha1.BlockedMember{
		MemberRef: v1alpha1.MemberRef{Role: "node", ID: f.pods[2].Name, PodName: f.pods[2].Name, PodUID: f.pods[2].UID, Node: f.pods[2].Node},
		Rule:      "safe", Reason: "Unsafe", Message: got[0].Message,
	}
	if diff := cmp.Diff(want, got[0]); diff != "" || len(got) != 3 || got[0].Message == "" {
		t.Errorf("%d blocked: %s", len(got), diff)
	}
	many := newFacts(t, 50)
	many.evidence.System["safe"] = false
	if got := many.seen().Blocked; len(got) != 20 || !slices.IsSortedFunc(got, func(a, b v1alpha1.BlockedMember) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("%d are named, or not the first by id", len(got))
	}
}

// Those that are on their way are in the status as well, and an entry whose role is not there blocks its members.
func TestBlockedMembersAreThoseThatStay(t *testing.T) {
	f := newFacts(t, 4)
	f.evidence.System["safe"] = false
	f.pods[0].Deletion = present
	f.policy.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", PodUID: f.pods[1].UID}}}
	if got := f.seen().Blocked; len(got) != 2 || got[0].PodUID != f.pods[2].UID {
		t.Errorf("blocked: %+v", got)
	}
}

// Between a member's leave and the next evidence every member waits for that, which is no news of any.
func TestALeaveDoesNotRenewWhoIsBlocked(t *testing.T) {
	f := newFacts(t, 3)
	f.evidence.System["safe"] = false
	before := f.seen()
	f.policy.Status = before
	f.policy.Status.Epoch++
	after := f.seen()
	if diff := cmp.Diff(before.Blocked, after.Blocked); diff != "" {
		t.Error(diff)
	}
}

func TestAMessageAloneIsNotWritten(t *testing.T) {
	status := func(rule, reason, message string) *v1alpha1.EvictionPolicyStatus {
		return &v1alpha1.EvictionPolicyStatus{Blocked: []v1alpha1.BlockedMember{{Rule: rule, Reason: reason, Message: message}}}
	}
	if !same(status("Move", "Moving", "3 to go"), status("Move", "Moving", "2 to go")) {
		t.Error("each change of a number is written")
	}
	if same(status("Move", "Moving", "x"), status("Move", "Unsafe", "x")) {
		t.Error("another reason is not written")
	}
	if !same(status("", "AnotherIsLeaving", "db-0 is leaving"), status("", "AnotherIsLeaving", "db-1 is leaving")) {
		t.Error("each change of another member's name is written")
	}
}

func TestAStatusIsWrittenOnlyWhenItSaysSomethingNew(t *testing.T) {
	f := newFacts(t, 3)
	first, members := f.seen(), f.evidence.Members
	if same(&f.policy.Status, &first) {
		t.Error("the first status is no news")
	}
	later := func(after time.Duration, change func()) bool {
		f.policy.Status = first
		f.now = present.Add(after)
		f.evidence = &eviction.Evidence{Observed: first.System.LastObservedTime.Add(after), System: expression.Facts{"safe": true}, Members: members, Summary: "well"}
		change()
		seen := f.seen()
		return !same(&f.policy.Status, &seen)
	}
	for _, test := range []struct {
		name   string
		after  time.Duration
		change func()
		want   bool
	}{
		{"30 s later", 30 * time.Second, func() {}, false},
		{"a minute later", time.Minute, func() {}, true},
		{"another summary", time.Second, func() { f.evidence.Summary = "ill" }, true},
		{"an error", time.Second, func() { f.evidence = &eviction.Evidence{Error: "down"} }, true},
		{"a member is blocked", time.Second, func() { f.evidence.System["safe"] = false }, true},
		{"one member fewer", time.Second, func() { f.pods = f.pods[1:] }, true},
	} {
		if got := later(test.after, test.change); got != test.want {
			t.Errorf("%s: written %t, want %t", test.name, got, test.want)
		}
	}
}

func TestTheDeletionOfAPolicyDoesNotWaitForEver(t *testing.T) {
	deleted := &metav1.Time{Time: present}
	for _, test := range []struct {
		name    string
		deleted *metav1.Time
		suspend bool
		ending  bool
		after   time.Duration
		want    bool
	}{
		{name: "not deleted", after: time.Hour},
		{name: "deleted", deleted: deleted, after: 10 * time.Minute},
		{name: "too long", deleted: deleted, after: 10*time.Minute + time.Second, want: true},
		{name: "suspended", deleted: deleted, suspend: true, want: true},
		{name: "its namespace goes", deleted: deleted, ending: true, want: true},
		{name: "its namespace is about to go", ending: true},
	} {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) { p.DeletionTimestamp, p.Spec.Suspend = test.deleted, test.suspend })
		f := &facts{now: present.Add(test.after), ending: test.ending}
		if got := f.givenUp(policy); got != test.want {
			t.Errorf("%s: given up %t, want %t", test.name, got, test.want)
		}
	}
}

func TestEnumerate(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g"}
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 7: "a, b, c, d, e, and 2 more"} {
		if got := enumerate(many[:n], ", "); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Whatever a rule or an id may ask for wakes the controllers; what only a kubelet or a scheduler cares for does not.
func TestWhatWakes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		wakes  bool
	}{
		"nothing":       {change: func(*corev1.Pod) {}},
		"a resync":      {change: func(p *corev1.Pod) { p.ResourceVersion = "2" }},
		"broken glass":  {change: func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"} }, wakes: true},
		"an annotation": {change: func(p *corev1.Pod) { p.Annotations = map[string]string{"id": "7"} }, wakes: true},
		"a label":       {change: func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} }, wakes: true},
		"its address":   {change: func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, wakes: true},
		"its node":      {change: func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, wakes: true},
		"ended":         {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, wakes: true},
		"a word of a probe": {change: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "no"}}
		}},
		"ready": {change: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, wakes: true},
	} {
		before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "db-0", UID: "u"}}
		after := before.DeepCopy()
		test.change(after)
		if got := wiring.PodChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.wakes {
			t.Errorf("%s: wakes %t, want %t", name, got, test.wakes)
		}
	}
}
