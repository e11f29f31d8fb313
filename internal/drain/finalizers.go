package drain

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/snapshot"
)

// finalizersOf names a pod's finalizers and who is to remove each, as far as its name says so: a finalizer is
// "<domain of its controller>/<name>" by convention, and nothing else in the API shows it.
func finalizersOf(p *snapshot.Pod) string {
	said := make([]string, 0, len(p.Finalizers))
	for _, f := range p.Finalizers {
		said = append(said, fmt.Sprintf("finalizer %s, which %s removes", f, holderOf(f)))
	}
	return listed(said)
}

func holderOf(finalizer string) string {
	domain, _, qualified := strings.Cut(finalizer, "/")
	switch {
	case finalizer == "batch.kubernetes.io/job-tracking":
		return "the Job controller of kube-controller-manager"
	case finalizer == "foregroundDeletion", finalizer == "orphan":
		return "the garbage collector of kube-controller-manager"
	case qualified:
		return "a controller of " + domain
	}
	return "the controller that set it"
}

// pastFinalizers says what to do about a finalizer that stays.
func pastFinalizers(p *snapshot.Pod) string {
	return fmt.Sprintf(`see why that controller does not remove it; if it does not exist any more: `+
		`kubectl patch pod -n %s %s --type=merge -p '{"metadata":{"finalizers":null}}'`, p.Namespace, p.Name)
}
