package histories

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// trouble is what may happen to a set and its machines.
func (s *setSite) trouble(add func(weight int, happen func())) {
	w := s.world
	add(6*w.odds.sets, s.edit)
	add(3*w.odds.machines, s.destroy)
	add(2*w.odds.sets, s.deleteService)
	add(w.odds.gone, s.deleteSet)
	if s.fdb != nil {
		add(3*w.odds.sets, s.editFDB)
	}
}

// editSet changes the spec of the set, as its owner does.
func (w *world) editSet(edit func(*v1alpha1.MemberSetSpec)) {
	set := w.set()
	if set == nil {
		return
	}
	set = duplicate(set)
	edit(&set.Spec)
	set.Generation++
	w.store.put(set)
	w.setSite().keep(set)
}

// edit is what an owner does to a set. What stops it is soon changed back.
func (s *setSite) edit() {
	w, set := s.world, s.world.set()
	if set == nil {
		w.note("owner: writes the set anew")
		s.write(s.newSet(3))
		return
	}
	group := set.Spec.Groups[0]
	switch drawn := w.dice.IntN(14); {
	case set.Spec.Suspend || drawn == 0:
		w.note("owner: suspends the set: %t", !set.Spec.Suspend)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Suspend = !spec.Suspend })
	case isWrong(&group) || drawn == 1:
		template := []string{plainTemplate, otherTemplate, wrongTemplate}[w.dice.IntN(3)]
		w.note("owner: the template is %s", template)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Groups[0].Template.Raw = []byte(template) })
	case drawn == 2:
		mode := []v1alpha1.VolumeClaimMode{v1alpha1.VolumeClaimsDelete, v1alpha1.VolumeClaimsRetain}[w.dice.IntN(2)]
		w.note("owner: volumes of members that are removed: %s", mode)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Removal.VolumeClaims = mode })
	case drawn == 3:
		w.note("owner: repair changes")
		w.editSet(func(spec *v1alpha1.MemberSetSpec) {
			if spec.Repair = drawRepair(w.dice); w.dice.IntN(2) == 0 {
				spec.Repair = nil
			}
		})
	case drawn == 4:
		s.editRole()
	case drawn == 5:
		w.note("owner: deletes the policy of the set")
		w.deletePolicy(firstPolicy)
	case drawn == 6:
		w.editSet(func(spec *v1alpha1.MemberSetSpec) {
			spec.UpdateStrategy, spec.OnEviction = s.drawUpdates(), s.drawOnEviction()
		})
	default:
		replicas := []int32{1, 2, 3, 3, 4, 5, 5, 7}[w.dice.IntN(8)]
		w.note("owner: replicas are to be %d", replicas)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Groups[0].Replicas = &replicas })
	}
}

// isWrong reports whether the template of a group is one that is refused.
func isWrong(g *v1alpha1.MemberGroup) bool {
	return strings.Contains(string(g.Template.Raw), `"volume"`)
}

// drawUpdates draws how a changed template reaches members.
func (s *setSite) drawUpdates() v1alpha1.MemberUpdateStrategy {
	dice := s.world.dice
	var u v1alpha1.MemberUpdateStrategy
	u.Type = []v1alpha1.MemberUpdateType{"", v1alpha1.UpdateRecreate, v1alpha1.UpdateReplace, v1alpha1.UpdateOnDelete}[dice.IntN(4)]
	u.Recreate.Batch = []v1alpha1.MemberBatch{v1alpha1.BatchZone, v1alpha1.BatchMember, v1alpha1.BatchAll}[dice.IntN(3)]
	if most := int32(dice.IntN(3)); most > 0 {
		u.Replace.MaxInFlight = &most
	}
	s.world.note("owner: updates of the set: %s, in batches %s, %d in flight, also on %v", u.Type, u.Recreate.Batch, ptr.Deref(u.Replace.MaxInFlight, -1), u.Replace.AlsoOn)
	return u
}

// drawOnEviction draws what comes of the eviction of a member.
func (s *setSite) drawOnEviction() v1alpha1.OnEviction {
	on := []v1alpha1.OnEviction{v1alpha1.OnEvictionReplace, v1alpha1.OnEvictionRecreate, v1alpha1.OnEvictionAuto}[s.world.dice.IntN(3)]
	s.world.note("owner: eviction of members: %s", on)
	return on
}

// editRole has the members be of a role of the set's own, which says the same, or no more. Not while one is removed: what lets it go names its role, and its pod stays
// until the role is set back.
func (s *setSite) editRole() {
	if slices.ContainsFunc(list[*v1alpha1.ReplacementRequest](s.world.store, replaces), func(q *v1alpha1.ReplacementRequest) bool { return !q.Status.Over() }) {
		return
	}
	own := "own-" + s.role()
	s.world.editSet(func(spec *v1alpha1.MemberSetSpec) {
		if spec.Groups[0].Role == own {
			spec.Groups[0].Role = s.role()
			return
		}
		role := *s.world.role(s.role())
		role.Name = own
		spec.Roles = append(slices.DeleteFunc(slices.Clone(spec.Roles), func(r v1alpha1.Role) bool { return r.Name == own }), role)
		spec.Groups[0].Role = own
	})
	s.world.note("owner: the role of members is %s", s.world.set().Spec.Groups[0].Role)
}

// write creates a set.
func (s *setSite) write(set *v1alpha1.MemberSet) {
	if err := s.world.store.create(set); err != nil {
		s.world.fail("SIMULATOR", "creating a set: %v", err)
	}
	s.keep(set)
}

// deleteSet is an owner who deletes the set, with all that it owns.
func (s *setSite) deleteSet() {
	if set := s.world.set(); set != nil {
		s.world.note("owner: deletes the set")
		s.world.store.remove(set)
		s.rewrote = true
		clear(s.began)
	}
}

// deleteService is a person who deletes the Service of a member.
func (s *setSite) deleteService() {
	all := list[*corev1.Service](s.world.store, services)
	if len(all) > 0 {
		service := all[s.world.dice.IntN(len(all))]
		s.world.note("owner: deletes Service %s", service.Name)
		s.world.store.remove(service)
	}
}

// destroy has a machine that has stopped never come back, with all disks on it. Sometimes its Node is deleted.
func (s *setSite) destroy() {
	w := s.world
	id := w.someMachine(func(m *machine) bool { return m.lost && !m.cut && !m.destroyed })
	if id == "" || s.lastCopy(w.machines[id]) && w.dice.IntN(8) > 0 {
		return
	}
	w.note("machine: %s is destroyed", w.machines[id].node)
	s.ruined = s.ruined || s.lastCopy(w.machines[id])
	w.safety.excused = w.safety.excused || s.ruined
	w.machines[id].destroyed = true
	for _, member := range s.disksOn(w.machines[id]) {
		if s.fdb != nil {
			s.fdb.Wipe(member)
			continue
		}
		s.sim.Wipe(member)
	}
	w.safety.changed(w, accident, w.machines[id].node+" is destroyed")
	if w.dice.IntN(2) == 0 {
		w.deleteNode(id)
	}
}

// disksOn are the members of etcd or FoundationDB whose disks are on a machine.
func (s *setSite) disksOn(m *machine) []string {
	var all []string
	for id, disk := range s.data {
		if s.disks[disk] == m {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// lastCopy reports whether what is on the disks of a machine cannot be missed.
func (s *setSite) lastCopy(m *machine) bool {
	if s.fdb != nil {
		return s.fdb.LastCopy(s.disksOn(m)...)
	}
	return slices.ContainsFunc(s.disksOn(m), func(id string) bool {
		lose, _ := s.sim.WouldLoseWithDisk(id)
		return lose
	})
}

// calm has the owner want what can be, and all machines that are there take pods.
func (s *setSite) calm() {
	w := s.world
	s.freeNodes()
	w.editSet(func(spec *v1alpha1.MemberSetSpec) {
		spec.Suspend = false
		g := &spec.Groups[0]
		if isWrong(g) {
			g.Template.Raw = []byte(plainTemplate)
		}
		if status := w.set().Status.Groups; s.sim != nil && len(status) > 0 {
			g.Replicas = new(status[0].Replicas)
		}
		if s.sim == nil { // the role has one stay while another's pod is made anew
			g.Replicas = new(max(*g.Replicas, 2))
		}
		if s.fdb != nil {
			s.enlarge(spec)
			s.includeByHand()
		}
		if s.sim != nil && *g.Replicas <= 1 || w.set().Status.Formed == nil {
			g.Replicas = new(max(*g.Replicas, 3))
		}
	})
	s.withdrawOthers()
}

// withdrawOthers has people do what requests for members of a role that they do not have any more say: they delete them.
func (s *setSite) withdrawOthers() {
	set := s.world.set()
	if set == nil {
		return
	}
	for _, q := range list[*v1alpha1.ReplacementRequest](s.world.store, replaces) {
		if q.Spec.Member.Role != s.groupOf(set, q.Spec.Member.ID).Role && !q.Status.Over() {
			s.world.note("owner: deletes request %s for a member of role %s", q.Name, q.Spec.Member.Role)
			s.world.store.remove(q)
		}
	}
}

// freeNodes has all machines that are there take pods, and others stand in for those that are gone for good.
func (s *setSite) freeNodes() {
	w := s.world
	for _, m := range s.pool {
		if node, ok := w.store.get(nodes, client.ObjectKey{Name: m.node}).(*corev1.Node); ok {
			node = duplicate(node)
			node.Spec.Taints, node.Spec.Unschedulable = nil, node.Spec.Unschedulable && drained(node)
			w.store.put(node)
		}
		if m.destroyed && !m.replaced && len(s.pool) < mostMachines {
			m.replaced = true
			if err := s.addMachine(); err != nil {
				w.fail("SIMULATOR", "adding a machine: %v", err)
			}
		}
	}
}

// takeOut has people do what the rules of etcd's members say where several are lost for good: they take them off the list of members.
func (s *setSite) takeOut() {
	var gone []string
	for _, m := range s.pool {
		if m.destroyed && s.sim != nil {
			gone = append(gone, slices.DeleteFunc(append(s.disksOn(m), s.unbegunOn(m)...), func(id string) bool { return !s.sim.Votes(id) })...)
		}
	}
	if len(gone) > 1 && s.sim.TakeOut(gone[0]) {
		s.world.note("owner: takes %s off the list of members", gone[0])
	}
}

// unbegunOn are the members whose disks are on a machine, and have nothing on them yet.
func (s *setSite) unbegunOn(m *machine) []string {
	var all []string
	for _, claim := range list[*corev1.PersistentVolumeClaim](s.world.store, claims) {
		id := claim.Labels[v1alpha1.MemberIDLabel]
		if volume := claim.Spec.VolumeName; volume != "" && s.disks[volume] == m && s.data[id] == "" {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// mostMachines bounds the machines of a set.
const mostMachines = 16

// settleFormed lets a set form its system before anything goes wrong.
func (s *setSite) settleFormed() {
	w := s.world
	w.calm = true
	for range 30 {
		if set := w.set(); rests(set) || w.failed() {
			break
		}
		w.settle(5 * time.Second)
	}
	w.calm = false
}
