package eviction

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// onHosts is a policy whose members have the ids of their hosts: there is a store and a keeper on each.
func onHosts(t *testing.T) *Policy {
	t.Helper()
	spec := toySpec()
	store, keeper := toyRoles()[0], toyRoles()[0]
	store.Evict.Settle, keeper.Name = &metav1.Duration{Duration: time.Minute}, "keeper"
	spec.Roles = []v1alpha1.Role{store, keeper}
	spec.Members = append(spec.Members, v1alpha1.MemberSelector{
		Role: "keeper", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": "keeper"}}, Deletes: v1alpha1.DeleteGuard,
	})
	for i := range spec.Members {
		spec.Members[i].ID = `"m-" + pod.node`
	}
	declared := toyDeclared
	declared.Hosts = true
	policy, problems := Compile(spec, toyRoles(), declared)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

func hostPod(name, role string) *snapshot.Pod {
	pod := toyPod(name, role)
	pod.Node = "s0"
	return pod
}

// What is done for the member of one role on a host is not done for that of another role.
func TestMembersOfAHostAreApart(t *testing.T) {
	store := begun("Drain", "s0", v1alpha1.PreparationUndoing, noon.Add(-time.Minute))
	for name, c := range map[string]struct {
		role    string
		entry   func(*v1alpha1.PreparationStatus)
		reasons []string
	}{
		"its own step is taken back":              {role: "store", reasons: []string{PreparationPending}},
		"another role's step is taken back":       {role: "keeper"},
		"that of a role that is not there now is": {role: "keeper", entry: func(p *v1alpha1.PreparationStatus) { p.Role = "gone" }, reasons: []string{PreparationPending}},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Policies[0].Policy = onHosts(t)
			in.Pod, in.Peers = hostPod("s0", c.role), nil
			entry := store
			if c.entry != nil {
				c.entry(&entry)
			}
			in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{entry}
			if diff := cmp.Diff(c.reasons, reasons(Judge(in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A step of a store is begun although a keeper of the same host has one of the same name.
func TestStepsOfSeveralRolesOnAHost(t *testing.T) {
	in := ResponderInput{Input: world(t), Wanted: true, Active: true}
	in.Policies[0].Policy = onHosts(t)
	in.Pod, in.Peers = hostPod("s0", "store"), nil
	in.Evidence.Members["m-s0"]["drained"] = false
	keeper := begun("Drain", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Second))
	keeper.Role, keeper.PodUID = "keeper", "uid-k0"
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{keeper}
	step := Step(in)
	at := slices.IndexFunc(step.Actions, func(a Action) bool { return a.Kind == Begin })
	if at < 0 || len(step.Actions[at].Status.Preparations) != 2 || step.Actions[at].Status.Preparations[0] != keeper {
		t.Errorf("%v", kinds(step.Actions))
	}
}

// A keeper that is Ready on the host is not the store that has left it.
func TestAnotherRoleIsNotTheOneThatLeft(t *testing.T) {
	for role, out := range map[string]bool{"store": true, "keeper": false} {
		in := untidy(t)
		in.Policy.Policy = onHosts(t)
		entry := leaves("s0", "store", noon.Add(-time.Minute))
		entry.GoneTime = new(metav1.NewTime(noon.Add(-time.Second)))
		back := hostPod("again", role)
		in.Policy.Status.Leaving, in.Pods = []v1alpha1.Leaving{entry}, []*snapshot.Pod{back}
		in.Presences = map[types.UID]PodPresence{back.UID: SeenReady}
		got := ReconcileStatus(in)
		if crossed := len(got.Actions) == 1 && len(got.Actions[0].Status.Leaving) == 0; crossed != out {
			t.Errorf("a Ready %s: crossed out %t", role, crossed)
		}
	}
}

// What was prepared for a store that is gone is not taken back for a keeper.
func TestNoStepIsUndoneForAnotherRole(t *testing.T) {
	for role, want := range map[string]types.UID{"store": "uid-again", "keeper": ""} {
		in := untidy(t)
		in.Policy.Policy = onHosts(t)
		in.Policy.Status.Leaving = nil
		entry := begun("Drain", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Minute))
		in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{entry}
		back := hostPod("again", role)
		in.Pods = []*snapshot.Pod{back}
		in.Presences = map[types.UID]PodPresence{"uid-s0": SeenGone, back.UID: SeenReady}
		var asked types.UID
		for _, a := range ReconcileStatus(in).Actions {
			if a.Kind == Undo {
				asked = a.Step.Member.PodUID
			}
		}
		if asked != want {
			t.Errorf("with a %s there the step is undone for %q, want %q", role, asked, want)
		}
	}
}

// A member without a pod is absent although a pod of another role has its id.
func TestAbsentOnAHost(t *testing.T) {
	for role, there := range map[string]bool{"store": true, "keeper": false} {
		in := world(t)
		in.Policies[0].Policy = onHosts(t)
		in.Pod, in.Peers = nil, []*snapshot.Pod{hostPod("k0", role)}
		in.Absent = &Absent{Policy: in.Policies[0].Key, Member: v1alpha1.MemberRef{Role: "store", ID: "m-s0"}}
		if got := slices.Contains(reasons(JudgeReplace(in)), MemberUnknown); got != there {
			t.Errorf("beside a %s it is there: %t", role, got)
		}
	}
}
