package kubernetes

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// limits are what the policy's spec says.
type limits struct {
	statefulSets v1alpha1.StatefulSetMode
}

// workload is what is scaled to start replacements, with its pods.
type workload struct {
	view   snapshot.View
	limits limits
	top    *snapshot.Workload
	scaler *snapshot.Autoscaler // nil where none rules it
	pods   []*snapshot.Pod      // those that have not ended, by name
}

// depth is how many controllers may control each other above a pod.
const depth = 8

// topOf returns the last of the controllers above a pod: what owners of the lower ones would take back is not scaled. nil where nothing
// controls the pod, or not all of them are known.
func topOf(c *snapshot.Cluster, p *snapshot.Pod) *snapshot.Workload {
	w := c.WorkloadOf(p.OwnerKey())
	for range depth {
		if w == nil || w.Owner.UID == "" {
			return w
		}
		w = c.WorkloadOf(w.OwnerKey())
	}
	return nil
}

// workloads groups the pods of a view by what is scaled for them.
func (l limits) workloads(view snapshot.View) map[types.UID]*workload {
	all := map[types.UID]*workload{}
	view.Cluster.EachPod(func(p *snapshot.Pod) {
		top := topOf(view.Cluster, p)
		if top == nil || p.Finished() {
			return
		}
		if all[top.UID] == nil {
			all[top.UID] = l.of(view, top)
		}
		all[top.UID].pods = append(all[top.UID].pods, p)
	})
	for _, w := range all {
		slices.SortFunc(w.pods, func(a, b *snapshot.Pod) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

func (l limits) of(view snapshot.View, top *snapshot.Workload) *workload {
	return &workload{view: view, limits: l, top: top, scaler: view.Cluster.AutoscalerOf(top)}
}

// title names the workload for people.
func (w *workload) title() string { return w.top.Kind + " " + w.top.Name }

// target names it for its next readers.
func (w *workload) target() system.Target {
	t := system.Target{Name: w.top.Name}
	t.Group, t.Kind = w.top.APIGroup(), w.top.Kind
	return t
}

// ours reports whether a record is the manager's.
func ours(r *snapshot.SurgeRecord) bool { return r != nil && r.ID == snapshot.ManagerID }

// wanted is how many replicas the owner has asked for: not fewer than the autoscaler's own minimum, to which that scales as soon as it
// looks.
func (w *workload) wanted() int32 {
	wanted := w.top.Replicas
	if r := w.top.Surge; r != nil && w.top.Replicas == r.To {
		wanted = r.Was
	}
	switch a := w.scaler; {
	case a == nil:
	case a.Surge == nil:
		wanted = max(wanted, a.Min)
	case w.top.Surge == nil && a.Surge.Base > 0 && w.top.Replicas <= a.Surge.To: // it may have scaled by itself
		wanted = max(min(a.Surge.Base, w.top.Replicas), a.Surge.Was)
	default:
		wanted = max(wanted, a.Surge.Was)
	}
	return wanted
}

// replicas is how many there are to be of what a pod is one of: of a member of a MemberSet as many as its group is to have, or as do their work beside it and
// stay, where these are more: a successor counts from then on, and so does one that is left by another that is too many.
func (w *workload) replicas(p *snapshot.Pod) int32 {
	if w.top.Members == nil {
		return w.wanted()
	}
	this, others := w.top.Members[p.Name], int32(0)
	for name, m := range w.top.Members {
		if m.Group == this.Group && m.Stays && name != p.Name {
			others++
		}
	}
	return max(this.Replicas, others+1)
}

// alike reports whether two pods of the workload are replicas of each other. Groups of a MemberSet have data of their own.
func (w *workload) alike(a, b *snapshot.Pod) bool {
	return w.top.Members == nil || w.top.Members[a.Name].Group == w.top.Members[b.Name].Group
}

// ready reports whether a pod does its work and is staying.
func (w *workload) ready(p *snapshot.Pod) bool { return p.AvailableAt(w.view.Now, w.top.MinReady) }

// reports reports whether a node is there and ready: of one that is lost, or deleted, pods are shown Ready for a while.
func reports(c *snapshot.Cluster, node string) bool {
	n := c.Node(node)
	return n != nil && n.Ready
}

// stays reports whether a pod that is on a node need not leave it, as far as can be seen: the node is ready, takes pods, and no drain works
// on it.
func stays(c *snapshot.Cluster, node string) bool {
	n := c.Node(node)
	return reports(c, node) && !n.Unschedulable && (n.Drain == nil || !n.Drain.Working()) && !slices.ContainsFunc(n.Taints, emptying)
}

// emptying reports whether a taint says that an autoscaler takes the node away.
func emptying(t corev1.Taint) bool {
	return t.Key == "ToBeDeletedByClusterAutoscaler" || t.Key == "karpenter.sh/disrupted" || t.Effect == corev1.TaintEffectNoExecute
}

// replacements are the pods that are not ready and not terminating, but for the one that leaves: what the surge waits for.
func (w *workload) replacements(leaving *snapshot.Pod) []*snapshot.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *snapshot.Pod) bool {
		return p.UID == leaving.UID || p.Terminating() || w.ready(p)
	})
}

// surgePatience is how long a surge without a ready replacement goes on. A cluster autoscaler adds a node well within it.
const surgePatience = 5 * time.Minute

// overdue reports whether the manager's surge has had its time, and fewer pods are ready than it would take.
func (w *workload) overdue() bool {
	r := w.top.Surge
	if !ours(r) || w.top.Replicas != r.To || r.To <= r.Was {
		return false
	}
	ready := 0
	for _, p := range w.pods {
		if w.ready(p) {
			ready++
		}
	}
	return ready <= int(r.Was) && !w.view.Now.Before(snapshot.Believed(r.Step, w.view.Now).Add(surgePatience))
}

// givenUp reports whether a surge was taken back because no replacement got ready: its record stays, so that it is not begun again.
func (w *workload) givenUp() bool { return ours(w.top.Surge) && w.top.Surge.To == w.top.Surge.Was }
