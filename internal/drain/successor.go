package drain

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// recoverByName shows the pods of a StatefulSet that left: what takes the place of one has its name. Where the owner lacks
// none, one that is not there is not wanted any more.
func (d *decider) recoverByName(owner *snapshot.Workload, group []*departure) {
	missing, _, _ := d.lacking(owner)
	named, last := map[string]*snapshot.Pod{}, map[string]*departure{}
	for _, p := range d.podsOf(owner) {
		named[p.Name] = p
	}
	for _, dep := range group {
		last[dep.pod.Name] = dep
	}
	for _, dep := range group {
		next := named[dep.pod.Name]
		switch {
		case last[dep.pod.Name] != dep: // what took its place has left as well
			d.departed(dep, nil, Blocker{}, "")
		case next == nil && missing == 0:
			d.departed(dep, nil, Blocker{}, "")
		case next != nil && d.cameBack(next) && !next.Terminating():
			d.returned(dep, next)
		case next != nil && next.AvailableAt(d.Now, owner.MinReady):
			d.departed(dep, nil, Blocker{}, "")
		default:
			b := d.notBack(dep.pod, owner, next)
			d.departed(dep, next, b, b.Message)
		}
	}
}

// recoverByNumber shows the pods of an owner whose pods have no lasting names. The pods that left last are the ones that are
// not replaced yet; before them, those whose place on the node was taken again. What was said once of a pod stands while
// it may: what is ready later replaces those that had nothing.
func (d *decider) recoverByNumber(owner *snapshot.Workload, group []*departure) {
	missing, coming, back := d.lacking(owner)
	missing = min(missing, len(group))
	open := make([]*departure, 0, len(group))
	owned := map[types.UID]*snapshot.Pod{} // what the owner has released replaces nothing
	for _, p := range d.podsOf(owner) {
		owned[p.UID] = p
	}
	for _, dep := range group {
		before := d.led.successors[dep.pod.UID]
		next := owned[before]
		switch {
		case before == dep.pod.UID:
			open = append(open, dep)
		case slices.Contains(back, next):
			back = without(back, next)
			d.returned(dep, next)
		case missing > 0 && slices.Contains(coming, next):
			missing, coming = missing-1, without(coming, next)
			d.lacks(dep, owner, next)
		case next != nil && !next.Terminating() && next.AvailableAt(d.Now, owner.MinReady):
			d.succeed(dep, next)
			d.departed(dep, nil, Blocker{}, "")
		default:
			open = append(open, dep)
		}
	}
	d.recoverOpen(owner, open, missing, coming, back)
}

// recoverOpen shows the pods of which it was not said before what takes their place. Those that were replaced come first.
func (d *decider) recoverOpen(owner *snapshot.Workload, open []*departure, missing int, coming, back []*snapshot.Pod) {
	slices.SortStableFunc(open, func(a, b *departure) int { return lastTrue(!d.replaced(a), !d.replaced(b)) })
	for i, dep := range open {
		n := i - (len(open) - min(missing, len(open)))
		switch returned := n + len(back); {
		case n < 0 && returned >= 0:
			d.returned(dep, back[returned])
		case n < 0:
			d.succeed(dep, dep.pod)
			d.departed(dep, nil, Blocker{}, "")
		case n < len(coming):
			d.lacks(dep, owner, coming[n])
		default:
			d.lacks(dep, owner, nil)
		}
	}
}

// replaced reports whether a pod counted as replaced before, it is not known by which.
func (d *decider) replaced(dep *departure) bool { return d.led.successors[dep.pod.UID] == dep.pod.UID }

func (d *decider) lacks(dep *departure, owner *snapshot.Workload, next *snapshot.Pod) {
	if next != nil {
		d.succeed(dep, next)
	}
	b := d.notBack(dep.pod, owner, next)
	d.departed(dep, next, b, b.Message)
}

func (d *decider) returned(dep *departure, next *snapshot.Pod) {
	d.succeed(dep, next)
	d.departed(dep, nil, Blocker{}, next.Name+" has come back to the node in its place")
}

// succeed notes what has taken the place of a pod: the pod's own UID where it is not known which one has.
func (d *decider) succeed(dep *departure, next *snapshot.Pod) {
	if d.out.Successors == nil {
		d.out.Successors = map[types.UID]types.UID{}
	}
	d.out.Successors[dep.pod.UID] = next.UID
}

func without(pods []*snapshot.Pod, p *snapshot.Pod) []*snapshot.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(other *snapshot.Pod) bool { return other == p })
}
