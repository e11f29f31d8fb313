package kubernetes

import (
	"fmt"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// prospect says whether a replacement can be started before a pod leaves.
type prospect struct {
	surge   string // possible, underWay, waits or impossible
	message string
	remedy  string
}

func cannot(message, remedy string) prospect { return prospect{impossible, message, remedy} }

// waitFor is the remedy of what passes by itself.
const waitFor = "wait"

// prospect is about a pod of the workload.
func (w *workload) prospect(p *snapshot.Pod) prospect {
	r := w.top.Surge
	switch {
	case w.givenUp():
		return cannot(fmt.Sprintf("%s was scaled up and back, because no replacement got ready within %s", w.title(), surgePatience),
			fmt.Sprintf("see why new pods of it do not get ready: kubectl get events -n %s", w.top.Namespace))
	case ours(r) && w.top.Replicas == r.To && w.overdue() && !w.needsSurge(p):
		return cannot(w.progress(p), w.describe())
	case ours(r) && w.top.Replicas == r.To:
		return prospect{underWay, w.progress(p), waitFor}
	}
	if unfit := w.unfit(p); unfit.surge != "" {
		return unfit
	}
	if _, helps := w.extra(p); !helps {
		return cannot("no number of replicas makes "+strings.Join(w.budgetsNever(p), ", ")+" allow a disruption",
			"set maxUnavailable: 1, or a minAvailable below the number of replicas, in that budget")
	}
	return w.busy()
}

// unfit says why a surge of this workload would not do, its surge "" where it would.
func (w *workload) unfit(p *snapshot.Pod) prospect {
	show := fmt.Sprintf("kubectl get -n %s %s/%s -o yaml", w.top.Namespace, strings.ToLower(w.top.Kind), w.top.Name)
	wanted := w.wanted()
	switch {
	case w.top.SurgeError != "":
		return cannot(w.title()+" cannot be scaled up: "+w.top.SurgeError, show)
	case w.top.Replicas < 0:
		return cannot(w.title()+" has no replicas that could be set", show)
	case wanted < 1:
		return cannot(w.title()+" is scaled to 0", show)
	case w.top.Kind == "StatefulSet" && w.top.APIGroup() == "apps" && w.limits.statefulSets != v1alpha1.StatefulSetsSurge:
		return cannot(w.title()+" is not scaled up, because the policy does not allow that",
			"set statefulSets: Surge in spec.system.kubernetes, where any of its pods can do the work of another")
	case w.top.NoOverlap && wanted == 1:
		return cannot("the strategy of "+w.title()+" (Recreate, or maxSurge 0) says that no two of its pods may run at once",
			"let it roll out with maxSurge 1, if two may")
	case w.top.NodeName != "":
		return cannot("the template of "+w.title()+" names node "+w.top.NodeName, show)
	case w.top.RolloutStuck != "":
		return cannot("a rollout of "+w.title()+" is stuck: "+w.top.RolloutStuck,
			fmt.Sprintf("kubectl rollout status -n %s %s/%s", w.top.Namespace, strings.ToLower(w.top.Kind), w.top.Name))
	}
	if claim := w.exclusiveClaim(p); claim != "" {
		return cannot(claim, "accept that it is away while it moves: usher.sh/break-glass, with a reason, lets it go")
	}
	return w.byAutoscaler(wanted)
}

func (w *workload) byAutoscaler(wanted int32) prospect {
	gap, unread := w.view.Cluster.Gap("horizontalpodautoscalers")
	a := w.scaler
	switch {
	case unread:
		return cannot("whether an autoscaler rules "+w.title()+" cannot be seen: "+gap.Reason, "give the manager the ClusterRole usher-workloads (usher install --workloads)")
	case a == nil:
	case a.SurgeError != "":
		return cannot("the record on autoscaler "+a.Name+" cannot be read: "+a.SurgeError, fmt.Sprintf("kubectl get -n %s hpa/%s -o yaml", a.Namespace, a.Name))
	case a.Max <= wanted:
		return cannot(fmt.Sprintf("autoscaler %s allows %d replicas at most, and as many are wanted", a.Name, a.Max),
			fmt.Sprintf("raise maxReplicas of autoscaler %s to %d", a.Name, wanted+1))
	}
	return prospect{}
}

// exclusiveClaim says which volume claim of a pod no second pod on another node can mount, "" if all can be.
func (w *workload) exclusiveClaim(p *snapshot.Pod) string {
	gap, unread := w.view.Cluster.Gap("persistentvolumeclaims")
	for _, name := range p.Claims {
		if w.top.Kind == "StatefulSet" {
			continue // each of its pods has claims of its own, or one that it shares with the others
		}
		switch c := w.view.Cluster.Claim(snapshot.Key{Namespace: p.Namespace, Name: name}); {
		case c == nil && unread:
			return fmt.Sprintf("whether volume claim %s can be mounted by a second pod cannot be seen: %s", name, gap.Reason)
		case c == nil || !c.Shared:
			return fmt.Sprintf("volume claim %s cannot be mounted by a second pod on another node", name)
		}
	}
	return ""
}

// busy is about what passes by itself.
func (w *workload) busy() prospect {
	r := w.top.Surge
	switch {
	case r != nil && !ours(r) && w.alive(r):
		return prospect{waits, fmt.Sprintf("%s is surging %s for a drain", text.Name(r.By), w.title()), "wait, or stop that drain"}
	case w.scaler != nil && w.scaler.Surge != nil && !ours(w.scaler.Surge) && w.alive(w.scaler.Surge):
		return prospect{waits, fmt.Sprintf("%s holds autoscaler %s for a drain", text.Name(w.scaler.Surge.By), w.scaler.Name), "wait, or stop that drain"}
	case r == nil && !w.top.Settled && (w.scaler == nil || w.scaler.Surge == nil):
		return prospect{waits, "a rollout of " + w.title() + " is under way, and the surge waits for it", "wait for the rollout"}
	}
	return prospect{possible, w.title() + " is scaled up by a replica first", waitFor}
}

// alive reports whether the drain of a record may still be running.
func (w *workload) alive(r *snapshot.SurgeRecord) bool {
	return drain.LiveUntil(w.view, r.Drainer).After(w.view.Now)
}

// needsSurge reports whether the pod's budgets keep it for good without one.
func (w *workload) needsSurge(p *snapshot.Pod) bool { return len(w.budgetsNever(p)) > 0 }

// progress says how far the manager's surge is. It names no times: what it says is news only when something happens.
func (w *workload) progress(leaving *snapshot.Pod) string {
	r := w.top.Surge
	said := fmt.Sprintf("%s is scaled from %d to %d", w.title(), r.Was, r.To)
	for _, p := range w.replacements(leaving) {
		if p.NotReadyWhy != "" {
			return said + fmt.Sprintf("; %s is not ready: %s", p.Name, text.Line(p.NotReadyWhy))
		}
	}
	return said
}

func (w *workload) describe() string {
	return fmt.Sprintf("see why its new pods do not get ready: kubectl describe pods -n %s -l '%s'", w.top.Namespace, w.top.Selector)
}

// pending is why a replacement is not scheduled, in the scheduler's words; "" if none waits for a node.
func (w *workload) pending(leaving *snapshot.Pod) string {
	for _, p := range w.replacements(leaving) {
		if p.Unschedulable {
			return p.Name + ": " + text.Line(p.NotReadyWhy)
		}
	}
	return ""
}
