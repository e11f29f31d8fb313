package drain

import (
	"cmp"
	"fmt"
	"slices"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// recover reports what has come back for the pods that left. Drained is not the
// same as recovered: only a pod that was seen ready counts.
func (d *decider) recover() {
	if !d.verbose && !d.req.WaitReplaced {
		return
	}
	for _, owner := range d.departedOwners() {
		d.recoverOwner(owner)
	}
}

// departedOwners groups the pods that were seen gone by what rules their number.
func (d *decider) departedOwners() [][]*departure {
	groups := map[snapshot.OwnerKey][]*departure{}
	for _, dep := range d.led.departures {
		if dep.gone.IsZero() {
			continue
		}
		ruler := dep.pod.OwnerKey()
		if w := d.workloadOf(dep.pod); w != nil {
			ruler = w.AsOwner()
		}
		groups[ruler] = append(groups[ruler], dep)
	}
	all := make([][]*departure, 0, len(groups))
	for _, group := range groups {
		slices.SortFunc(group, func(a, b *departure) int {
			return cmp.Or(a.gone.Compare(b.gone), snapshot.ComparePods(a.pod, b.pod))
		})
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b []*departure) int { return snapshot.ComparePods(a[0].pod, b[0].pod) })
	return all
}

// recoverOwner finds what has come in place of each pod of an owner that left.
func (d *decider) recoverOwner(group []*departure) {
	owner := d.workloadOf(group[0].pod)
	switch {
	case owner == nil || owner.Replicas < 0:
		for _, dep := range group {
			d.departed(dep, nil, Blocker{}, noReplacement(dep.pod, owner))
		}
	case owner.Kind == "StatefulSet":
		d.recoverByName(owner, group)
	default:
		d.recoverByNumber(owner, group)
	}
}

// lacking returns how many of the pods that are gone the owner has no ready pod for
// yet, the pods that are on their way, and those that came back to the drain's nodes.
// Pods that are still ending are not counted: their replacements are due when they are gone.
func (d *decider) lacking(owner *snapshot.Workload) (missing int, coming, back []*snapshot.Pod) {
	want := owner.Replicas
	if owner.Surge != nil {
		want = owner.Surge.Was
	}
	have := 0
	for _, p := range d.podsOf(owner) {
		switch {
		case p.Terminating():
			want--
		case p.Finished():
		case d.cameBack(p):
			back = append(back, p)
		case p.AvailableAt(d.Now, owner.MinReady):
			have++
		default:
			coming = append(coming, p)
			if p.Ready {
				d.wake(p.ReadySince.Add(owner.MinReady))
			}
		}
	}
	return max(int(want)-have-len(back), 0), coming, back
}

// podsOf returns the pods of a workload, through its ReplicaSets where it is a
// Deployment.
func podsOf(c *snapshot.Cluster, w *snapshot.Workload) []*snapshot.Pod {
	if w.Kind != "Deployment" {
		return c.PodsOf(w.AsOwner())
	}
	var pods []*snapshot.Pod
	for _, rs := range c.WorkloadsOf(w.AsOwner()) {
		pods = append(pods, c.PodsOf(rs.AsOwner())...)
	}
	return pods
}

func (d *decider) podsOf(w *snapshot.Workload) []*snapshot.Pod { return podsOf(d.Cluster, w) }

func noReplacement(p *snapshot.Pod, owner *snapshot.Workload) string {
	switch {
	case p.Owner.UID == "":
		return "nothing replaces it: no controller owned it"
	case p.Owner.DaemonSet():
		return "its DaemonSet runs it wherever the node may have it"
	case owner != nil:
		return fmt.Sprintf("its %s %s decides whether it runs again", owner.Kind, owner.Name)
	}
	return fmt.Sprintf("its %s %s cannot be seen, so it is unknown whether it was replaced", text.Name(p.Owner.Kind), text.Name(p.Owner.Name))
}

func (d *decider) notBack(p *snapshot.Pod, owner *snapshot.Workload, next *snapshot.Pod) Blocker {
	b := Blocker{
		Reason: NotReplaced, Pod: p.Key(), Node: p.Node,
		Message: fmt.Sprintf("%s/%s has not started its replacement yet", owner.Kind, owner.Name),
		Remedy:  fmt.Sprintf("kubectl describe %s -n %s %s", owner.Kind, owner.Namespace, owner.Name),
	}
	if next != nil {
		b.Message = fmt.Sprintf("its replacement %s is not ready%s", next.Name, because(next.NotReadyWhy))
	}
	if next != nil && !d.simulated(next) {
		b.Remedy = fmt.Sprintf("kubectl describe pod -n %s %s", next.Namespace, next.Name)
	}
	return b
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// departed shows a pod that left. A blocker means that it is not replaced yet, a note
// without one that no replacement is due.
func (d *decider) departed(dep *departure, next *snapshot.Pod, b Blocker, note string) {
	s := PodStatus{Pod: dep.pod, State: Replaced, Note: note, GoneAt: dep.gone, Replacement: next}
	if b.Reason != "" {
		s.State = GoneState
		if d.req.WaitReplaced {
			s.Blockers = []Blocker{b}
			d.recovering = d.led.ending == Running
			d.pending = d.pending || d.recovering
		}
	}
	if s.State == Replaced && note != "" {
		s.State = Ended
	}
	d.show(s)
}
