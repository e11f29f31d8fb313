package observe_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

const revision = "deployment.kubernetes.io/revision"

// drawWorkload makes a workload of some kind with its pods.
func (w *world) drawWorkload(i int) {
	namespace, name := w.drawNamespace(), fmt.Sprintf("w%d", i)
	labels := map[string]string{"app": name}
	if rapid.Bool().Draw(w.t, "tier") {
		labels["tier"] = draw(w, "which tier", "x", "y")
	}
	template := w.drawTemplate(namespace, name, labels)
	replicas := rapid.Int32Range(1, 4).Draw(w.t, "replicas")
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	meta := w.meta(namespace, name, nil)
	switch draw(w, "kind", "Deployment", "Deployment", "Deployment", "Deployment", "StatefulSet", "StatefulSet", "DaemonSet", "Job",
		"ReplicationController", "ReplicaSet", "Widget", "none", "orphan", "namesake") {
	case "Deployment":
		w.drawDeployment(meta, template, replicas, selector)
	case "StatefulSet":
		w.put("statefulsets", &appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: replicas},
		})
		w.drawPods(template, namespace, name, ownedBy("apps/v1", "StatefulSet", name, meta.UID), replicas)
	case "DaemonSet":
		w.put("daemonsets", &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}, Status: appsv1.DaemonSetStatus{ObservedGeneration: 1}})
		for n, node := range w.nodes {
			pod := w.podOf(template, namespace, fmt.Sprintf("%s-%d", name, n), ownedBy("apps/v1", "DaemonSet", name, meta.UID))
			w.bind(pod, node)
			w.put("pods", pod)
		}
	case "Job":
		w.put("jobs", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: &replicas, Selector: selector, Template: template}})
		w.drawPods(template, namespace, name, ownedBy("batch/v1", "Job", name, meta.UID), replicas)
	case "ReplicationController":
		w.put("replicationcontrollers", &corev1.ReplicationController{
			ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: selector.MatchLabels, Template: &template},
			Status: corev1.ReplicationControllerStatus{ObservedGeneration: 1, Replicas: replicas},
		})
		w.drawPods(template, namespace, name, ownedBy("v1", "ReplicationController", name, meta.UID), replicas)
	case "ReplicaSet":
		w.putReplicaSet(meta, template, replicas, selector)
		w.drawPods(template, namespace, name, ownedBy("apps/v1", "ReplicaSet", name, meta.UID), replicas)
	case "Widget":
		w.drawPods(template, namespace, name, ownedBy("example.com/v1", draw(w, "foreign kind", "Widget", "ReplicaSet"), name, meta.UID), replicas)
	case "none":
		w.drawPods(template, namespace, name, nil, replicas)
	case "orphan":
		kind := draw(w, "lost kind", "ReplicaSet", "StatefulSet", "DaemonSet")
		w.drawPods(template, namespace, name, ownedBy("apps/v1", kind, name, meta.UID), replicas)
	case "namesake":
		w.putReplicaSet(meta, template, replicas, selector)
		w.drawPods(template, namespace, name, ownedBy("apps/v1", "ReplicaSet", name, "another"), replicas)
	}
}

func (w *world) putReplicaSet(meta metav1.ObjectMeta, template corev1.PodTemplateSpec, replicas int32, selector *metav1.LabelSelector) {
	w.put("replicasets", &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: meta.Generation, Replicas: replicas},
	})
}

// drawDeployment makes a Deployment, which may be rolling out and may have been surged by another drain.
func (w *world) drawDeployment(meta metav1.ObjectMeta, template corev1.PodTemplateSpec, replicas int32, selector *metav1.LabelSelector) {
	if w.once(6, "selector by expression") {
		selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{meta.Name}}}}
	}
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: replicas, UpdatedReplicas: replicas}
	d.Spec.MinReadySeconds = draw(w, "min ready", int32(0), 0, 10)
	if w.once(8, "recreates") {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	} else if w.once(6, "no surge") {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(0))}
	}
	former := int32(0)
	if w.once(3, "rolling out") {
		former = rapid.Int32Range(0, replicas).Draw(w.t, "former")
		d.Status.UpdatedReplicas = replicas - former
		d.Spec.Paused = w.once(3, "paused")
		if w.once(3, "stuck") {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}
	}
	if w.surged && w.once(3, "surged by another") {
		w.surge(d, draw(w, "drain", "dead", "live"), replicas-1, replicas, 0)
	}
	w.put("deployments", d)
	if w.once(4, "autoscaler") {
		w.putAutoscaler(d)
	}
	for i, n := range []int32{former, replicas - former} {
		if n > 0 || w.once(4, "empty") {
			w.addReplicaSet(d, template, i+1, n)
		}
	}
}

// addReplicaSet makes a ReplicaSet of a Deployment, with its pods.
func (w *world) addReplicaSet(d *appsv1.Deployment, template corev1.PodTemplateSpec, generation int, replicas int32) {
	name := fmt.Sprintf("%s-%d", d.Name, generation)
	template.Labels = maps.Clone(template.Labels)
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = strconv.Itoa(generation)
	meta := w.meta(d.Namespace, name, template.Labels)
	meta.OwnerReferences = ownedBy("apps/v1", "Deployment", d.Name, d.UID)
	maps.Copy(meta.Annotations, d.Annotations) // as its controller does, and not the label
	meta.Annotations[revision] = strconv.Itoa(generation)
	w.putReplicaSet(meta, template, replicas, &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.Name, appsv1.DefaultDeploymentUniqueLabelKey: strconv.Itoa(generation)}})
	w.drawPods(template, d.Namespace, name, ownedBy("apps/v1", "ReplicaSet", name, meta.UID), replicas)
}

// surge writes the record of another drain on what it has scaled.
func (w *world) surge(o metav1.Object, id string, was, to, base int32) {
	since := time.Now().Add(-10 * time.Minute).UTC()
	record := snapshot.SurgeRecord{Drainer: w.drainer(id), Was: max(was, 0), To: to, Base: base, Since: since, Step: since}
	text, err := record.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.once(10, "unreadable") {
		text = "x"
	}
	o.SetLabels(map[string]string{snapshot.SurgeLabel: id})
	o.SetAnnotations(map[string]string{snapshot.SurgeAnnotation: text})
}

func (w *world) putAutoscaler(d *appsv1.Deployment) {
	least := rapid.Int32Range(1, max(*d.Spec.Replicas, 1)).Draw(w.t, "least")
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: w.meta(d.Namespace, draw(w, "its name", d.Name, "a-"+d.Name), nil)}
	a.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: d.Name, APIVersion: "apps/v1"},
		MinReplicas:    &least, MaxReplicas: *d.Spec.Replicas + draw(w, "most", int32(0), 1, 3),
	}
	if w.surged && w.once(3, "raised by another") {
		w.surge(a, draw(w, "drain", "dead", "live"), least-1, least, draw(w, "base", int32(0), least-1))
	}
	w.put("horizontalpodautoscalers", a)
}

// drawTemplate is what the pods of a workload have in common.
func (w *world) drawTemplate(namespace, name string, labels map[string]string) corev1.PodTemplateSpec {
	pod := w.newPod(namespace, name, labels, nil)
	switch draw(w, "tolerates", "", "", "", "cordon", "all") {
	case "cordon":
		pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	case "all":
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	switch draw(w, "placed", "", "", "", "zone", "pool", "host", "affinity", "large affinity", "node") {
	case "zone":
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: draw(w, "zone", "z0", "z1")}
	case "pool":
		pod.Spec.NodeSelector = map[string]string{"pool": draw(w, "in pool", "a", "b")}
	case "host":
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: w.targets[0]}
	case "affinity":
		pod.Spec.Affinity = notInPool("b", 0)
	case "large affinity": // more than a selector has room for
		pod.Spec.Affinity = notInPool("b", snapshot.LongestSelector/4)
	case "node":
		pod.Spec.NodeName = draw(w, "named", w.nodes...)
	}
	if w.once(5, "priority") {
		pod.Spec.Priority = new(draw(w, "which priority", int32(100), 2_000_000_000))
	}
	if w.governed && w.once(3, "governed") {
		labels[v1alpha1.PolicyLabel] = "db"
	}
	pod.Spec.TerminationGracePeriodSeconds = new(draw(w, "grace", int64(30), 0, 300))
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}
}

// notInPool is an affinity to nodes that are not in a pool, and have none of so many other labels, which none has.
func notInPool(pool string, others int) *corev1.Affinity {
	var term corev1.NodeSelectorTerm
	for i := range others {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: fmt.Sprintf("not-on-%d", i), Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: "pool", Operator: corev1.NodeSelectorOpNotIn, Values: []string{pool}})
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
}

// newPod is a pod that is not bound.
func (w *world) newPod(namespace, name string, labels map[string]string, owner []metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: w.meta(namespace, name, maps.Clone(labels))}
	pod.OwnerReferences, pod.Status.Phase = owner, corev1.PodPending
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	return pod
}

func (w *world) podOf(template corev1.PodTemplateSpec, namespace, name string, owner []metav1.OwnerReference) *corev1.Pod {
	pod := w.newPod(namespace, name, template.Labels, owner)
	pod.Spec = *template.Spec.DeepCopy()
	return pod
}

// bind puts a pod on a node, where it is ready.
func (w *world) bind(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	setReady(pod, true)
}

func setReady(pod *corev1.Pod, ready bool) {
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))}
	if !ready {
		condition.Status, condition.Reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{condition}
}

// drawPods makes pods of a template, more of them on targets than elsewhere.
func (w *world) drawPods(template corev1.PodTemplateSpec, namespace, name string, owner []metav1.OwnerReference, n int32) {
	for i := range n {
		pod := w.podOf(template, namespace, fmt.Sprintf("%s-%d", name, i), owner)
		w.bind(pod, draw(w, "on", slices.Concat(w.nodes, w.targets)...))
		w.drawState(pod)
		w.put("pods", pod)
	}
}

// drawState is what may be odd about a single pod.
func (w *world) drawState(pod *corev1.Pod) {
	switch draw(w, "state", "", "", "", "", "", "unready", "pending", "terminating", "finished", "cost", "order", "finalizer", "data") {
	case "unready":
		setReady(pod, false)
	case "pending":
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available"},
		}}
	case "terminating":
		pod.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(draw(w, "ends in", 20*time.Second, -10*time.Second, -10*time.Minute))))
		pod.DeletionGracePeriodSeconds = new(int64(30))
	case "finished":
		setReady(pod, false)
		pod.Status.Phase = draw(w, "phase", corev1.PodSucceeded, corev1.PodFailed)
	case "cost":
		pod.Annotations[snapshot.CostAnnotation] = draw(w, "cost", "7", "-3")
	case "order":
		pod.Annotations[snapshot.OrderAnnotation] = draw(w, "order", "-1", "5", "x")
	case "finalizer":
		pod.Finalizers = []string{"example.com/hold"}
	case "data":
		pod.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if w.volumes && w.once(3, "claims") {
		w.claims(pod, "claim-"+pod.Name)
	}
	if w.surged && w.once(8, "marked by another") {
		id := draw(w, "drain", "dead", "live")
		pod.Annotations[snapshot.CostAnnotation], pod.Annotations[snapshot.CostMarkAnnotation] = snapshot.LowestCost, id+draw(w, "before", "", "=4")
		pod.Labels[snapshot.SurgeLabel] = id
	}
	if pod.Labels[v1alpha1.PolicyLabel] != "" && rapid.Bool().Draw(w.t, "requested by another") {
		id := draw(w, "drain", "dead", "live")
		request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, snapshot.RequesterOf(id))
		request.UID, request.Labels, request.CreationTimestamp = w.uid("request"), map[string]string{snapshot.DrainLabel: id}, metav1.NewTime(w.drainer(id).Beat)
		w.put("evictionrequests", request)
	}
}
