package drain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// shortage says which pods of a budget are not ready.
type shortage struct {
	words  string
	remedy string // "" where it is enough to wait for them, as far as is known
}

// unreadyUnder names the pods of a budget that are not ready. All that wait for one
// budget say the same.
func (d *decider) unreadyUnder(b *snapshot.Budget) shortage {
	found, known := d.unready[b.UID]
	if !known {
		found = d.findUnready(b)
		d.unready[b.UID] = found
	}
	return found
}

// mostWhys is of how many pods a line says why they are not ready.
const mostWhys = 2

func (d *decider) findUnready(b *snapshot.Budget) shortage {
	var names []string
	var remedy string
	coming, whys := int32(0), 0
	for _, p := range d.Cluster.PodsIn(b.Namespace) {
		if p.Ready && !p.Terminating() || p.Finished() || !b.Matches(p) {
			continue
		}
		name := p.Name
		why, way := d.whyUnready(p)
		if why == "" {
			coming++
		} else if whys++; whys <= mostWhys {
			name += " (" + why + ")"
		}
		if remedy == "" {
			remedy = way
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return shortage{}
	}
	if b.Current+coming > b.Desired {
		remedy = ""
	}
	return shortage{"; not ready: " + listed(names), remedy}
}

// whyUnready says why a pod does not get ready by itself, and what would help; "" where it may.
func (d *decider) whyUnready(p *snapshot.Pod) (why, remedy string) {
	n := d.Cluster.Node(p.Node)
	switch {
	case n != nil && !n.Ready && p.Terminating():
		return fmt.Sprintf("terminating on node %s, which does not answer", n.Name), pastDeadNode(n)
	case n != nil && !n.Ready:
		return fmt.Sprintf("node %s does not answer", n.Name), fmt.Sprintf("bring node %s back", n.Name)
	case p.Terminating() && len(p.Finalizers) > 0 && p.Deletion.Before(d.Now):
		return "terminating, held by " + finalizersOf(p), pastFinalizers(p)
	case p.Terminating():
		return "", ""
	case p.Unschedulable:
		return "no node takes it", d.makePlace(p)
	}
	if w := d.workloadOf(p); w != nil && w.Kind == "Deployment" && w.RolloutStuck != "" {
		return w.RolloutStuck, pastRollout(w)
	}
	return "", ""
}

// pastRollout says what ends a rollout that does not go on. One that is paused cannot be undone before it is resumed.
func pastRollout(w *snapshot.Workload) string {
	if w.RolloutStuck == snapshot.RolloutPaused {
		return fmt.Sprintf("kubectl rollout resume -n %s deployment/%s", w.Namespace, w.Name)
	}
	return fmt.Sprintf("kubectl rollout undo -n %s deployment/%s, or mend its template", w.Namespace, w.Name)
}

// pastDeadNode says how pods get past a node that does not answer.
func pastDeadNode(n *snapshot.Node) string {
	if n.OutOfService() {
		return "wait: the node is tainted as out of service, so the pod garbage collector of the control plane removes what is terminating there"
	}
	return fmt.Sprintf("bring the node back, or once it is certainly off: kubectl taint node %s %s=nodeshutdown:NoExecute", n.Name, corev1.TaintNodeOutOfService)
}

// noteOutOfService says which nodes are tainted as out of service, once they are back or the drain has ended: the taint is not
// taken off by itself, and keeps pods away. Kubernetes documents it with more than one effect; named without one, each is taken off.
func (d *decider) noteOutOfService(nodes []target) {
	for i := range nodes {
		if n := nodes[i].node; d.verbose && n != nil && n.OutOfService() && (n.Ready || d.led.ending != Running) {
			d.out.Notes = append(d.out.Notes, fmt.Sprintf("node %s is tainted as out of service: once it is back, kubectl taint node %s %s- lets it run pods again",
				n.Name, n.Name, corev1.TaintNodeOutOfService))
		}
	}
}
