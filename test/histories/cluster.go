package histories

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

func keyOf(object client.Object) snapshot.Key { return client.ObjectKeyFromObject(object) }

// life is where a member's pod is between two of its deletions.
type life string

const (
	runs    life = ""        // the pod is there, and its process runs or has crashed
	stopped life = "stopped" // the pod terminates, and its process has ended
	missing life = "missing" // there is no pod
	created life = "created" // the pod is there, and its process has not begun
)

// ghost is a process whose pod was taken away by force: the kubelet has not ended it.
type ghost struct{ ends time.Time }

// cluster is what kubelets, StatefulSets, ReplicaSets, operators and the garbage collector may do next.
func (w *world) cluster() []option {
	var all []option
	for _, p := range w.site.members() {
		if next := w.progress(p); next != nil {
			all = append(all, option{2, next})
		}
	}
	for _, next := range w.made() {
		all = append(all, option{2, next})
	}
	return append(all, option{1, func() { w.store.collect() }})
}

// progress is the next thing that happens to a member's pod by itself, nil if that is nothing.
func (w *world) progress(p planned) func() {
	if s := w.setSite(); s != nil {
		return s.progress(p)
	}
	pod := w.store.pod(p.pod)
	ghost, haunted := w.ghosts[p.pod]
	over := haunted && !time.Now().Before(ghost.ends)
	switch {
	case w.protected(p.pod) != nil:
		return w.protected(p.pod)
	case w.collectOrphan(pod) != nil:
		return w.collectOrphan(pod)
	case pod == nil && w.makesNone[p.pod]:
		return nil
	case pod == nil && !haunted && w.inDeployment(p.role):
		return func() { w.retire(p) }
	case w.lost(p.pod) && pod == nil && w.inSet(p.pod):
		return func() { w.recreate(p) }
	case w.lost(p.pod):
		return w.collectLost(pod)
	case pod != nil && pod.Spec.NodeName == "" && (!over || w.bind(pod) != nil):
		return w.bind(pod)
	case over:
		return func() { w.exorcise(p) }
	case pod == nil && w.inDeployment(p.role):
		return nil
	case pod == nil:
		return func() { w.recreate(p) }
	case pod.Status.Phase == corev1.PodFailed:
		return func() {
			w.note("statefulset: pod %s (%s), which has failed, is deleted", p.pod, pod.UID)
			w.store.drop(pods, keyOf(pod))
			w.podLives[p.pod] = missing
		}
	}
	return w.tend(p, pod, haunted)
}

// tend is what a kubelet does next with a pod that is there; nil: nothing. Haunted: a process of a former pod of the name still runs.
func (w *world) tend(p planned, pod *corev1.Pod, haunted bool) func() {
	switch {
	case pod.DeletionTimestamp != nil && w.podLives[p.pod] == stopped:
		return func() {
			w.note("kubelet: pod %s (%s) is gone", p.pod, pod.UID)
			w.store.drop(pods, keyOf(pod))
			w.podLives[p.pod] = missing
		}
	case pod.DeletionTimestamp != nil && !haunted && !time.Now().Before(w.ends[pod.UID]):
		return func() { w.terminate(p) }
	case w.podLives[p.pod] == created && !haunted && pod.DeletionTimestamp == nil:
		return func() { w.run(p) }
	}
	return nil
}

// terminate ends the process of a pod that terminates.
func (w *world) terminate(p planned) {
	w.note("kubelet: the process of %s ends", p.pod)
	w.site.stop(p.pod)
	w.podLives[p.pod] = stopped
	w.safety.changed(w, natural, p.pod+" has ended")
}

// relieve has a kubelet end a member's pod for want of something on its node: the object stays, and has failed.
func (w *world) relieve(name string) {
	pod := w.store.pod(name)
	if pod == nil || pod.DeletionTimestamp != nil || w.podLives[name] != runs || w.lost(name) {
		return
	}
	w.note("kubelet: evicts %s (%s): the node was low on resource: memory", name, pod.UID)
	w.safety.excused = w.safety.excused || w.wouldLose(name) != ""
	w.site.stop(name)
	w.podLives[name] = stopped
	delete(w.crashed, name)
	failed := duplicate(pod)
	failed.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	w.store.put(failed)
	w.safety.changedBy(w, accident, "a kubelet evicted "+name, pod)
}

// exorcise ends a process that has outlived its pod.
func (w *world) exorcise(p planned) {
	w.note("kubelet: the process that %s has left behind ends", p.pod)
	delete(w.ghosts, p.pod)
	w.site.stop(p.pod)
	w.safety.changed(w, natural, "what was left of "+p.pod+" has ended")
}

// recreate is the work of the pod's controller.
func (w *world) recreate(p planned) {
	grace := int64(30)
	if w.odds.abrupt > 0 {
		grace = 0
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: p.pod, Labels: map[string]string{"role": p.role, "pod": p.pod},
			OwnerReferences: w.owners(p),
		},
		Spec:   corev1.PodSpec{NodeName: w.schedule(p.pod), TerminationGracePeriodSeconds: &grace},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if w.dice.IntN(100) < w.odds.foreign {
		pod.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: foreignResponder, Priority: new(int32(evictionrequest.ResponderPriority + 1))}}
	}
	if policy := w.labelOf(p); policy != "" && w.odds.unlabelled <= w.dice.IntN(100) {
		pod.Labels[v1alpha1.PolicyLabel] = policy
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // in place of those of its role, which admission sets with the label
	}
	if s := w.lockSite(); s != nil {
		s.place(p, pod)
	}
	if err := w.store.create(pod); err != nil {
		w.fail("SIMULATOR", "creating %s: %v", p.pod, err)
	}
	w.note("%s: pod %s is created (%s)", strings.ToLower(pod.OwnerReferences[0].Kind), p.pod, pod.UID)
	w.podLives[p.pod] = created
}

// owners are those of a pod: its StatefulSet or ReplicaSet.
func (w *world) owners(p planned) []metav1.OwnerReference {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: setOf(p.pod), UID: "sts", Controller: new(true)}
	if w.waits(p.role) && w.lockSite().daemon || w.openStack() != nil && w.openStack().load {
		owner.Kind, owner.UID = "DaemonSet", "ds"
	}
	if w.inDeployment(p.role) {
		owner.Kind, owner.UID = "ReplicaSet", "rs"
	}
	return []metav1.OwnerReference{owner}
}

// disown is a StatefulSet that is deleted without its pods, of which one is seen, or that takes it over anew.
func (w *world) disown() { w.disownPod(w.somePod()) }

func (w *world) disownPod(p planned) {
	pod := w.store.pod(p.pod)
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	pod = duplicate(pod)
	if len(pod.OwnerReferences) > 0 {
		if w.locks != nil && ofDaemonSet(pod) {
			w.locks.disowned[pod.UID] = time.Now()
		}
		pod.OwnerReferences = nil
	} else {
		pod.OwnerReferences = w.owners(p)
	}
	w.note("statefulset: owns %s: %t", pod.Name, len(pod.OwnerReferences) > 0)
	w.store.put(pod)
}

func (w *world) run(p planned) {
	wiped := p.disposable && !w.calm && w.dice.IntN(100) < w.odds.wiped
	delete(w.podLives, p.pod)
	if w.expelled(p.pod) {
		w.note("kubelet: the process of %s ends at once: its member was removed", p.pod)
		w.crashed[p.pod] = true
		if s := w.setSite(); s != nil {
			s.retries[p.pod] = true
		}
		w.probe(p.pod)
		return
	}
	w.note("kubelet: the process of %s begins", p.pod)
	if w.inSet(p.pod) && !w.hasVolume(p.pod) {
		w.local().wipe(p.pod)
	}
	w.site.start(p.pod, wiped)
	w.succeeds(p)
	delete(w.replacing, p.pod)
	delete(w.crashed, p.pod)
	delete(w.safety.let, p.pod)
	w.probe(p.pod)
	w.safety.changed(w, natural, p.pod+" is back")
}

// probe has the kubelet write whether a member's pod is Ready.
func (w *world) probe(name string) {
	pod := w.store.pod(name)
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	ready := corev1.ConditionFalse
	if w.podLives[name] == runs && !w.crashed[name] && !w.lost(name) {
		ready = corev1.ConditionTrue
	}
	if s := w.setSite(); s != nil {
		if s.served[name] = s.serves(name); !s.served[name] || pod.Spec.NodeName == "" {
			ready = corev1.ConditionFalse
		}
	}
	pod = duplicate(pod)
	if w.podLives[name] == runs {
		pod.Status.Phase = corev1.PodRunning
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
	w.store.put(pod)
}

// begins has a pod terminate: its process may take its time.
func (w *world) begins(pod *corev1.Pod) {
	ending := duplicate(pod)
	at := metav1.NewTime(time.Now().Add(time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second))
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &at, pod.Spec.TerminationGracePeriodSeconds
	w.ends[pod.UID] = time.Now().Add(w.within(time.Duration(w.odds.linger) * time.Second))
	w.store.put(ending)
}

// haunt takes a pod away by force: its process outlives it, unless it has ended already.
func (w *world) haunt(pod *corev1.Pod) {
	w.store.drop(pods, keyOf(pod))
	state := w.podLives[pod.Name]
	w.podLives[pod.Name] = missing
	if _, haunted := w.ghosts[pod.Name]; haunted || state == stopped || state == created || w.crashed[pod.Name] {
		return
	}
	ends := w.ends[pod.UID]
	if ends.IsZero() {
		ends = time.Now().Add(w.within(longestGhost))
	}
	w.ghosts[pod.Name] = ghost{ends}
}

// longestGhost is how long a kubelet may take to end what has no pod any more.
const longestGhost = time.Minute

// within draws a time where the scheduler's dice may not be used.
func (w *world) within(most time.Duration) time.Duration {
	w.draws++
	return time.Duration(mix(w.seed+1, w.draws)%uint64(most/time.Second+1)) * time.Second
}

// lingers reports whether a process of the pod runs that is about to end.
func (w *world) lingers(pod string) bool {
	object := w.store.pod(pod)
	_, haunted := w.ghosts[pod]
	return haunted || object != nil && object.DeletionTimestamp != nil
}
