package histories

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

var setKey = client.ObjectKey{Namespace: namespace, Name: firstPolicy}

// addMachine adds a machine on which pods can be.
func (s *setSite) addMachine() error {
	m := &machine{node: fmt.Sprintf("n-%d", len(s.pool)), zone: []string{"a", "b", "c"}[len(s.pool)%3], boots: 1}
	s.pool = append(s.pool, m)
	s.world.machines[m.node] = m
	defer delete(s.world.machines, m.node)
	return s.world.createNode(m.node)
}

// sharing are the members whose machine is that of one of them.
func (w *world) sharing(id string) []string {
	if _, shares := w.site.(shared); w.setSite() == nil && !shares {
		return []string{id}
	}
	var all []string
	for _, p := range w.site.members() {
		if w.machines[p.pod] == w.machines[id] {
			all = append(all, p.pod)
		}
	}
	return all
}

// accept is what the apiserver sets of what is created, and what admission labels.
func (s *setSite) accept(object client.Object) {
	switch o := object.(type) {
	case *corev1.Pod:
		grace := int64(30)
		if s.world.odds.abrupt > 0 {
			grace = 0
		}
		o.Spec.TerminationGracePeriodSeconds, o.Status.Phase = &grace, corev1.PodPending
		if policy := s.world.labelOf(planned{pod: o.Name, role: s.roleOfID(o.Name)}); policy != "" && s.world.within(99*time.Second) >= time.Duration(s.world.odds.unlabelled)*time.Second {
			o.Labels[v1alpha1.PolicyLabel] = policy
			o.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
	case *corev1.PersistentVolumeClaim:
		o.Finalizers = []string{"kubernetes.io/pvc-protection"}
	case *v1alpha1.EvictionPolicy:
		s.world.relax()
	}
}

// progress is the next thing that happens to a member's pod by itself, nil if that is nothing. Its controller is Usher.
func (s *setSite) progress(p planned) func() {
	w, pod := s.world, s.world.store.pod(p.pod)
	ghost, haunted := w.ghosts[p.pod]
	switch {
	case s.protected(p.pod) != nil:
		return s.protected(p.pod)
	case w.collectOrphan(pod) != nil:
		return w.collectOrphan(pod)
	case pod != nil && pod.Spec.NodeName == "":
		return s.schedule(pod)
	case w.lost(p.pod):
		return w.collectLost(pod)
	case haunted && !time.Now().Before(ghost.ends):
		return func() { w.exorcise(p) }
	case pod == nil:
		return nil
	}
	return w.tend(p, pod, haunted)
}

// protected takes a claim away that was deleted, once no pod on a node has it. Its volume stays or goes as that says.
func (s *setSite) protected(id string) func() {
	w := s.world
	claim, pod := w.claim(id), w.store.pod(id)
	if claim == nil || claim.DeletionTimestamp == nil || pod != nil && pod.Spec.NodeName != "" {
		return nil
	}
	return func() {
		w.note("pvc-protection: claim %s is gone", claim.Name)
		w.store.drop(claims, client.ObjectKeyFromObject(claim))
		volume, _ := w.store.get(volumes, client.ObjectKey{Name: claim.Spec.VolumeName}).(*corev1.PersistentVolume)
		if volume != nil && volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			s.checkVolumeGoes(volume)
			w.store.drop(volumes, client.ObjectKeyFromObject(volume))
		}
		if s.fdb != nil { // what is on a volume that stays is found by nothing any more
			s.fdb.Wipe(id)
		}
	}
}

// schedule has the scheduler find a node for a pod, or say that there is none; nil: it has said so.
func (s *setSite) schedule(pod *corev1.Pod) func() {
	w := s.world
	if pod.DeletionTimestamp != nil {
		return nil
	}
	fit := slices.DeleteFunc(slices.Clone(s.pool), func(m *machine) bool { return !s.fits(m, pod) })
	if len(fit) > 0 {
		return func() { s.bind(pod, s.choose(fit)) }
	}
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
		return nil
	}
	return func() {
		waits := duplicate(pod)
		waits.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node fits"}}
		w.note("scheduler: no node fits %s", pod.Name)
		w.store.put(waits)
	}
}

// choose draws a machine: mostly one with the fewest pods, and always such a one where the members are spread as those of FoundationDB have to be.
func (s *setSite) choose(fit []*machine) *machine {
	if s.fdb == nil && s.world.dice.IntN(3) == 0 {
		return fit[s.world.dice.IntN(len(fit))]
	}
	return slices.MinFunc(fit, func(a, b *machine) int { return len(s.on(a)) - len(s.on(b)) })
}

// on are the pods on a machine.
func (s *setSite) on(m *machine) []*corev1.Pod {
	return slices.DeleteFunc(list[*corev1.Pod](s.world.store, pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != m.node })
}

// fits reports whether a pod can be on a machine: by the node, by what the pod says of it, and by its volumes.
func (s *setSite) fits(m *machine, pod *corev1.Pod) bool {
	w := s.world
	node, _ := w.store.get(nodes, client.ObjectKey{Name: m.node}).(*corev1.Node)
	if node == nil || m.lost || node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}) {
		return false
	}
	if avoids(pod, m.node) {
		return false
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, _ := w.store.get(claims, client.ObjectKey{Namespace: namespace, Name: source.ClaimName}).(*corev1.PersistentVolumeClaim)
		if claim == nil || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" && s.disks[claim.Spec.VolumeName] != m {
			return false
		}
	}
	return true
}

// avoids reports whether each term of a pod's node affinity excludes a node.
func avoids(pod *corev1.Pod, node string) bool {
	if a := pod.Spec.Affinity; a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if !slices.ContainsFunc(term.MatchFields, func(f corev1.NodeSelectorRequirement) bool {
			return f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(f.Values, node)
		}) {
			return false
		}
	}
	return true
}

// bind puts a pod on a machine, with a volume there for each claim that has none.
func (s *setSite) bind(pod *corev1.Pod, m *machine) {
	w := s.world
	if claim := w.claim(pod.Name); claim != nil && claim.Spec.VolumeName == "" {
		s.provision(claim, m)
	}
	bound := duplicate(pod)
	bound.Spec.NodeName, bound.Status.Conditions = m.node, nil
	if s.fdb != nil {
		bound.Status.PodIP = s.address()
	}
	w.machines[pod.Name] = m
	w.note("scheduler: binds %s (%s) to %s", pod.Name, pod.UID, m.node)
	s.checkBound(pod, m)
	w.store.put(bound)
}

// provision makes a volume on a machine. Its disk stays there when it is gone.
func (s *setSite) provision(claim *corev1.PersistentVolumeClaim, m *machine) {
	w := s.world
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)}}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
	if err := w.store.create(volume); err != nil {
		w.fail("SIMULATOR", "creating a volume: %v", err)
	}
	s.disks[volume.Name] = m
	bound := duplicate(claim)
	bound.Spec.VolumeName = volume.Name
	w.store.put(bound)
}

// collect is the garbage collector, which takes away what only a set that is gone had. Admission is asked about pods.
func (s *setSite) collect() func() {
	w := s.world
	alive := map[types.UID]bool{}
	for _, k := range []kind{memberSets, policies} {
		for _, object := range w.store.objects[k] {
			alive[object.GetUID()] = true
		}
	}
	for _, k := range []kind{policies, services, replaces, pods} {
		for _, object := range sorted(w.store.objects[k]) {
			owners := object.GetOwnerReferences()
			if len(owners) == 0 || object.GetDeletionTimestamp() != nil || slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return alive[o.UID] }) {
				continue
			}
			if pod, ok := object.(*corev1.Pod); !ok {
				return func() { w.relax(); w.store.remove(object); w.relax() }
			} else if !s.sent[pod.UID] && !time.Now().Before(s.again) {
				return func() { s.collectPod(pod) }
			}
		}
	}
	return nil
}

func (s *setSite) collectPod(pod *corev1.Pod) {
	s.sent[pod.UID] = true
	s.world.spawn(func() {
		ctx, cancel := context.WithTimeout(s.world.ctx, 34*time.Second)
		defer cancel()
		if s.world.remove(ctx, &removal{
			user: "system:serviceaccount:kube-system:generic-garbage-collector", of: "gc", pod: pod.Name, uid: pod.UID, delete: true, excuse: "its set is deleted",
		}) != nil {
			s.again = time.Now().Add(5 * time.Second)
		}
		delete(s.sent, pod.UID)
	})
}

// made takes note of what Usher has created.
func (s *setSite) made(object client.Object) {
	switch o := object.(type) {
	case *corev1.Pod:
		s.checkMade(o.Name, "pod "+o.Name)
		s.world.podLives[o.Name] = created
		if s.world.machines[o.Name] == nil {
			s.world.machines[o.Name] = &machine{}
		}
		s.world.note("memberset: pod %s is created (%s)", o.Name, o.UID)
	case *corev1.PersistentVolumeClaim:
		s.checkMade(o.Labels[v1alpha1.MemberIDLabel], "claim "+o.Name)
	case *corev1.Service:
		s.checkMade(o.Name, "Service "+o.Name)
	case *v1alpha1.EvictionPolicy:
		s.world.relax()
	}
}
