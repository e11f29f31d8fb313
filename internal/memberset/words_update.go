package memberset

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

func changedBeforeFormed(id, why string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: SystemNotFormed, Never: true, Message: fmt.Sprintf("member %s is not as its group says (%s), and is not replaced before the system is formed", id, why),
		Remedy: fmt.Sprintf("set the group back as it was; or, where nothing is to be kept, delete MemberSet %s and its claims, and write it anew (namespace %s)", set.Name, set.Namespace),
	}
}

func suspended() Blocker {
	return Blocker{Reason: Suspended, Message: "spec.suspend is set, and nothing is done", Remedy: "set spec.suspend to false"}
}

func awaitsReplacements(id, why string, most int) Blocker {
	return Blocker{
		Reason: UpdateWaits, Message: fmt.Sprintf("member %s is to be replaced (%s) once fewer than %d are being replaced", id, why, most),
		Remedy: "wait, or raise spec.updateStrategy.replace.maxInFlight",
	}
}

// awaitsEviction is about a pod whose eviction is asked for. One that cannot start may keep the rules of its role from passing ever: with a majority of voters there is
// no quorum that they could ask for.
func awaitsEviction(id string, p *Pod, namespace string) Blocker {
	b := Blocker{
		Reason: UpdateWaits, Message: fmt.Sprintf("pod %s is of another template: its eviction is asked for, after which it is made anew", id),
		Remedy: fmt.Sprintf("wait; usher why %s -n %s says what keeps it", id, namespace),
	}
	if !p.Ready && p.Waiting != "" {
		b.Message += "; it does not start: " + p.Waiting
		b.Remedy += fmt.Sprintf("; where that cannot pass while it does not start, let it go: kubectl annotate pod %s -n %s %s=%q", id, namespace, v1alpha1.BreakGlassAnnotation, "its template could not start")
	}
	return b
}

func awaitsUncordoned(id, node, namespace string) Blocker {
	return Blocker{
		Reason: UpdateWaits, Message: fmt.Sprintf("pod %s is of another template, and could be made anew on node %s alone, which is cordoned; others do not wait for it", id, node),
		Remedy: fmt.Sprintf("kubectl uncordon %s; or have the member replaced: usher replace %s -n %s", node, id, namespace),
	}
}

// awaitsBatch is about a pod whose turn it is not. The members are those that are unavailable.
func awaitsBatch(id string, unavailable []*v1alpha1.SetMember) Blocker {
	b := Blocker{Reason: UpdateWaits, Message: fmt.Sprintf("pod %s is of another template, and is made anew after others", id), Remedy: "wait"}
	if len(unavailable) > 0 {
		var ids []string
		for _, m := range unavailable[:min(len(unavailable), 3)] {
			ids = append(ids, m.ID)
		}
		b.Message = fmt.Sprintf("pod %s is of another template, and is made anew once these are Ready and do their work: %s", id, strings.Join(ids, ", "))
		b.Remedy = "wait; see the logs of these pods"
	}
	return b
}

// awaitsDebugged is about a pod that goes after another that does not become Ready, since an annotation keeps it from starting.
func awaitsDebugged(id, other string, commands []string) Blocker {
	return Blocker{
		Reason:  UpdateWaits,
		Message: fmt.Sprintf("pod %s is to be made anew once pod %s is Ready, which an annotation keeps from starting", id, other),
		Remedy:  fmt.Sprintf("to have more made anew meanwhile, as far as the rules of their roles let them, raise spec.updateStrategy.recreate.maxUnavailableZones; to have it start: %s", strings.Join(commands, "; ")),
	}
}

// awaitsFormed is about a Ready pod of a system that may be formed, which is not known yet.
func awaitsFormed(id string) Blocker {
	return Blocker{
		Reason: UpdateWaits, Message: fmt.Sprintf("pod %s is of another template, and is made anew once its system is formed: as it is Ready, that may have begun", id),
		Remedy: "wait; what forming waits for is said beside",
	}
}

func batchNone(id string) Blocker {
	return Blocker{
		Reason: UpdateDisabled, Message: fmt.Sprintf("pod %s is of another template, and no pod is made anew: spec.updateStrategy.recreate.batch is None", id),
		Remedy: "set another batch, or evict the pod",
	}
}

func removalsOff(id string) Blocker {
	return Blocker{
		Reason: RemovalDisabled, Message: fmt.Sprintf("member %s may be removed, and none is: spec.removal.batch is None", id), Remedy: "set another batch",
	}
}

func awaitsRemoval(id, other string) Blocker {
	return Blocker{Reason: RemovalWaits, Message: fmt.Sprintf("member %s is removed once member %s is gone", id, cmp.Or(other, "another")), Remedy: "wait"}
}

func removalsApart(id string, at time.Time) Blocker {
	return Blocker{
		Reason: RemovalWaits, Message: fmt.Sprintf("member %s is removed at %s: spec.removal.minInterval keeps removals apart", id, at.UTC().Format(time.RFC3339)), Remedy: "wait",
	}
}

func departureNotKnown(id, why string) Blocker {
	return Blocker{
		Reason: DepartureNotKnown, Message: fmt.Sprintf("whether pod %s could be made anew on another node is not known, and it stays: %s", id, cmp.Or(why, "its volumes were not read")),
		Remedy: "usher install --member-sets gives the manager the right to read PersistentVolumes; or set spec.onEviction to Recreate or Replace",
	}
}

func policyAwaited(set string) Blocker {
	return Blocker{
		Reason: UpdateWaits, Message: fmt.Sprintf("pods are of another template, and are evicted once EvictionPolicy %s guards them", set), Remedy: "wait",
	}
}

func notConfigured(kind, name, namespace, system string) Blocker {
	return Blocker{
		Reason: NotConfigured, Never: true,
		Message: fmt.Sprintf("annotation %s of %s %s changes nothing: no configuration says which processes members of %s start", v1alpha1.EmptyConfigurationAnnotation, kind, name, system),
		Remedy: fmt.Sprintf("take it off: kubectl annotate %s %s -n %s %s-; %sCONTAINER has a container not run", kind, name, namespace,
			v1alpha1.EmptyConfigurationAnnotation, v1alpha1.CrashLoopPrefix),
	}
}
