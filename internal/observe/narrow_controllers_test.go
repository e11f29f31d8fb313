package observe_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/snapshot"
)

// control lets some of the controllers of a cluster act on what is there.
func (w *world) control() {
	for _, c := range []struct {
		name string
		act  func()
	}{
		{"kubelets", w.endPods},
		{"autoscalers", w.raiseToMinimum},
		{"deployment controller", w.scaleReplicaSets},
		{"pod controllers", w.replacePods},
		{"scheduler", w.schedule},
		{"readiness", w.getReady},
		{"disruption controller", w.countBudgets},
	} {
		if rapid.IntRange(0, 4).Draw(w.t, c.name) > 0 {
			c.act()
		}
	}
}

// endPods removes pods whose grace is over.
func (w *world) endPods() {
	for _, pod := range all[*corev1.Pod](w.apiserver, "pods") {
		if pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 && time.Now().After(pod.DeletionTimestamp.Time) && !w.once(5, "kubelet late") {
			w.remove("pods", keyOf(pod))
		}
	}
}

func (w *world) raiseToMinimum() {
	for _, a := range all[*autoscalingv2.HorizontalPodAutoscaler](w.apiserver, "horizontalpodautoscalers") {
		for _, d := range all[*appsv1.Deployment](w.apiserver, "deployments") {
			if d.Namespace == a.Namespace && d.Name == a.Spec.ScaleTargetRef.Name && *d.Spec.Replicas < *a.Spec.MinReplicas {
				change(w.apiserver, "deployments", d, func(d *appsv1.Deployment) {
					d.Generation++
					d.Spec.Replicas = new(*a.Spec.MinReplicas)
				})
			}
		}
	}
}

// replicaSetsOf returns the ReplicaSets of a Deployment, the newest last.
func (w *world) replicaSetsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	var of []*appsv1.ReplicaSet
	for _, rs := range all[*appsv1.ReplicaSet](w.apiserver, "replicasets") {
		if rs.Namespace == d.Namespace && len(rs.OwnerReferences) > 0 && rs.OwnerReferences[0].UID == d.UID {
			of = append(of, rs)
		}
	}
	number := func(rs *appsv1.ReplicaSet) int { n, _ := strconv.Atoi(rs.Annotations[revision]); return n }
	slices.SortFunc(of, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(number(a), number(b)) })
	return of
}

// scaleReplicaSets gives the newest ReplicaSet of each Deployment what the older ones lack; a rollout goes on by one pod at times.
func (w *world) scaleReplicaSets() {
	for _, d := range all[*appsv1.Deployment](w.apiserver, "deployments") {
		of := w.replicaSetsOf(d)
		if len(of) == 0 {
			continue
		}
		older := int32(0)
		for _, rs := range of[:len(of)-1] {
			n := min(*rs.Spec.Replicas, *d.Spec.Replicas-older)
			if n > 0 && !d.Spec.Paused && rapid.Bool().Draw(w.t, "rollout goes on") {
				n--
			}
			w.scaleReplicaSet(rs, n)
			older += n
		}
		w.scaleReplicaSet(of[len(of)-1], *d.Spec.Replicas-older)
		fresh := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas - older, Conditions: d.Status.Conditions}
		if fresh.ObservedGeneration != d.Status.ObservedGeneration || fresh.Replicas != d.Status.Replicas || fresh.UpdatedReplicas != d.Status.UpdatedReplicas {
			change(w.apiserver, "deployments", d, func(d *appsv1.Deployment) { d.Status = fresh })
		}
	}
}

func (w *world) scaleReplicaSet(rs *appsv1.ReplicaSet, n int32) {
	if *rs.Spec.Replicas != n {
		change(w.apiserver, "replicasets", rs, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &n })
	}
}

// replacePods lets each controller of pods have as many as it wants.
func (w *world) replacePods() {
	for _, rs := range all[*appsv1.ReplicaSet](w.apiserver, "replicasets") {
		w.reconcile(rs.Spec.Template, rs.Namespace, ownedBy("apps/v1", "ReplicaSet", rs.Name, rs.UID), *rs.Spec.Replicas)
		if n := *rs.Spec.Replicas; rs.Status.Replicas != n || rs.Status.ObservedGeneration != rs.Generation {
			change(w.apiserver, "replicasets", rs, func(rs *appsv1.ReplicaSet) {
				rs.Status.Replicas, rs.Status.ObservedGeneration = n, rs.Generation
			})
		}
	}
	for _, rc := range all[*corev1.ReplicationController](w.apiserver, "replicationcontrollers") {
		w.reconcile(*rc.Spec.Template, rc.Namespace, ownedBy("v1", "ReplicationController", rc.Name, rc.UID), *rc.Spec.Replicas)
	}
	for _, s := range all[*appsv1.StatefulSet](w.apiserver, "statefulsets") {
		for i := range *s.Spec.Replicas {
			w.restart(s.Spec.Template, s.Namespace, fmt.Sprintf("%s-%d", s.Name, i), ownedBy("apps/v1", "StatefulSet", s.Name, s.UID), "")
		}
	}
	for _, d := range all[*appsv1.DaemonSet](w.apiserver, "daemonsets") {
		for i, node := range w.nodes {
			w.restart(d.Spec.Template, d.Namespace, fmt.Sprintf("%s-%d", d.Name, i), ownedBy("apps/v1", "DaemonSet", d.Name, d.UID), node)
		}
	}
}

// reconcile starts and ends pods whose names do not last. The lowest deletion cost goes first.
func (w *world) reconcile(template corev1.PodTemplateSpec, namespace string, owner []metav1.OwnerReference, want int32) {
	running := w.podsOwnedBy(namespace, owner[0].UID)
	for range int(want) - len(running) {
		w.made++
		pod := w.podOf(template, namespace, fmt.Sprintf("%s-r%d", owner[0].Name, w.made), owner)
		pod.CreationTimestamp = metav1.Now()
		w.put("pods", pod)
	}
	slices.SortStableFunc(running, func(a, b *corev1.Pod) int { return cmp.Compare(costOf(a), costOf(b)) })
	for i := range len(running) - int(want) {
		w.mu.Lock()
		w.terminate(running[i], nil)
		w.mu.Unlock()
	}
}

func costOf(pod *corev1.Pod) int {
	cost, _ := strconv.Atoi(pod.Annotations[snapshot.CostAnnotation])
	return cost
}

// podsOwnedBy returns the pods of an owner that are there to stay.
func (w *world) podsOwnedBy(namespace string, owner types.UID) []*corev1.Pod {
	return slices.DeleteFunc(all[*corev1.Pod](w.apiserver, "pods"), func(pod *corev1.Pod) bool {
		return pod.Namespace != namespace || len(pod.OwnerReferences) == 0 || pod.OwnerReferences[0].UID != owner || pod.DeletionTimestamp != nil || finished(pod)
	})
}

// restart starts a pod of a lasting name, if there is none.
func (w *world) restart(template corev1.PodTemplateSpec, namespace, name string, owner []metav1.OwnerReference, node string) {
	if slices.ContainsFunc(all[*corev1.Pod](w.apiserver, "pods"), func(pod *corev1.Pod) bool { return pod.Namespace == namespace && pod.Name == name }) {
		return
	}
	pod := w.podOf(template, namespace, name, owner)
	pod.CreationTimestamp = metav1.Now()
	if node != "" {
		pod.Spec.NodeName = node
	}
	w.put("pods", pod)
}

// schedule binds pods to nodes that are open, if there are any.
func (w *world) schedule() {
	var open []string
	for _, n := range all[*corev1.Node](w.apiserver, "nodes") {
		if !n.Spec.Unschedulable {
			open = append(open, n.Name)
		}
	}
	for _, pod := range all[*corev1.Pod](w.apiserver, "pods") {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(open) == 0 || w.once(6, "no room") {
			continue
		}
		to := draw(w, "bound to", open...)
		change(w.apiserver, "pods", pod, func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Status = to, corev1.PodStatus{Phase: corev1.PodPending}
		})
	}
}

// getReady lets pods that are bound become ready.
func (w *world) getReady() {
	for _, pod := range all[*corev1.Pod](w.apiserver, "pods") {
		if pod.Spec.NodeName != "" && !isReady(pod) && !finished(pod) && pod.DeletionTimestamp == nil && !w.once(4, "not ready yet") {
			change(w.apiserver, "pods", pod, func(pod *corev1.Pod) { setReady(pod, true) })
		}
	}
}

// countBudgets writes the status of every budget.
func (w *world) countBudgets() {
	for _, b := range all[*policyv1.PodDisruptionBudget](w.apiserver, "poddisruptionbudgets") {
		status := w.statusOf(b)
		if b.Status.ObservedGeneration == status.ObservedGeneration && b.Status.CurrentHealthy == status.CurrentHealthy && b.Status.ExpectedPods == status.ExpectedPods &&
			b.Status.DesiredHealthy == status.DesiredHealthy && b.Status.DisruptionsAllowed == status.DisruptionsAllowed && len(b.Status.DisruptedPods) == 0 {
			continue
		}
		change(w.apiserver, "poddisruptionbudgets", b, func(b *policyv1.PodDisruptionBudget) { b.Status = status })
	}
}

func (w *world) statusOf(b *policyv1.PodDisruptionBudget) policyv1.PodDisruptionBudgetStatus {
	status := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation}
	for _, pod := range all[*corev1.Pod](w.apiserver, "pods") {
		if !counts(b, pod) || finished(pod) {
			continue
		}
		status.ExpectedPods++
		if isReady(pod) && pod.DeletionTimestamp == nil {
			status.CurrentHealthy++
		}
	}
	value, from := b.Spec.MinAvailable, int32(0)
	if value == nil {
		value, from = b.Spec.MaxUnavailable, status.ExpectedPods
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, int(status.ExpectedPods), true)
	if err != nil {
		w.t.Fatal(err)
	}
	status.DesiredHealthy = int32(n) //nolint:gosec // a few
	if from > 0 {
		status.DesiredHealthy = max(from-int32(n), 0) //nolint:gosec // a few
	}
	status.DisruptionsAllowed = max(status.CurrentHealthy-status.DesiredHealthy, 0)
	return status
}
