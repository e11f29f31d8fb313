package histories

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// setController is the name of the controller of MemberSets.
const setController = "memberset"

// setAccount is what a history itself knows of its set.
type setAccount struct {
	last    *v1alpha1.MemberSet  // that there was
	disks   map[string]*machine  // by volume
	data    map[string]string    // the volume on which the process of a member has begun, by id
	given   map[string]bool      // ids that there were
	whole   map[string]time.Time // since when members have done their work
	avoid   map[string][]string  // the nodes on which the successor of a member must not be, by id
	claimed map[string][]string  // the nodes that a member avoids by what Usher first wrote of it, by id
	was     map[string]string    // the node on which a member was last
	began   map[string]bool      // members that Usher has begun to remove
	keeps   time.Time            // since when volumes are to stay; zero: they are not
	formed  time.Time            // since when the set says that its members have formed their system; zero: it does not
	writes  int                  // of the set's controller
	rewrote bool                 // a set was deleted
}

func newSetAccount() setAccount {
	return setAccount{
		disks: map[string]*machine{}, data: map[string]string{}, given: map[string]bool{}, whole: map[string]time.Time{}, avoid: map[string][]string{}, claimed: map[string][]string{}, was: map[string]string{},
		began: map[string]bool{},
	}
}

// wrote takes note of a set as it is stored, and checks the status that Usher has written: no id is given twice.
func (s *setSite) wrote(after *v1alpha1.MemberSet, looked time.Time) {
	fresh := map[string]bool{}
	listed := map[string]bool{}
	for i := range after.Status.Members {
		id := after.Status.Members[i].ID
		listed[id] = true
		if before := s.last; before != nil && before.UID == after.UID && slices.ContainsFunc(before.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id }) {
			continue
		}
		if s.given[id] && (!s.rewrote || s.remembered(id, looked)) {
			s.world.fail("SET", "id %s is given, and there was a member of it before", id)
		}
		s.given[id], fresh[id], s.claimed[id] = true, true, after.Status.Members[i].AvoidNodes
	}
	s.succeed(after, fresh, looked)
	for id := range s.began {
		if !listed[id] {
			delete(s.began, id)
			delete(s.world.safety.let, id)
		}
	}
	s.keep(after)
}

// succeed notes of a member that was written down which one it is the successor of: of several, each is that of one. One that has joined by
// the same write may have been that successor.
func (s *setSite) succeed(after *v1alpha1.MemberSet, fresh map[string]bool, looked time.Time) {
	joins := map[string]int{} // by role
	joined := map[string]bool{}
	members := after.Status.Members
	if s.last != nil {
		members = slices.Concat(members, s.last.Status.Members)
	}
	for i := range members {
		if id := members[i].ID; members[i].State == v1alpha1.MemberJoining && !joined[id] {
			joined[id] = true
			joins[s.roleOfID(id)]++
		}
	}
	for id := range fresh {
		if nodes := s.predecessors(s.roleOfID(id), looked); joins[s.roleOfID(id)] == 1 && len(nodes) == 1 {
			s.avoid[id] = nodes
		}
	}
}

// remembered reports whether something is there of a member that was there when Usher began to look.
func (s *setSite) remembered(id string, looked time.Time) bool {
	for _, object := range []client.Object{s.world.store.get(pods, client.ObjectKey{Namespace: namespace, Name: id}), s.world.store.get(claims, claimKey(id))} {
		if object != nil && object.GetCreationTimestamp().Time.Before(looked.Truncate(time.Second)) {
			return true
		}
	}
	return false
}

// keep remembers a set.
func (s *setSite) keep(set *v1alpha1.MemberSet) {
	s.last = set
	switch {
	case set.Status.Formed == nil:
		s.formed = time.Time{}
	case s.formed.IsZero():
		s.formed = time.Now()
	}
	switch {
	case set.Spec.Removal.VolumeClaims == v1alpha1.VolumeClaimsDelete:
		s.keeps = time.Time{}
	case s.keeps.IsZero():
		s.keeps = time.Now()
	}
}

// predecessors are the nodes of members of a role for whose replacement a request stood when Usher began to look, where the set has seen the pods there: between two looks one
// can come to a node and be gone. Where one was made or has gone since it is not known whether Usher has seen it: then there are none. One that has a successor already, also
// one that has joined, gets no other: the next is for growth or in another's place.
func (s *setSite) predecessors(role string, looked time.Time) []string {
	if slices.ContainsFunc(s.world.store.events[replaces], func(e event) bool { return e.after == nil && !e.gone.Before(looked) }) {
		return nil
	}
	var nodes []string
	for _, q := range list[*v1alpha1.ReplacementRequest](s.world.store, replaces) {
		id := q.Spec.Member.ID
		known := s.entryOf(id)
		switch {
		case known == nil || q.Status.Over() || s.roleOfID(id) != role:
		case !q.CreationTimestamp.Time.Before(looked.Truncate(time.Second)) || q.DeletionTimestamp != nil || known.Node == "" || known.Node != s.was[id]:
			return nil
		case !s.succeeded(q, known.Node):
			nodes = append(nodes, known.Node)
		}
	}
	return nodes
}

// succeeded reports whether a member that was written down for a request, on this node, is in the set.
func (s *setSite) succeeded(q *v1alpha1.ReplacementRequest, node string) bool {
	return s.last != nil && slices.ContainsFunc(s.last.Status.Members, func(m v1alpha1.SetMember) bool {
		return slices.Contains(s.claimed[m.ID], node) && !m.StartTime.Before(&q.CreationTimestamp)
	})
}

// checkBound: no pod of a member that has not done its work yet comes to the node on which one was that it is the successor of.
func (s *setSite) checkBound(pod *corev1.Pod, m *machine) {
	if slices.Contains(s.avoid[pod.Name], m.node) && !s.hasJoined(pod.Name) {
		s.world.fail("SET", "%s, which is the successor of a member on %s, is put there", pod.Name, m.node)
	}
	s.was[pod.Name] = m.node
}

// hasJoined reports whether a member has ever done its work.
func (s *setSite) hasJoined(id string) bool {
	works := s.isPlain() && s.served[id] || s.fdb != nil && s.fdb.Works(id) || s.sim != nil && s.sim.Votes(id) && s.sim.Ran(id)
	if works && s.whole[id].IsZero() {
		s.whole[id] = time.Now()
	}
	return !s.whole[id].IsZero()
}

// entryOf is what the set's status says of a member; nil: it is not there.
func (s *setSite) entryOf(id string) *v1alpha1.SetMember {
	set := s.world.set()
	if set == nil {
		return nil
	}
	at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return &set.Status.Members[at]
}

// checkMade: nothing is made of a member that is not written down.
func (s *setSite) checkMade(id, what string) {
	if set := s.world.set(); s.entryOf(id) == nil && set != nil && set.UID == s.last.UID && !s.rewrote {
		s.world.fail("SET", "%s is made, and the status does not have member %s", what, id)
	}
}

// checkGoes: what a member has is taken away only once its set has written down that it removes it, for a request that lets it, while the policy's status says so,
// and of one member at a time, but for those of which only what Kubernetes removes is left. What happened since Usher began to look cannot be known.
func (s *setSite) checkGoes(id, what string, looked time.Time) {
	w := s.world
	entry := s.entryOf(id)
	if entry == nil || entry.Removal == nil || entry.Removal.Step != v1alpha1.RemovalRemoving {
		if !s.rewrote {
			w.fail("SET", "%s, and the set does not say that it removes %s", what, id)
		}
		return
	}
	if q := w.requestWhere(looked, func(q *v1alpha1.ReplacementRequest) bool {
		return q.Spec.Member.ID == id && (q.Status.Step == v1alpha1.ReplacementRemoving || waitsAgain(q, looked))
	}); q == nil && !w.erased[entry.Removal.RequestUID] && !s.began[id] {
		w.fail("SET", "%s, and no request lets %s go", what, id)
	}
	if !w.isReplaced(id) && !w.erased[entry.Removal.RequestUID] && !s.began[id] {
		w.fail("PERMIT", "%s, and no policy's status says that %s is replaced", what, id)
	}
	s.checkAlone(entry, what)
	s.began[id] = true
}

// checkAlone: no other member is being removed, but for those of plain pods in the same zone, and those that have left with their pods: what is left of one costs no other.
func (s *setSite) checkAlone(entry *v1alpha1.SetMember, what string) {
	if s.ends(entry.ID) {
		return
	}
	for other := range s.began {
		if other != entry.ID && s.entryOf(other) != nil && (s.sim != nil || s.entryOf(other).Zone != entry.Zone) && !s.ends(other) {
			s.world.fail("SET", "%s while %s is being removed", what, other)
		}
	}
}

// ends reports whether a member has left its system, and its pod is gone or terminates.
func (s *setSite) ends(id string) bool {
	pod := s.world.pod(id)
	return (pod == nil || pod.DeletionTimestamp != nil) && (s.sim == nil || !s.sim.Listed(id))
}

// waitsAgain reports whether a request was taken back to wait since Usher began to look: it does not wait once it has seen that its set has begun.
func waitsAgain(q *v1alpha1.ReplacementRequest, looked time.Time) bool {
	return q.Status.Step == v1alpha1.ReplacementWaiting && q.Status.Predecessor != nil && q.Status.StepTime != nil && !q.Status.StepTime.Time.Before(looked.Truncate(time.Second))
}

// checkPodGoes: Usher deletes only pods that have ended, those of members that have not done their work yet, to make them of another template, and those of members that
// leave and that their system's list does not have.
func (s *setSite) checkPodGoes(r *removal, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodFailed || s.madeAnew(r, pod) {
		return
	}
	s.checkGoes(pod.Name, "pod "+pod.Name+" is deleted", r.looked)
	if collected := s.rewrote && s.entryOf(pod.Name) == nil; s.sim != nil && s.sim.Listed(pod.Name) && !collected { // with its set, if not by what that has sent
		s.world.fail("SET", "pod %s is deleted, which is on the list of members", pod.Name)
	}
}

// madeAnew reports whether the set deletes the pod of a member that has not done its work yet by what it knows, which it makes of another template. Before it knows that
// its members have formed their system it knows that of none, and leaves those alone whose pods are Ready, but for those that form theirs only once they are asked to:
// where the others have lost the file by which they do, the pods of marked ones go as well.
func (s *setSite) madeAnew(r *removal, pod *corev1.Pod) bool {
	entry, unformed := s.entryOf(pod.Name), s.formed.IsZero() || !s.formed.Before(r.looked)
	set := s.world.set()
	unasked := s.fdb != nil && unformed && set != nil && set.Status.FormRequestTime == nil
	switch {
	case r.user != self || !r.delete || entry == nil || entry.Removal != nil && !unasked:
		return false
	case unformed:
		return !isReady(pod) || unasked
	}
	return s.sim == nil && entry.State == v1alpha1.MemberJoining || !s.hasJoined(pod.Name) || !s.whole[pod.Name].Before(r.looked)
}

// checkClaimGoes: a claim is deleted once nothing uses it, and its volume is kept where volumes are to stay.
func (s *setSite) checkClaimGoes(claim *corev1.PersistentVolumeClaim, looked time.Time) {
	w, id := s.world, claim.Labels[v1alpha1.MemberIDLabel]
	s.checkGoes(id, "claim "+claim.Name+" is deleted", looked)
	if w.processRuns(id) {
		w.fail("SET", "claim %s is deleted, and a process of %s runs", claim.Name, id)
	}
	if s.fdb != nil && s.fdb.Serving() && s.fdb.LastCopy(id) {
		w.fail("SAFETY", "claim %s is deleted, and what is on its volume is on no other", claim.Name)
	}
	volume, _ := w.store.get(volumes, volumeKey(claim)).(*corev1.PersistentVolume)
	if volume != nil && !s.keeps.IsZero() && s.keeps.Before(looked) && volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		w.fail("SET", "claim %s is deleted, and its volume goes with it, which is to stay", claim.Name)
	}
}

// checkVolumeGoes: no volume goes whose member is on the list.
func (s *setSite) checkVolumeGoes(volume *corev1.PersistentVolume) {
	id := strings.TrimPrefix(volume.Spec.ClaimRef.Name, volumeName+"-")
	if s.sim != nil && s.sim.Listed(id) {
		s.world.fail("SET", "volume %s of %s goes, which is on the list of members", volume.Name, id)
	}
}

// checkExpelled: a member is taken off the list of etcd for a request that lets it, and while the others do not need it. An accident just before may not have
// been seen.
func (s *setSite) checkExpelled(id string, looked time.Time) {
	w := s.world
	s.checkGoes(id, id+" is taken off the list of members", looked)
	why := ""
	if lose, because := s.sim.WouldLoseWithDisk(id); lose {
		why = because
	}
	if why != "" && w.safety.accident.Add(maxAge).Before(time.Now()) {
		w.fail("SAFETY", "%s is taken off the list of members, and %s", id, why)
	}
	w.safety.excused = w.safety.excused || why != ""
}

// begin starts the process of a member of etcd or FoundationDB with the disk that it has. With an empty one it does what it is given: one that has had another must not.
func (s *setSite) begin(id string) {
	w, disk := s.world, s.diskOf(id)
	known, ran := s.data[id]
	s.data[id] = disk
	switch {
	case s.fdb != nil && (!ran || known == disk):
		s.up[id], s.waits[id] = true, time.Now()
		s.takeFile(id)
		return
	case ran && known == disk:
		s.sim.Start(id)
		return
	case ran:
		w.fail("SET", "%s begins with an empty disk, and has begun with another", id)
		return
	}
	if env(w.store.pod(id), "ETCD_INITIAL_CLUSTER_STATE") != "new" {
		s.sim.Start(id)
		return
	}
	var peers []string
	for peer := range strings.SplitSeq(env(w.store.pod(id), "ETCD_INITIAL_CLUSTER"), ",") {
		name, _, _ := strings.Cut(peer, "=")
		peers = append(peers, name)
	}
	if !s.sim.Form(id, peers) {
		w.fail("SET", "%s begins a system with %s, and there is one", id, peers)
	}
}

// startable reports whether a process of a member does not end at once: the list has it, or it forms the system.
func (s *setSite) startable(id string) bool {
	if s.sim == nil || s.sim.Listed(id) {
		return true
	}
	_, ran := s.data[id]
	return !ran && env(s.world.store.pod(id), "ETCD_INITIAL_CLUSTER_STATE") == "new"
}

// diskOf is the volume of a member's claim.
func (s *setSite) diskOf(id string) string {
	if claim := s.world.claim(id); claim != nil {
		return claim.Spec.VolumeName
	}
	return ""
}

func env(pod *corev1.Pod, name string) string {
	if pod == nil {
		return ""
	}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// rests reports whether a set is Ready, at its newest spec.
func rests(set *v1alpha1.MemberSet) bool {
	ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == "True" && ready.ObservedGeneration == set.Generation
}

// checkSet: in peace a set becomes Ready, or says what it waits for where its system was lost or what is left of an earlier one is in its way; and nothing is written
// without end.
func (w *world) checkSet() {
	s := w.setSite()
	if s == nil || w.failed() {
		return
	}
	for i := range s.patience() {
		if set := w.set(); set == nil || rests(set) || w.failed() {
			break
		}
		w.replaceDestroyed()
		s.takeOut()
		s.includeByHand()
		s.freeNodes()
		if s.fdb != nil && i%10 == 9 {
			w.editSet(s.addSpare)
		}
		w.settle(30 * time.Second)
	}
	if s.fdb != nil {
		s.includeByHand()
	}
	set := w.set()
	if set == nil {
		s.checkCollected()
		return
	}
	said, _ := json.Marshal(set.Status) //nolint:errchkjson // it was read from JSON
	w.note("set: %s", said)
	lost := s.rewrote || s.gaveUp()
	switch {
	case !rests(set) && len(set.Status.Blockers) == 0:
		w.fail("LIVENESS", "the set is not Ready, and says nothing that it waits for")
	case !rests(set) && !lost:
		w.fail("LIVENESS", "the set is not Ready, and its system serves: %+v", set.Status.Blockers)
	}
}

// patience is for how many half minutes a set may make up for what has happened: one of FoundationDB waits for minutes for what is missing.
func (s *setSite) patience() int {
	if s.fdb != nil {
		return 60
	}
	return 20
}

// gaveUp reports whether people have to bring the system of a set back. A process of FoundationDB that is away cannot be missed as a rule, and comes back with what
// it has.
func (s *setSite) gaveUp() bool {
	if s.fdb != nil {
		return s.ruined || !s.fdb.Serving()
	}
	return s.world.safety.excused || s.sim != nil && !s.sim.Serving()
}

// reworded reports whether a patch of a set's status says of what it waits for only in other words, as the scheduler does, whose words are not watched: a set that rests is
// looked at once a minute. At a look that makes something anew that is not watched it may say something else.
func reworded(object client.Object, p part, body []byte, look *unwokenLook) bool {
	var patch struct {
		Status map[string][]v1alpha1.ReplacementBlocker
	}
	set, is := object.(*v1alpha1.MemberSet)
	if !is || p != status || json.Unmarshal(body, &patch) != nil || len(patch.Status) != 1 {
		return false
	}
	blockers, only := patch.Status["blockers"]
	return only && (look != nil && look.made || slices.EqualFunc(blockers, set.Status.Blockers, func(a, b v1alpha1.ReplacementBlocker) bool { return a.Reason == b.Reason }))
}

// beyondUndo reports whether a step is not undone in the time that a history has: it was begun for a member that its set has removed, which never comes back, and is
// forgotten after a day; or its system is lost to those who do not bring back what people have to.
func (w *world) beyondUndo(step *v1alpha1.PreparationStatus) bool {
	s := w.setSite()
	if s == nil {
		return false
	}
	return s.entryOf(step.ID) == nil && step.State == v1alpha1.PreparationBegun || s.fdb != nil && s.gaveUp()
}

// checkQuiet: what is written to a set comes to an end.
func (s *setSite) checkQuiet() {
	for range 10 {
		before := s.writes
		if s.world.settle(time.Minute); s.writes == before || s.world.failed() {
			return
		}
	}
	s.world.fail("HOT", "the controller of the set has written in each of 10 minutes of peace")
}

// checkCollected: of a set that is gone its pods go, and its claims stay.
func (s *setSite) checkCollected() {
	w := s.world
	w.settle(2 * time.Minute)
	for _, pod := range list[*corev1.Pod](w.store, pods) {
		if !w.machines[pod.Name].destroyed {
			w.fail("LIVENESS", "pod %s of the set that is gone is still there", pod.Name)
		}
	}
}
