package observe_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/snapshot"
)

// happen lets something happen that is no doing of the drain.
func (w *world) happen() {
	events := map[string]func(){
		"pod ready": w.turnPod, "pod unready": w.turnPod, "pod deleted": w.deletePod, "pod vanishes": w.losePod, "pod created": w.createPod,
		"pod relabelled": w.relabelPod, "pod finishes": w.finishPod, "pod annotated": w.annotatePod,
		"budget appears": w.addBudget, "budget selects others": w.changeBudget, "budget goes": w.dropBudget, "budget allows": w.allowBudget, "budget stale": w.staleBudget,
		"autoscaler appears": w.addAutoscaler, "autoscaler goes": w.dropAutoscaler, "autoscaler changes": w.changeAutoscaler,
		"deployment scaled": w.scaleDeployment, "deployment rolls out": w.rollOut, "deployment stuck": w.stickRollout, "owner recreated": w.recreateOwner, "owner deleted": w.deleteOwner,
		"statefulset scaled": w.scaleStatefulSet, "node ready": w.turnNode, "node cordoned": w.cordonNode, "node claimed": w.claimNode, "node joins": w.addNode, "node goes": w.dropNode,
		"beats": w.beat, "lease": w.changeLease, "surge by another": w.surgeAnother, "claim changes": w.changeClaim, "attachment": w.changeAttachment, "watches break": w.breakWatches,
	}
	names := slices.Sorted(maps.Keys(events))
	for range rapid.IntRange(0, 5).Draw(w.t, "events") {
		events[draw(w, "event", names...)]()
	}
}

// one applies an edit to one of the present objects, if there are any.
func one[O object](w *world, resource string, edit func(O)) {
	if present := all[O](w.apiserver, resource); len(present) > 0 {
		change(w.apiserver, resource, draw(w, resource, present...), edit)
	}
}

func (w *world) turnPod() {
	one(w, "pods", func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && !finished(pod) {
			setReady(pod, !isReady(pod))
		}
	})
}

func (w *world) finishPod() {
	one(w, "pods", func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" {
			setReady(pod, false)
			pod.Status.Phase = corev1.PodSucceeded
		}
	})
}

func (w *world) annotatePod() {
	one(w, "pods", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{snapshot.CostAnnotation: draw(w, "cost", "1", "9")}
		if w.surged && w.once(3, "marked") {
			pod.Annotations[snapshot.CostMarkAnnotation] = "dead"
			pod.Labels = maps.Clone(pod.Labels)
			pod.Labels[snapshot.SurgeLabel] = "dead"
		}
	})
}

// relabelPod moves a pod under other budgets, or away from its owner.
func (w *world) relabelPod() {
	one(w, "pods", func(pod *corev1.Pod) {
		pod.Labels = maps.Clone(pod.Labels)
		switch draw(w, "label", "tier", "no tier", "app") {
		case "tier":
			pod.Labels["tier"] = draw(w, "to", "x", "y")
		case "no tier":
			delete(pod.Labels, "tier")
		case "app":
			pod.Labels["app"] = fmt.Sprintf("w%d", rapid.IntRange(0, 4).Draw(w.t, "app"))
			pod.OwnerReferences = nil // its controller releases what it selects no longer
		}
	})
}

func (w *world) deletePod() {
	if pods := all[*corev1.Pod](w.apiserver, "pods"); len(pods) > 0 {
		pod := draw(w, "pod", pods...)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.terminate(pod, nil)
	}
}

func (w *world) losePod() {
	if pods := all[*corev1.Pod](w.apiserver, "pods"); len(pods) > 0 {
		w.remove("pods", keyOf(draw(w, "pod", pods...)))
	}
}

// createPod makes one that is like another.
func (w *world) createPod() {
	pods := all[*corev1.Pod](w.apiserver, "pods")
	if len(pods) == 0 {
		return
	}
	pod := draw(w, "like", pods...).DeepCopy()
	pod.UID = w.uid(pod.Name)
	pod.Name, pod.CreationTimestamp, pod.DeletionTimestamp, pod.Finalizers = fmt.Sprintf("%s-like-%d", pod.Name, w.made), metav1.Now(), nil, nil
	w.bind(pod, draw(w, "on", slices.Concat(w.nodes, w.targets)...))
	w.put("pods", pod)
}

func (w *world) addBudget() {
	w.put("poddisruptionbudgets", w.drawBudget(w.drawNamespace(), rapid.IntRange(0, 4).Draw(w.t, "name"))) // that of another one, maybe
	w.countBudgets()
}

func (w *world) changeBudget() {
	one(w, "poddisruptionbudgets", func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector = w.drawSelector()
		b.Generation++
	})
}

func (w *world) allowBudget() {
	one(w, "poddisruptionbudgets", func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed = draw(w, "allowed", int32(1), 0, 2)
	})
}

func (w *world) staleBudget() {
	one(w, "poddisruptionbudgets", func(b *policyv1.PodDisruptionBudget) { b.Generation++ })
}

func (w *world) dropBudget() {
	if budgets := all[*policyv1.PodDisruptionBudget](w.apiserver, "poddisruptionbudgets"); len(budgets) > 0 {
		w.remove("poddisruptionbudgets", keyOf(draw(w, "budget", budgets...)))
	}
}

func (w *world) addAutoscaler() {
	if deployments := all[*appsv1.Deployment](w.apiserver, "deployments"); len(deployments) > 0 {
		w.putAutoscaler(draw(w, "ruled", deployments...))
	}
}

func (w *world) dropAutoscaler() {
	if scalers := all[*autoscalingv2.HorizontalPodAutoscaler](w.apiserver, "horizontalpodautoscalers"); len(scalers) > 0 {
		w.remove("horizontalpodautoscalers", keyOf(draw(w, "autoscaler", scalers...)))
	}
}

func (w *world) changeAutoscaler() {
	one(w, "horizontalpodautoscalers", func(a *autoscalingv2.HorizontalPodAutoscaler) {
		a.Spec.MaxReplicas += draw(w, "more", int32(1), 2)
	})
}

func (w *world) scaleDeployment() {
	one(w, "deployments", func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(w.t, "replicas"))
		d.Generation++
	})
}

func (w *world) scaleStatefulSet() {
	one(w, "statefulsets", func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(w.t, "replicas")) })
}

func (w *world) rollOut() {
	deployments := all[*appsv1.Deployment](w.apiserver, "deployments")
	if len(deployments) == 0 {
		return
	}
	d := draw(w, "rolled out", deployments...)
	next := 1
	for _, rs := range w.replicaSetsOf(d) {
		n, _ := strconv.Atoi(rs.Annotations[revision])
		next = max(next, n+1)
	}
	w.addReplicaSet(d, d.Spec.Template, next, rapid.Int32Range(0, 2).Draw(w.t, "of them new"))
	change(w.apiserver, "deployments", d, func(d *appsv1.Deployment) {
		d.Generation++
		d.Status.UpdatedReplicas = 0
	})
}

func (w *world) stickRollout() {
	one(w, "deployments", func(d *appsv1.Deployment) {
		d.Spec.Paused = rapid.Bool().Draw(w.t, "paused")
		d.Status.UpdatedReplicas = 0
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	})
}

// owners are the resources of what may own pods.
var owners = []string{"deployments", "replicasets", "statefulsets", "daemonsets", "replicationcontrollers", "jobs"}

// drawOwner returns one of the present owners, nil if there is none of the kind that is drawn.
func (w *world) drawOwner() (string, object) {
	resource := draw(w, "kind of owner", owners...)
	w.mu.Lock()
	names := slices.SortedFunc(maps.Keys(w.objects[resource]), func(a, b snapshot.Key) int { return strings.Compare(a.String(), b.String()) })
	w.mu.Unlock()
	if len(names) == 0 {
		return resource, nil
	}
	return resource, w.objects[resource][draw(w, "owner", names...)].object
}

func (w *world) deleteOwner() {
	if resource, o := w.drawOwner(); o != nil {
		w.remove(resource, keyOf(o))
	}
}

// recreateOwner puts another object under its name, which may adopt the pods.
func (w *world) recreateOwner() {
	resource, o := w.drawOwner()
	if o == nil {
		return
	}
	fresh := o.DeepCopyObject().(object) //nolint:forcetypeassert // a copy of an object
	fresh.SetUID(w.uid(o.GetName()))
	w.remove(resource, keyOf(o))
	w.put(resource, fresh)
	if _, isJob := o.(*batchv1.Job); isJob || rapid.Bool().Draw(w.t, "no adoption") {
		return
	}
	for _, pod := range w.podsOwnedBy(o.GetNamespace(), o.GetUID()) {
		change(w.apiserver, "pods", pod, func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = fresh.GetUID() })
	}
}

func (w *world) turnNode() {
	one(w, "nodes", func(n *corev1.Node) { w.setNodeReady(n, n.Status.Conditions[0].Status != corev1.ConditionTrue) })
}

func (w *world) cordonNode() {
	one(w, "nodes", func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
}

func (w *world) claimNode() {
	one(w, "nodes", func(n *corev1.Node) { w.claim(n, draw(w, "drain", "live", "dead")) })
}

func (w *world) addNode() {
	name := fmt.Sprintf("m%d", w.made)
	w.nodes = append(w.nodes, name)
	w.put("nodes", w.drawNode(name, w.made))
}

// dropNode deletes a node, and maybe puts another one under its name.
func (w *world) dropNode() {
	nodes := all[*corev1.Node](w.apiserver, "nodes")
	if len(nodes) == 0 || !w.once(3, "really") {
		return
	}
	n := draw(w, "node", nodes...)
	w.remove("nodes", keyOf(n))
	if rapid.Bool().Draw(w.t, "another") {
		w.put("nodes", w.drawNode(n.Name, 0))
	}
}

// beat renews the signs of life of the other drain that lives.
func (w *world) beat() {
	for _, n := range all[*corev1.Node](w.apiserver, "nodes") {
		record, err := snapshot.ParseDrainRecord(n.Annotations[snapshot.DrainAnnotation])
		if err != nil || record == nil || record.ID != "live" {
			continue
		}
		record.Beat = time.Now().UTC()
		text, err := record.Encode()
		if err != nil {
			w.t.Fatal(err)
		}
		change(w.apiserver, "nodes", n, func(n *corev1.Node) { n.Annotations[snapshot.DrainAnnotation] = text })
	}
}

// surgeAnother lets another drain surge a Deployment, or end that.
func (w *world) surgeAnother() {
	if !w.surged {
		return
	}
	one(w, "deployments", func(d *appsv1.Deployment) {
		if d.Labels[snapshot.SurgeLabel] != "" {
			d.Labels, d.Annotations = nil, nil
			return
		}
		n := *d.Spec.Replicas
		d.Spec.Replicas = new(n + 1)
		w.surge(d, draw(w, "drain", "dead", "live"), n, n+1, 0)
	})
}

func (w *world) changeClaim() {
	claims := all[*corev1.PersistentVolumeClaim](w.apiserver, "persistentvolumeclaims")
	if len(claims) == 0 {
		return
	}
	claim := draw(w, "claim", claims...)
	w.remove("persistentvolumeclaims", keyOf(claim))
	if rapid.Bool().Draw(w.t, "comes back") {
		w.putClaim(claim.Namespace, claim.Name)
	}
}

func (w *world) changeAttachment() {
	claims := all[*corev1.PersistentVolumeClaim](w.apiserver, "persistentvolumeclaims")
	if len(claims) == 0 {
		return
	}
	claim, node := draw(w, "claim", claims...), draw(w, "node", w.nodes...)
	w.remove("volumeattachments", snapshot.Key{Name: "csi-" + volumeOf(claim.Namespace, claim.Name) + "-" + node})
	if rapid.Bool().Draw(w.t, "attached") {
		w.attach(claim.Namespace, claim.Name, node)
	}
}
