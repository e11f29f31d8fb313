package histories

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// stateful is a site whose members are in StatefulSets, with their disks in local volumes: one that loses its claim begins with an empty disk.
type stateful interface {
	site

	// wipe loses the disk of a member.
	wipe(pod string)
	// wouldLoseDisk says what would be lost with the disk of a member; "": nothing.
	wouldLoseDisk(pod string) string
	// sets are the roles whose members are in StatefulSets; true: with a volume each. A member without one goes to another node with its next pod where its
	// node is lost, and begins with nothing.
	sets() map[string]bool
	// container is what the template of a role's set has.
	container(role string) corev1.Container
	// expelled reports whether the system's list has no member that the data of a process could be, of one that has run before.
	expelled(pod string) bool
}

// local returns the site where its members have local volumes, nil where volumes go where their pods go.
func (w *world) local() stateful {
	s, ok := w.site.(stateful)
	if !ok || w.odds.replaced == 0 {
		return nil
	}
	return s
}

// hasVolume reports whether a member has a volume of its own.
func (w *world) hasVolume(pod string) bool {
	return w.local() != nil && w.local().sets()[w.roleOf(pod)]
}

// inSet reports whether a StatefulSet makes the pods of a member anew on another node.
func (w *world) inSet(pod string) bool {
	if w.local() == nil {
		return false
	}
	_, is := w.local().sets()[w.roleOf(pod)]
	return is
}

// provide has a policy say what makes the successors of members: StatefulSets, an operator, or ReplicaSets once their pods are deleted.
func provide(w *world, members []v1alpha1.MemberSelector) []v1alpha1.MemberSelector {
	for i := range members {
		switch {
		case w.odds.replaced == 0:
		case w.operates(members[i].Role):
			members[i].Provider, members[i].Controllers = w.operator.provider(), []string{operatorUser}
		case w.inDeployment(members[i].Role):
			members[i].Provider = &v1alpha1.Provider{DeletePod: &v1alpha1.DeletePodProvider{}}
		default:
			members[i].Provider = &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{VolumeClaims: v1alpha1.VolumeClaimsRetain}}
		}
	}
	return members
}

const volumeName = "data"

func volumeKey(claim *corev1.PersistentVolumeClaim) client.ObjectKey {
	return client.ObjectKey{Name: claim.Spec.VolumeName}
}

func claimKey(pod string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: volumeName + "-" + pod}
}

// setOf is the set of a pod's name.
func setOf(pod string) string {
	at := strings.LastIndex(pod, "-")
	if _, err := strconv.Atoi(pod[at+1:]); err != nil {
		return "db"
	}
	return pod[:at]
}

// deploySets creates the StatefulSets of members, and their volumes.
func (w *world) deploySets() error {
	site := w.local()
	if site == nil {
		return nil
	}
	count := map[string]int32{}
	for _, p := range site.members() {
		if w.inSet(p.pod) {
			count[p.role]++
		}
		if w.hasVolume(p.pod) {
			w.provision(p.pod)
		}
	}
	for _, p := range site.members() {
		if !w.inSet(p.pod) || !strings.HasSuffix(p.pod, "-0") {
			continue
		}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setOf(p.pod)}}
		set.Spec.Replicas = new(count[p.role])
		set.Spec.Template.Labels = map[string]string{"role": p.role}
		set.Spec.Template.Spec.Containers = []corev1.Container{site.container(p.role)}
		if w.hasVolume(p.pod) {
			set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: volumeName}}}
		}
		if err := w.store.create(set); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) claim(pod string) *corev1.PersistentVolumeClaim {
	claim, _ := w.store.get(claims, claimKey(pod)).(*corev1.PersistentVolumeClaim)
	return claim
}

// provision makes a claim for a member, with a volume on its node.
func (w *world) provision(pod string) {
	node := w.nodeKey(pod).Name
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimKey(pod).Name}}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	claim.Spec.VolumeName = "pv-" + node
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	if err := w.store.create(claim); err != nil {
		w.fail("SIMULATOR", "creating a claim: %v", err)
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
	if err := w.store.create(volume); err != nil {
		w.fail("SIMULATOR", "creating a volume: %v", err)
	}
}

// schedule returns the node on which a new pod of a member is to be, "" where it has to wait for the one that its volume is on. Without a
// claim it goes to another machine, with an empty disk.
func (w *world) schedule(pod string) string {
	switch claim := w.claim(pod); {
	case !w.hasVolume(pod):
		if w.inSet(pod) && w.lost(pod) {
			w.move(pod)
		}
	case claim == nil:
		w.move(pod)
		w.provision(pod)
	case claim.DeletionTimestamp != nil || w.lost(pod):
		return ""
	}
	return w.nodeKey(pod).Name
}

// move has the next pod of a member go to another machine.
func (w *world) move(pod string) {
	w.moved++
	w.machines[pod] = &machine{node: fmt.Sprintf("n-%s-%d", pod, w.moved), zone: w.zoneOf(pod), boots: 1}
	if err := w.createNode(pod); err != nil {
		w.fail("SIMULATOR", "creating a node: %v", err)
	}
	w.fresh[pod] = true
	w.note("scheduler: %s goes to %s, with an empty disk", pod, w.machines[pod].node)
}

// bind has the scheduler put a pod on a node that had none, nil where it has none.
func (w *world) bind(pod *corev1.Pod) func() {
	if s := w.lockSite(); s != nil {
		return s.bind(pod)
	}
	claim := w.claim(pod.Name)
	if claim == nil || claim.DeletionTimestamp != nil || w.lost(pod.Name) {
		return nil
	}
	return func() {
		bound := duplicate(pod)
		bound.Spec.NodeName = w.nodeKey(pod.Name).Name
		w.note("scheduler: binds %s (%s) to %s", pod.Name, pod.UID, bound.Spec.NodeName)
		w.store.put(bound)
	}
}

// protected takes a claim away that was deleted, once no pod on a node has it. Its volume stays or goes as it says.
func (w *world) protected(name string) func() {
	claim, pod := w.claim(name), w.store.pod(name)
	if claim == nil || claim.DeletionTimestamp == nil || pod != nil && pod.Spec.NodeName != "" {
		return nil
	}
	return func() {
		w.note("pvc-protection: claim %s is gone", claim.Name)
		w.store.drop(claims, client.ObjectKeyFromObject(claim))
		key := client.ObjectKey{Name: claim.Spec.VolumeName}
		volume, _ := w.store.get(volumes, key).(*corev1.PersistentVolume)
		if volume == nil {
			return
		}
		if !w.operates(w.roleOf(name)) && volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			w.fail("REPLACED", "volume %s goes with its claim, and its policy keeps it", volume.Name)
		}
		w.local().wipe(name)
	}
}

// destroy has a machine that has stopped never come back, with its disk. Sometimes its Node is deleted.
func (w *world) destroy() {
	pod := w.someMachine(func(m *machine) bool { return m.lost && !m.cut && !m.destroyed })
	site := w.local()
	if pod == "" || !w.hasVolume(pod) || site.wouldLoseDisk(pod) != "" && w.dice.IntN(8) > 0 {
		return
	}
	w.destroyMachine(pod)
	if w.dice.IntN(2) == 0 {
		w.deleteNode(pod)
	}
}

// destroyMachine has the machine of a member, which is lost, never come back, with its disk.
func (w *world) destroyMachine(pod string) {
	w.note("machine: %s is destroyed", w.nodeKey(pod).Name)
	w.safety.excused = w.safety.excused || w.local().wouldLoseDisk(pod) != ""
	w.machines[pod].destroyed = true
	w.local().wipe(pod)
	w.safety.changed(w, accident, w.nodeKey(pod).Name+" is destroyed")
}

// deleteNode is a person who says that a machine is gone for good.
func (w *world) deleteNode(pod string) {
	if w.store.get(nodes, w.nodeKey(pod)) != nil {
		w.note("owner: deletes node %s", w.nodeKey(pod).Name)
		w.store.drop(nodes, w.nodeKey(pod))
	}
}

// collectOrphan is the pod garbage collector, which takes away what is bound to a Node that is gone.
func (w *world) collectOrphan(pod *corev1.Pod) func() {
	if pod == nil || pod.Spec.NodeName == "" || w.store.get(nodes, client.ObjectKey{Name: pod.Spec.NodeName}) != nil {
		return nil
	}
	return func() {
		w.note("podgc: pod %s (%s), whose node is gone, is gone", pod.Name, pod.UID)
		w.store.drop(pods, keyOf(pod))
		w.podLives[pod.Name] = missing
	}
}

// expelled reports whether the process of a member ends at once, since its data is that of one that was taken off its system's list.
func (w *world) expelled(pod string) bool {
	if s := w.setSite(); s != nil {
		return !s.startable(pod)
	}
	return w.hasVolume(pod) && !w.fresh[pod] && w.local().expelled(pod)
}

// processRuns reports whether a process of a member runs, whatever its pod is.
func (w *world) processRuns(pod string) bool {
	_, haunted := w.ghosts[pod]
	return haunted || w.podLives[pod] == runs && !w.crashed[pod]
}

// checkClaimGoes: a claim is deleted only when no process can use its volume any more, when nothing is lost with the disk, and of no more members at
// a time than may be. What happened after the system was asked cannot be known.
func (w *world) checkClaimGoes(ctx context.Context, key snapshot.Key) {
	if claim, ok := w.store.get(claims, key).(*corev1.PersistentVolumeClaim); ok && w.setSite() != nil {
		w.setSite().checkClaimGoes(claim, lookedSince(ctx))
		return
	}
	pod := strings.TrimPrefix(key.Name, volumeName+"-")
	if w.processRuns(pod) {
		w.fail("REPLACED", "claim %s is deleted, and a process of %s runs", key.Name, pod)
	}
	w.checkDisk(pod, "claim "+key.Name+" is deleted")
	w.replacing[pod] = true
	w.checkOneAtATime("claim " + key.Name + " is deleted")
}

// mostReplaced is how many members may be replaced at a time.
func (w *world) mostReplaced() int {
	if w.repairing == nil || w.repairing.MaxInFlight == nil || w.repairing.MaxInFlight.Members == nil {
		return 1
	}
	return int(*w.repairing.MaxInFlight.Members)
}

// checkDisk fails where the disk of a member must not be lost.
func (w *world) checkDisk(pod, what string) {
	why := w.local().wouldLoseDisk(pod)
	recent := w.safety.accident.Add(maxAge + w.site.lag(w.roleOf(pod)))
	if why != "" && recent.Before(time.Now()) {
		w.fail("REPLACED", "%s, and %s", what, why)
	}
	w.safety.excused = w.safety.excused || why != ""
}

// destroyed are the members whose disks are lost for good.
func (w *world) destroyed() []string {
	var all []string
	for _, p := range w.site.members() {
		if w.machines[p.pod].destroyed {
			all = append(all, p.pod)
		}
	}
	return all
}
