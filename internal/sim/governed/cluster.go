package governed

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
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

// cluster is what kubelets, the StatefulSet and the garbage collector may do next.
func (w *world) cluster() []option {
	var all []option
	for _, p := range w.site.members() {
		if next := w.progress(p); next != nil {
			all = append(all, option{2, next})
		}
	}
	return append(all, option{1, func() { w.store.collect() }})
}

// progress is the next thing that happens to a member's pod by itself, nil if that is nothing.
func (w *world) progress(p planned) func() {
	pod := w.store.pod(p.pod)
	switch {
	case pod == nil:
		return func() { w.recreate(p) }
	case pod.DeletionTimestamp != nil && w.lives_[p.pod] != stopped:
		return func() {
			w.note("kubelet: the process of %s ends", p.pod)
			w.site.stop(p.pod)
			w.lives_[p.pod] = stopped
			w.safety.changed(w, natural, p.pod+" has ended")
		}
	case pod.DeletionTimestamp != nil:
		return func() {
			w.note("kubelet: pod %s (%s) is gone", p.pod, pod.UID)
			w.store.drop(pods, keyOf(pod))
			w.lives_[p.pod] = missing
		}
	case w.lives_[p.pod] == created:
		return func() { w.run(p) }
	}
	return nil
}

// recreate is the StatefulSet's work.
func (w *world) recreate(p planned) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: p.pod, Labels: map[string]string{"role": p.role},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "sts", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n-" + p.pod},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if len(w.store.objects[policies]) > 0 && w.odds.unlabelled <= w.dice.IntN(100) {
		pod.Labels[v1alpha1.PolicyLabel] = firstPolicy
	}
	if err := w.store.create(pod); err != nil {
		w.fail("SIMULATOR", "creating %s: %v", p.pod, err)
	}
	w.note("statefulset: pod %s is created (%s)", p.pod, pod.UID)
	w.lives_[p.pod] = created
}

func (w *world) run(p planned) {
	wiped := p.disposable && !w.calm && w.dice.IntN(100) < w.odds.wiped
	w.note("kubelet: the process of %s begins", p.pod)
	w.site.start(p.pod, wiped)
	delete(w.lives_, p.pod)
	delete(w.crashed, p.pod)
	delete(w.safety.let, p.pod)
	w.safety.changed(w, natural, p.pod+" is back")
}

// firstPolicy governs the members; secondPolicy claims them too where it is there.
const (
	firstPolicy  = "p"
	secondPolicy = "q"
)

func (w *world) createPolicy(name string) {
	spec := w.site.spec()
	spec.System.MaxAge = metav1.Duration{Duration: maxAge}
	spec.System.Timeout = metav1.Duration{Duration: 5 * time.Second}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := w.store.create(policy); err != nil {
		w.note("  answered: %v", err)
	}
}

func (w *world) policy(name string) *v1alpha1.EvictionPolicy {
	policy, _ := w.store.get(policies, snapshot.Key{Namespace: namespace, Name: name}).(*v1alpha1.EvictionPolicy)
	return policy
}

// editPolicy changes a policy's spec, as its owner does.
func (w *world) editPolicy(name string, edit func(*v1alpha1.EvictionPolicySpec)) {
	policy := w.policy(name)
	if policy == nil {
		return
	}
	policy = duplicate(policy)
	edit(&policy.Spec)
	policy.Generation++
	w.store.put(policy)
}

var _ = fmt.Sprint
