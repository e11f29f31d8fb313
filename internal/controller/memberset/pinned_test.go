package memberset

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

const zoneLabel = "topology.kubernetes.io/zone"

// pinnedSite has pod kv-server-1 on node a, with a volume that can be used where a label has this value.
func pinnedSite(key, value string) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim, map[string]*corev1.Node) {
	nodes := map[string]*corev1.Node{}
	for name, zone := range map[string]string{"a": "z1", "b": "z1", "c": "z2"} {
		nodes[name] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, zoneLabel: zone}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if key != "" {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
		}}}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-kv-server-1"}}
	claim.Spec.VolumeName = "pv"
	return volume, claim, nodes
}

// podWithClaim is on node a.
func podWithClaim(says string, cordoned bool) memberset.Pod {
	p := memberset.Pod{Node: "a", OnEviction: says, Cordoned: cordoned, Spec: &corev1.PodSpec{Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-kv-server-1"}},
	}}}}
	p.Name = "kv-server-1"
	return p
}

// A pod is pinned where its volume can be used on no other node that takes pods now.
func TestPin(t *testing.T) {
	zone, host := zoneLabel, corev1.LabelHostname
	cordon := func(n map[string]*corev1.Node) { n["b"].Spec.Unschedulable = true }
	for name, test := range map[string]struct {
		key, value string
		says       string
		cordoned   bool // node a
		change     func(nodes map[string]*corev1.Node)
		want       bool
	}{
		"no affinity":                       {change: cordon},
		"one node":                          {key: host, value: "a", want: true},
		"a zone of two nodes":               {key: zone, value: "z1"},
		"a zone, it is the only node":       {key: zone, value: "z1", change: func(n map[string]*corev1.Node) { delete(n, "b") }, want: true},
		"a zone, the other is cordoned":     {key: zone, value: "z1", change: cordon, want: true},
		"a zone, the other does not report": {key: zone, value: "z1", change: func(n map[string]*corev1.Node) { n["b"].Status.Conditions[0].Status = corev1.ConditionUnknown }, want: true},
		"a zone, its own node is gone":      {key: zone, value: "z1", cordoned: true, change: func(n map[string]*corev1.Node) { delete(n, "a") }},
		"it said that it follows, the other is cordoned, and its own is not":   {key: zone, value: "z1", says: v1alpha1.PodFollows, change: cordon},
		"it said that it follows, both are cordoned":                           {key: zone, value: "z1", says: v1alpha1.PodFollows, cordoned: true, change: cordon, want: true},
		"it said that it stays, and the other takes pods again":                {key: zone, value: "z1", says: v1alpha1.PodIsReplacedWhereCordoned, cordoned: true},
		"it said that it stays, and is believed while its node takes pods too": {key: zone, value: "z1", says: v1alpha1.PodIsReplacedWhereCordoned, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			volume, claim, nodes := pinnedSite(test.key, test.value)
			if test.change != nil {
				test.change(nodes)
			}
			objects := []client.Object{volume}
			for _, n := range nodes {
				objects = append(objects, n)
			}
			r, _ := newReconciler(t, objects...)
			l := &look{set: plainSet()}
			l.in.Pods = []memberset.Pod{podWithClaim(test.says, test.cordoned)}
			pinning(l)
			if err := r.pin(t.Context(), l, claim); err != nil {
				t.Fatal(err)
			}
			if pinned := l.in.Pods[0].Pinned; pinned == nil || *pinned != test.want {
				t.Errorf("pinned: %v, want %t", pinned, test.want)
			}
		})
	}
}

// Where the volume may not be read it is not known whether it pins its pod, and why that is so is kept.
func TestPinOfAVolumeThatIsNotRead(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		fails bool
	}{
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "pv", nil), false},
		"gone":      {apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, "pv"), false},
		"no answer": {apierrors.NewInternalError(context.DeadlineExceeded), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, claim, _ := pinnedSite("", "")
			r, store := newReconciler(t)
			r.live = interceptor.NewClient(store.(client.WithWatch), interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return test.err
				},
			})
			l := &look{set: plainSet()}
			l.in.Pods = []memberset.Pod{podWithClaim("", false)}
			pinning(l)
			if err := r.pin(t.Context(), l, claim); (err != nil) != test.fails {
				t.Errorf("pin: %v", err)
			}
			if p := &l.in.Pods[0]; p.Pinned != nil || p.Unpinned != test.err.Error() {
				t.Errorf("pinned: %v, since %q", p.Pinned, p.Unpinned)
			}
		})
	}
}
