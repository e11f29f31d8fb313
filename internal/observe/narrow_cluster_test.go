package observe_test

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// world is a random cluster behind the test apiserver.
type world struct {
	*apiserver
	t       *rapid.T
	nodes   []string
	targets []string
	made    int

	surged   bool // drains have left surges
	governed bool // some pods are governed
	volumes  bool // some pods have volume claims
	leased   bool // other drains have Leases
}

// odds are lists of booleans of which the last is true.
var odds = map[int][]bool{}

func init() {
	for n := 2; n <= 20; n++ {
		odds[n] = make([]bool, n)
		odds[n][n-1] = true
	}
}

// once draws true once in n times.
func (w *world) once(n int, label string) bool { return rapid.SampledFrom(odds[n]).Draw(w.t, label) }

func draw[V any](w *world, label string, of ...V) V { return rapid.SampledFrom(of).Draw(w.t, label) }

func (w *world) uid(name string) types.UID {
	w.made++
	return types.UID(fmt.Sprintf("%s-%d", name, w.made))
}

// meta is of an object that is an hour old.
func (w *world) meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: w.uid(name), Labels: labels, Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)), Annotations: map[string]string{},
	}
}

// drawWorld fills a cluster.
func drawWorld(t *rapid.T) *world {
	w := &world{apiserver: newAPIServer(), t: t}
	w.streams = rapid.Bool().Draw(t, "streams")
	w.lags = rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, 100 * time.Millisecond, 300 * time.Millisecond}), 1, 4).Draw(t, "lags")
	if w.once(6, "refused") {
		w.refused = draw(w, "what", slices.Concat(owners, []string{"horizontalpodautoscalers", "persistentvolumeclaims", "volumeattachments", "evictionrequests", "leases"})...)
	}
	w.surged, w.governed, w.volumes = rapid.Bool().Draw(t, "surged"), w.once(5, "governed"), w.once(3, "volumes")
	w.drawLeases()
	for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
		w.nodes = append(w.nodes, fmt.Sprintf("n%d", i))
		w.put("nodes", w.drawNode(w.nodes[i], i))
	}
	w.targets = w.nodes[:rapid.IntRange(1, 2).Draw(t, "targets")]
	w.anchor()
	for i := range rapid.IntRange(1, 5).Draw(t, "workloads") {
		w.drawWorkload(i)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "budgets") {
		w.put("poddisruptionbudgets", w.drawBudget(w.drawNamespace(), i))
	}
	w.countBudgets()
	return w
}

func (w *world) drawNamespace() string { return draw(w, "namespace", "shop", "shop", "shop", "db") }

func (w *world) drawNode(name string, i int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: w.meta("", name, map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("z%d", i%3), "pool": draw(w, "pool", "a", "a", "b"),
	})}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	w.setNodeReady(node, !w.once(10, "node not ready"))
	node.Spec.Unschedulable = w.once(8, "cordoned")
	if w.once(8, "tainted") {
		node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	}
	if w.once(5, "drained by another") {
		w.claim(node, draw(w, "drain", "live", "dead"))
	}
	return node
}

func (w *world) setNodeReady(node *corev1.Node, ready bool) {
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	if !ready {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	node.Status.Conditions = []corev1.NodeCondition{condition}
}

// drainer is another drain, at its last sign of life.
func (w *world) drainer(id string) snapshot.Drainer {
	beat := time.Now().UTC()
	if id == "dead" {
		beat = beat.Add(-time.Hour)
	}
	return snapshot.Drainer{ID: id, By: id + "@host", Beat: beat, Lease: w.leased && !w.once(4, "an old record")}
}

// claim writes the record of another drain on a node.
func (w *world) claim(node *corev1.Node, id string) {
	record := snapshot.DrainRecord{
		Drainer: w.drainer(id), Since: time.Now().Add(-2 * time.Hour).UTC(), Cordoned: true,
		State: draw(w, "state", "draining", "draining", "drained", "interrupted"),
	}
	text, err := record.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	node.Annotations[snapshot.DrainAnnotation], node.Labels[snapshot.DrainLabel] = text, id
	node.Spec.Unschedulable = !w.once(4, "opened")
}

// anchor puts pods on a target that make a drain read what drains have left on objects, and volumes: without pods that could leave so
// it need not know of them.
func (w *world) anchor() {
	if w.surged {
		pod := w.newPod("shop", "anchor", map[string]string{"app": "anchor"}, ownedBy("apps/v1", "ReplicaSet", "anchor", "gone"))
		w.bind(pod, w.targets[0])
		w.put("pods", pod)
	}
	if w.governed {
		pod := w.newPod("shop", "member", map[string]string{"app": "member", v1alpha1.PolicyLabel: "db"}, nil)
		w.bind(pod, w.targets[0])
		w.put("pods", pod)
	}
	for _, namespace := range []string{"shop", "db"} {
		if !w.volumes {
			return
		}
		pod := w.newPod(namespace, "disk", map[string]string{"app": "disk"}, nil)
		w.claims(pod, "disk")
		w.bind(pod, w.targets[0])
		w.put("pods", pod)
	}
}

func ownedBy(version, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

// claims gives a pod a volume claim, which may be shared, unbound or missing.
func (w *world) claims(pod *corev1.Pod, name string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}})
	if w.once(6, "no claim") {
		return
	}
	w.putClaim(pod.Namespace, name)
	if w.once(3, "attached") {
		w.attach(pod.Namespace, name, draw(w, "attached to", w.nodes...))
	}
}

func (w *world) putClaim(namespace, name string) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: w.meta(namespace, name, nil)}
	claim.Spec.VolumeName = draw(w, "volume", volumeOf(namespace, name), volumeOf(namespace, name), "")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{draw(w, "mode", corev1.ReadWriteOnce, corev1.ReadWriteMany)}
	w.put("persistentvolumeclaims", claim)
}

func volumeOf(namespace, claim string) string { return "pv-" + namespace + "-" + claim }

func (w *world) attach(namespace, claim, node string) {
	volume := volumeOf(namespace, claim)
	w.put("volumeattachments", &storagev1.VolumeAttachment{
		ObjectMeta: w.meta("", "csi-"+volume+"-"+node, nil),
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	})
}

func (w *world) drawBudget(namespace string, i int) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: w.meta(namespace, fmt.Sprintf("pdb-%d", i), nil)}
	b.Spec.Selector = w.drawSelector()
	value := intstr.Parse(draw(w, "value", "1", "1", "0", "2", "3", "50%", "100%"))
	if rapid.Bool().Draw(w.t, "max unavailable") {
		b.Spec.MaxUnavailable = &value
	} else {
		b.Spec.MinAvailable = &value
	}
	if w.once(4, "always allow") {
		b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}
	return b
}

// drawSelector is what a budget counts: one workload, several, everything, or nothing.
func (w *world) drawSelector() *metav1.LabelSelector {
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	app := fmt.Sprintf("w%d", rapid.IntRange(0, 4).Draw(w.t, "app"))
	return draw(w, "selector",
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		&metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}},
		expression("app", metav1.LabelSelectorOpIn, app, "w1"), expression("app", metav1.LabelSelectorOpNotIn, app),
		expression("tier", metav1.LabelSelectorOpExists), expression("tier", metav1.LabelSelectorOpDoesNotExist), nil)
}
