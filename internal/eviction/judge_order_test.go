package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// after lets the members of a toy policy's entry leave after those of roles.
func after(entry int, roles ...string) func(*v1alpha1.EvictionPolicySpec) {
	return func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[entry].LeavesAfter = roles }
}

// ordered judges a pod of a policy in which routers leave after stores, beside others of its namespace.
func ordered(t *testing.T, pod *snapshot.Pod, status *v1alpha1.EvictionPolicyStatus, others ...*snapshot.Pod) Verdict {
	t.Helper()
	in := world(t)
	spec := toySpec()
	after(1, "store")(spec)
	in.Policies[0].Policy, in.Pod = compiled(t, spec), pod
	if status != nil {
		in.Policies[0].Status = status
	}
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], append(others, pod))}
	return Judge(in)
}

func TestRolesLeaveAfterOthers(t *testing.T) {
	router := toyPod("r0", "router")
	router.Labels[v1alpha1.PolicyLabel] = "db"
	at := func(name, role, node string, change ...func(*snapshot.Pod)) *snapshot.Pod {
		pod := toyPod(name, role)
		pod.Node = node
		for _, f := range change {
			f(pod)
		}
		return pod
	}
	foreign := at("s9", "store", "node-a")
	foreign.Namespace = "elsewhere"
	gone := leaves("s0", "store", noon)
	gone.GoneTime = &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		others []*snapshot.Pod
		status *v1alpha1.EvictionPolicyStatus
		want   []string
	}{
		"nothing else is there":                  {},
		"an earlier one is on its node":          {others: []*snapshot.Pod{at("s0", "store", "node-a")}, want: []string{EarlierRole}},
		"one on its way is there still":          {others: []*snapshot.Pod{terminating(at("s0", "store", "node-a"))}, want: []string{EarlierRole}},
		"one of which no id is known":            {others: []*snapshot.Pod{at("s0", "store", "node-a", func(p *snapshot.Pod) { p.Name = strings.Repeat("s", 2000) })}, want: []string{EarlierRole}},
		"on another node":                        {others: []*snapshot.Pod{at("s0", "store", "node-b")}},
		"ended":                                  {others: []*snapshot.Pod{at("s0", "store", "node-a", func(p *snapshot.Pod) { p.Phase = corev1.PodSucceeded })}},
		"of a role that it does not leave after": {others: []*snapshot.Pod{at("x0", "single", "node-a"), at("r1", "router", "node-a")}},
		"another tenant's":                       {others: []*snapshot.Pod{foreign}},
		"one that was seen gone":                 {others: []*snapshot.Pod{at("s0", "store", "node-a")}, status: &v1alpha1.EvictionPolicyStatus{Leaving: []v1alpha1.Leaving{gone}}},
		"one that may go":                        {others: []*snapshot.Pod{at("s0", "store", "node-a")}, status: &v1alpha1.EvictionPolicyStatus{Leaving: []v1alpha1.Leaving{leaves("s0", "store", noon)}}, want: []string{EarlierRole}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, reasons(ordered(t, router, c.status, c.others...))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := reasons(ordered(t, at("s1", "store", "node-a"), nil, router)); len(got) > 0 && got[0] == EarlierRole {
		t.Errorf("the earlier role waits for the later one: %v", got)
	}
}

func TestRolesThatAreWaitedForAreNamed(t *testing.T) {
	router, pinned := toyPod("r0", "router"), toyPod("s0", "store")
	pinned.Owner = daemonSet
	got := ordered(t, router, nil, toyPod("s0", "store"), toyPod("s1", "store"), toyPod("s2", "store"), toyPod("s3", "store")).Blockers[0]
	want := Blocker{
		Reason: EarlierRole, Retry: 5 * time.Second,
		Message: "members that leave before it (leavesAfter) are on its node: s0 (m-s0) of role store, s1 (m-s1) of role store, s2 (m-s2) of role store and 1 more; it waits until they have left",
		Remedy:  "wait; usher why pod/s0 -n shop shows what holds that one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ordered(t, router, nil, pinned).Blockers[0].Remedy; !strings.HasPrefix(got, "take role store out of leavesAfter") {
		t.Errorf("waiting is no remedy for a pod that cannot be evicted: %q", got)
	}
}

// What leaves first may need what is prepared.
func TestNothingIsPreparedBeforeItsTurn(t *testing.T) {
	in := world(t)
	spec := toySpec()
	after(0, "router")(spec)
	in.Policies[0].Policy, in.Pod = compiled(t, spec), toyPod("s1", "store")
	if got := Judge(in); stepNames(got) != nil || got.Blockers[len(got.Blockers)-1].Reason != EarlierRole {
		t.Errorf("before the members are known: %v, %v", stepNames(got), reasons(got))
	}
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], in.Peers)}
	if got := Judge(in); stepNames(got) != nil {
		t.Errorf("prepared before r0 has left: %v", stepNames(got))
	}
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], in.Peers[:3])}
	if got := Judge(in); len(stepNames(got)) == 0 {
		t.Error("not prepared after r0 has left")
	}
}

// A pod of a role that asks nothing is labelled where it waits for others, or else no DELETE of it would be judged.
func TestWhatWaitsForRolesIsGuarded(t *testing.T) {
	spec := toySpec()
	declared := func() []Declared {
		return []Declared{{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Policy: compiled(t, spec)}}
	}
	if got := GuardedBy(declared(), toyPod("r0", "router")); got != "" {
		t.Errorf("guarded by %q", got)
	}
	after(1, "store")(spec)
	if got := GuardedBy(declared(), toyPod("r0", "router")); got != "db" {
		t.Errorf("guarded by %q", got)
	}
	in := world(t)
	in.Policies[0].Policy, in.Pod = declared()[0].Policy, toyPod("r0", "router")
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], nil)}
	got := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "jane"})
	if !got.Allow || !got.ByReadiness || len(got.Actions) != 1 || got.Actions[0].Kind != Permit {
		t.Errorf("it is let go without a look past the cache and a permit: %+v", got)
	}
}
