package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// rollingOut reports whether a rollout of the Deployment is under way that is not this drain's own scaling.
func (d *decider) rollingOut(w *snapshot.Workload, a *snapshot.Autoscaler) bool {
	return w.Surge == nil && !w.Settled && (a == nil || !d.ours(a.Surge))
}

// rolloutStuck says why a surge waits no longer for a rollout, "" if it may wait: the rollout does not go on, or nothing on
// the pod's node has moved for too long. Its pods are evicted then, as far as their budgets let them.
func (d *decider) rolloutStuck(w *snapshot.Workload, a *snapshot.Autoscaler, node string) string {
	if !d.rollingOut(w, a) {
		return ""
	}
	if w.RolloutStuck != "" {
		return w.RolloutStuck
	}
	until, patient := d.patient(node)
	if patient {
		d.wake(until)
		return ""
	}
	return fmt.Sprintf("its rollout has not ended within %s", short(patience))
}

// rollout says what a surge waits for while a rollout is under way.
func (d *decider) rollout(s *surge) Blocker {
	w := s.deployment
	until, _ := d.patient(s.leaving[0].Node)
	return Blocker{
		Reason:  RolloutUnderway,
		Message: fmt.Sprintf("a rollout of %s is under way; the surge waits for it", w.Name),
		Remedy: fmt.Sprintf("wait, while nothing moves no longer than until %s; kubectl rollout status -n %s deployment/%s; or %s",
			until.Format("15:04:05"), w.Namespace, w.Name, d.without(s)),
	}
}

// nowhere says why no node but those of the drain may run a pod like p, "" if one may. Whether it has room is not looked
// at: room may come.
func (d *decider) nowhere(p *snapshot.Pod) string {
	if known, ok := d.places[p.Owner.UID]; ok {
		return known
	}
	placement := snapshot.PlacementOf(p)
	why := d.nowhereFor(&placement)
	d.places[p.Owner.UID] = why
	return why
}

// nowhereFor is nowhere of what is placed so.
func (d *decider) nowhereFor(placement *snapshot.Placement) string {
	some, obstacles := d.elsewhere(placement)
	switch selector := placement.Selector(); {
	case some || !d.Cluster.NodesRead(selector):
		return ""
	case len(obstacles) == 0 && selector != "":
		return "no other node may run it: none has the labels " + selector
	}
	return "no other node may run it" + because(numbered(obstacles))
}

// elsewhere reports whether a node but those of the drain may run such a pod, and how many of those with the labels that it asks for
// have which obstacle, as far as one was looked for. The others need not have been read.
func (d *decider) elsewhere(placement *snapshot.Placement) (some bool, obstacles map[string]int) {
	obstacles = map[string]int{}
	some = d.Cluster.AnyNode(func(n *snapshot.Node) bool {
		if d.targeted(n.Name) || !placement.Selects(n) {
			return false
		}
		obstacle := placement.Refusal(n)
		obstacles[obstacle]++
		return obstacle == ""
	})
	return some, obstacles
}

// HasPlace reports whether one of the nodes that were read, but for its own, may run a pod like p.
func HasPlace(view snapshot.View, p *snapshot.Pod) bool {
	placement := snapshot.PlacementOf(p)
	some, _ := newDecider(view, Request{Nodes: []string{p.Node}}, NewLedger(), false).elsewhere(&placement)
	return some
}

// pinned reports whether only the pod's own node may run a pod like it. A node that joined and had the same labels but for
// its name would be of no use, so no autoscaler helps.
func (d *decider) pinned(p *snapshot.Pod) bool {
	n := d.Cluster.Node(p.Node)
	if n == nil || d.nowhere(p) == "" {
		return false
	}
	other := snapshot.Node{Ready: true, Labels: maps.Clone(n.Labels)}
	delete(other.Labels, corev1.LabelHostname)
	placement := snapshot.PlacementOf(p)
	return placement.Refusal(&other) != ""
}

func numbered(counts map[string]int) string {
	parts := make([]string, 0, len(counts))
	for what, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
