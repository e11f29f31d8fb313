package lostnode

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// mostListed is how many unreachable nodes a policy's status lists.
const mostListed = 20

// PolicyStatus is what a policy's status says. Refused is what the apiserver answered where a fence could not be made, "" where it could.
func PolicyStatus(policy *Policy, report *Report, refused string, now time.Time) v1alpha1.LostNodePolicyStatus {
	object := policy.Object
	status := v1alpha1.LostNodePolicyStatus{
		ObservedGeneration: object.Generation,
		NodeCount:          report.NodeCount,
		UnreachableCount:   int32(min(len(report.Unreachable), 1<<31-1)),
		Unreachable:        report.Unreachable[:min(len(report.Unreachable), mostListed)],
	}
	for _, c := range object.Status.Conditions {
		status.Conditions = append(status.Conditions, *c.DeepCopy())
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	say := func(reason, message string, ready, reconciling, stalled metav1.ConditionStatus) v1alpha1.LostNodePolicyStatus {
		SetConditions(&status.Conditions, object.Generation, now, reason, message, ready, reconciling, stalled)
		return status
	}
	switch {
	case policy.Problem != "":
		return say("Invalid", policy.Problem, no, no, yes)
	case object.Spec.Suspend:
		return say("Suspended", "spec.suspend is set: no fence is begun, and none goes on; unset it to go on", no, no, no)
	case refused != "":
		return say("Refused", refused, no, no, yes)
	case len(report.Stuck) > 0:
		return say("Stuck", first(report.Stuck), no, no, yes)
	case len(report.Unreachable) > 0:
		at := report.Unreachable[0]
		return say("NodesUnreachable", fmt.Sprintf("%d of %d nodes unreachable; node %s: %s", len(report.Unreachable), report.NodeCount, at.Node, at.Message), yes, yes, no)
	case report.NodeCount == 0:
		return say("NoNodes", "spec.nodeSelector selects no node", yes, no, no)
	}
	return say("Watching", fmt.Sprintf("%d nodes selected, all reachable", report.NodeCount), yes, no, no)
}

// first is the first of some sentences, and how many more there are.
func first(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more)", strings.TrimSpace(all[0]), len(all)-1)
}
