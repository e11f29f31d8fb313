package memberset

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"usher.sh/usher/api/v1alpha1"
)

// Decide says what is done next for a set.
func Decide(in Input) Result {
	d := decision{Input: &in, index: newIndex(&in), status: *in.Set.Status.DeepCopy()}
	d.crashing, d.unconfigured = crashingOf(in.Set), targetsOf(in.Set.Annotations[v1alpha1.EmptyConfigurationAnnotation])
	d.status.ObservedGeneration, d.status.System = in.Set.Generation, in.Kind.Name
	d.blockers = slices.Clone(in.Unread)
	var invalid []Blocker
	d.groups, invalid = groupsOf(in.Set, &in.Kind)
	d.blockers = append(d.blockers, invalid...)
	d.stray()
	d.remains()
	d.see()
	d.noteDebugging()
	switch {
	case len(d.blockers) == 0:
		if !in.Set.Spec.Suspend {
			d.plan()
		}
		d.govern()
	case !in.Set.Spec.Suspend:
		d.withdraw()
	}
	d.uncontained()
	d.conclude()
	progress := !sameProgress(&in.Set.Status, &d.status)
	if progress {
		d.actions = nil
	}
	return Result{Status: d.status, Progress: progress, Actions: d.actions, decided: &d}
}

// Refused is the status where actions were not accepted, for which these are the blockers.
func (r *Result) Refused(all []Blocker) v1alpha1.MemberSetStatus {
	d := *r.decided
	d.status, d.blockers = *r.Status.DeepCopy(), slices.Concat(all, d.blockers)
	d.conclude()
	return d.status
}

type decision struct {
	*Input
	index

	groups   []group
	crashing map[string]targets // by container, the members of which its set says that it is to crash
	// unconfigured are those of which it says that their configuration is to be empty.
	unconfigured targets

	status   v1alpha1.MemberSetStatus
	blockers []Blocker
	actions  []Action
}

func (d *decision) act(a Action) { d.actions = append(d.actions, a) }

func (d *decision) block(b Blocker) { d.blockers = append(d.blockers, b) }

// sameProgress reports whether two states say the same of what actions rest on: whom there is, and how far each is.
func sameProgress(a, b *v1alpha1.MemberSetStatus) bool {
	if (a.Formed == nil) != (b.Formed == nil) || (a.FormRequestTime == nil) != (b.FormRequestTime == nil) || len(a.Members) != len(b.Members) || a.ClusterFile != b.ClusterFile ||
		!equality.Semantic.DeepEqual(a.Maintenance, b.Maintenance) {
		return false
	}
	for i := range a.Members {
		x, y := a.Members[i], b.Members[i]
		x.Node, x.Zone = y.Node, y.Zone // which are only remembered
		if !equality.Semantic.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// withdraw takes back what was asked for so that pods are made anew, where none can be made: evictions, and a maintenance, whose members repair passes over.
func (d *decision) withdraw() {
	for i := range d.status.Members {
		d.keepPod(&d.status.Members[i], d.pod(d.status.Members[i].ID))
	}
	if d.status.Maintenance != nil {
		d.maintain()
	}
}

// plan goes through all that can follow. What has the status changed is written first, and the rest follows then.
func (d *decision) plan() {
	if cluster := d.otherCluster(); cluster != "" {
		d.block(anotherCluster(cluster, d.status.Formed.Cluster))
		d.restore()
		return
	}
	d.mark()
	d.disown()
	d.form()
	d.follow()
	d.publish()
	d.lead()
	for i := range d.groups {
		d.resize(&d.groups[i])
	}
	d.update()
	d.depart()
	d.maintain()
	d.joined()
	d.release()
	for i := range d.status.Members {
		if m := &d.status.Members[i]; leaving(m) {
			d.remove(m)
		} else {
			d.keep(m)
		}
	}
	d.forget()
}

// restore makes the pods of members anew that have joined and are to stay. They come back with what is on their disks, whoever answers in their place.
func (d *decision) restore() {
	for i := range d.status.Members {
		if m := &d.status.Members[i]; whole(m) && !leaving(m) && d.pod(m.ID) == nil {
			d.keep(m)
		}
	}
}

// stray blocks where members are there that the status does not know: it was lost, and what is left must not be taken for nothing.
func (d *decision) stray() {
	known := map[string]bool{}
	for i := range d.status.Members {
		known[d.status.Members[i].ID] = true
	}
	for i := range d.Pods {
		if p := &d.Pods[i]; p.Ours && !known[p.Name] && !p.Terminating {
			d.block(memberUnknown(p.Name, d.Set.Name))
		}
	}
}

// foreign blocks where pods carry the set's label that are none of its own: who may label a pod stops nothing by that.
func (d *decision) foreign() {
	for i := range d.Pods {
		if p := &d.Pods[i]; !p.Ours && !p.Terminating && d.member(p.Name) == nil {
			d.block(podNotOurs(p.Name, d.Set))
		}
	}
}

// remains blocks where a system would be formed beside what carries the set's label already, whether it is the set's or not: members of another system, or the
// data of an earlier set of the name.
func (d *decision) remains() {
	if !d.Kind.forms() || d.status.Formed != nil || len(d.status.Members) > 0 || len(d.blockers) > 0 {
		return
	}
	var names []string
	for i := range d.Pods {
		if !d.Pods[i].Terminating {
			names = append(names, "pod "+d.Pods[i].Name)
		}
	}
	for i := range d.Claims {
		names = append(names, "claim "+d.Claims[i].Name)
	}
	for i := range d.Services {
		names = append(names, "Service "+d.Services[i].Name)
	}
	if len(names) > 0 {
		d.block(objectsRemain(names, d.Set))
	}
	if d.File != nil {
		d.block(d.notOurs("ConfigMap", &d.File.Object, ""))
	}
}

// see takes over where the members' pods are.
func (d *decision) see() {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if p := d.pod(m.ID); p != nil && p.Node != "" {
			m.Node, m.Zone = p.Node, p.Zone
		}
	}
}

func (d *decision) member(id string) *v1alpha1.SetMember {
	at := slices.IndexFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return &d.status.Members[at]
}

// pod is the member's; nil: there is none, or one that is not the set's.
func (d *decision) pod(id string) *Pod {
	if p, foreign := d.podOf(id); !foreign {
		return p
	}
	return nil
}

func (d *decision) group(name string) *group {
	at := slices.IndexFunc(d.groups, func(g group) bool { return g.Name == name })
	if at < 0 {
		return nil
	}
	return &d.groups[at]
}

// leaving reports whether a member is on its way out, with no way back.
func leaving(m *v1alpha1.SetMember) bool {
	return m.Removal != nil && (m.Removal.Step == v1alpha1.RemovalRemoving || m.Removal.Step == v1alpha1.RemovalRemoved)
}

// counted are the members of a group that no request stands for.
func (d *decision) counted(g string, is func(*v1alpha1.SetMember) bool) []*v1alpha1.SetMember {
	var all []*v1alpha1.SetMember
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.Group == g && m.Removal == nil && is(m) {
			all = append(all, m)
		}
	}
	return all
}

func anyMember(*v1alpha1.SetMember) bool { return true }

func whole(m *v1alpha1.SetMember) bool { return m.State == v1alpha1.MemberWhole }

func joining(m *v1alpha1.SetMember) bool { return m.State == v1alpha1.MemberJoining }
