package drain

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// refusalRemedy says what would have the server accept an action on a namespace's object that it has refused.
func refusalRemedy(t *try, namespace string) string {
	switch t.answer.Code {
	case answers.Denied:
		return "satisfy what the admission webhook or policy asks for; the eviction is tried again"
	case answers.Forbidden:
		return fmt.Sprintf("ask for the right to %s in namespace %s", rightTo[t.action.Kind], namespace)
	case answers.NamespaceTerminating:
		return "wait for the namespace to go: kubectl get ns " + namespace + " -o yaml shows what holds it"
	case answers.SeveralBudgets:
		return "kubectl get pdb -n " + namespace
	case answers.Rejected:
		return "see the server's words"
	case answers.Accepted, answers.Gone, answers.Conflict, answers.RefusedByBudget, answers.RefusedForNow, answers.Unavailable:
	}
	return "wait; it is tried again"
}

// rightTo is what an action in a namespace needs the right to do.
var rightTo = map[Kind]string{
	Evict:    "create pods/eviction",
	Delete:   "delete pods",
	Scale:    "patch deployments",
	ScaleMin: "patch horizontalpodautoscalers",
	Ask:      "create evictionrequests",
}

// unnamed takes the pod's name, with which the server begins a refusal, off its words: those of other pods say the same then.
func unnamed(message string, p *snapshot.Pod) string {
	return strings.TrimPrefix(message, fmt.Sprintf("pods %q is forbidden: ", p.Name))
}
