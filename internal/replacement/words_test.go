package replacement

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// What a person is advised to type is a whole command, whatever the member's id is, and names what keeps it.
func TestAdviceIsACommand(t *testing.T) {
	t.Parallel()
	unhealthy := func(changes ...func(*RepairInput)) Blocker {
		in := repaired(func(in *RepairInput) { in.Members[1].ID = "a;b" }, pending(1))
		for _, change := range changes {
			change(&in)
		}
		then(&in, 0)
		for _, u := range then(&in, time.Hour).Unhealthy {
			if len(u.Blockers) > 0 {
				return Blocker{Reason: Reason(u.Blockers[0].Reason), Remedy: u.Blockers[0].Remedy}
			}
		}
		return Blocker{}
	}
	first := func(in StepInput) Blocker { return Step(in).Blockers[0] }
	command := "usher replace 'a;b' -n shop --policy db --role replica"
	for name, test := range map[string]struct {
		blocker Blocker
		reason  Reason
		want    string
	}{
		"repair is disabled": {
			unhealthy(func(in *RepairInput) { in.Policy.Spec.Repair.Mode = v1alpha1.RepairDisabled }),
			RepairDisabled, command,
		},
		"repair waits for a maintenance": {
			first(lost(func(in *StepInput) {
				in.Repair, in.Policy, in.Member, in.Pod = true, "db", v1alpha1.MemberRef{Role: "replica", ID: "a;b", PodName: "db-0"}, nil
				in.Places = []Place{{Node: Node{Name: "n1", State: NodeAlive, Cordoned: true, Until: noon}, GoneTime: ago(time.Hour)}}
			})),
			MemberPaused, "delete the request, and replace it for good: " + command,
		},
		"its data may be given up": {
			Blocker{Reason: "NoCopies", Remedy: orAbandon("", v1alpha1.MemberRef{Role: "replica", ID: "a;b"}, "shop", "db")},
			"NoCopies", "where its data is lost for good and is given up: " + command + " --abandon-data",
		},
		"it runs": {first(lost(on(n1Alive))), PredecessorRuns, "kubectl cordon n1, and usher evict db-0 -n shop"},
		"an earlier pod is not Ready": {
			first(lost(func(in *StepInput) { in.Set.After = "db-a" })), EarlierPodNotReady, "usher replace db-a -n shop",
		},
		"… and the place for its replacement is taken": {
			first(joining(func(in *StepInput) { in.Pod, in.Set.After = nil, "db-a" })),
			EarlierPodNotReady, "usher replace db-a -n shop, with spec.repair.maxInFlight of its policy set to {members: 2}",
		},
		"its node is gone": {
			first(removing(func(in *StepInput) {
				in.Claims = nil
				in.Pod = &NamedPod{UID: "p2", Terminating: true, Node: Node{Name: "n1", State: NodeDeleted}}
			})),
			PredecessorLeaving, "kubectl get pod db-0 -n shop -o jsonpath='{.metadata.finalizers}'",
		},
		"its successor has no volume": {
			first(joining(func(in *StepInput) { in.Pod.Node, in.Claims[0].Volume = Node{}, "" })),
			SuccessorUnscheduled, "make room for it, or see what its claims wait for: kubectl describe pvc data-db-0 -n shop; " + lostAgain(""),
		},
		"its successor has no node": {
			first(joining(func(in *StepInput) { in.Pod.Node = Node{} })), SuccessorUnscheduled, "make room for it; " + lostAgain(""),
		},
		"its node does not report": {
			first(asking(byDeletion(n1Lost, false), func(in *StepInput) { in.Pod.Terminating = true })),
			PredecessorLeaving, "usher fence n1 --confirm",
		},
	} {
		if test.blocker.Reason != test.reason || !strings.HasSuffix(test.blocker.Remedy, test.want) {
			t.Errorf("%s: %+v, want %s and %q", name, test.blocker, test.reason, test.want)
		}
	}
}
