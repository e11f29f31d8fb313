package observe

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

// withLargeAffinity is a pod on node a that may run on every node: its affinity, of 1.2 MB, names labels that none has.
func withLargeAffinity() *corev1.Pod {
	prefix := strings.Repeat("x", 59) + "." + strings.Repeat("x", 59) + "." + strings.Repeat("x", 59) + "." + strings.Repeat("x", 50)
	var term corev1.NodeSelectorTerm
	for i := range 4800 {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: fmt.Sprintf("%s/k%06d", prefix, i), Operator: corev1.NodeSelectorOpDoesNotExist,
		})
	}
	p := podOwnedBy("p", "a", "apps/v1", "StatefulSet")
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
	return p
}

// takingRequests is a cluster of nodes a and b whose apiserver takes requests of a megabyte, as a real one does.
func takingRequests(more ...runtime.Object) *fake.Clientset {
	for _, name := range []string{"a", "b"} {
		more = append(more, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}})
	}
	client := fake.NewClientset(more...)
	client.PrependReactor("list", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		of, is := action.(k8stesting.ListAction)
		if !is || len(of.GetListRestrictions().Labels.String())+len(of.GetListRestrictions().Fields.String()) < 1<<20 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewGenericServerResponse(431, "list", schema.GroupResource{Resource: action.GetResource().Resource}, "", "request header fields too large", 0, false)
	})
	return client
}

// A tenant's pod keeps no node from being observed, nor those observed with it, however much it asks of nodes.
func TestLargeAffinityIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := takingRequests(withLargeAffinity(), podOwnedBy("other", "b", "apps/v1", "StatefulSet"))
		o, err := Start(t.Context(), client, Options{Nodes: []string{"a", "b"}})
		if err != nil {
			t.Fatalf("%.300s", err)
		}
		defer o.Stop()
		if v := viewOf(o); !v.Blind.IsZero() || !v.Whole() {
			t.Errorf("blind since %s, whole %t", v.Blind, v.Whole())
		}
	})
}

// Nor does one that comes in the middle of a drain make it blind.
func TestLargeAffinityThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := takingRequests()
		o, err := Start(t.Context(), client, Options{Nodes: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Stop()
		if _, err := client.CoreV1().Pods("shop").Create(t.Context(), withLargeAffinity(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if v := viewOf(o); !v.Blind.IsZero() || !v.Whole() {
			t.Errorf("a minute after the pod has come: blind since %s, whole %t", v.Blind, v.Whole())
		}
	})
}

// Of pods on the nodes it is read which nodes can use their volumes, where that is asked for, and those are looked for: all that a volume's zone has, where none of
// these takes the pod.
func TestVolumesOfPodsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		asked bool
		zone  string // of node b
		read  bool   // all nodes of the volume's zone were read
		known bool   // that the volume has a zone
	}{
		"another node is in its zone": {asked: true, zone: "z1", known: true},
		"no other node is":            {asked: true, zone: "z2", known: true, read: true},
		"it is not asked for":         {zone: "z2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := takingRequests(
					podOwnedBy("db-0", "a", "apps/v1", "StatefulSet", "data"),
					&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
					&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
						Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"}},
						}}}},
					}}},
				)
				for node, zone := range map[string]string{"a": "z1", "b": c.zone} {
					patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, corev1.LabelTopologyZone, zone))
					if _, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				o, err := Start(t.Context(), client, Options{Nodes: []string{"a"}, Volumes: c.asked})
				if err != nil {
					t.Fatal(err)
				}
				defer o.Stop()
				<-time.After(time.Minute)
				view := viewOf(o)
				p := view.Cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "db-0"})
				asking := view.Cluster.WithVolumes(p)
				placement := snapshot.PlacementOf(asking)
				if known := asking != p; known != c.known || c.known && view.Cluster.NodesRead(placement.Selector()) != c.read || !view.Whole() {
					t.Errorf("its zone is known: %t; all nodes with %q were read: %t; whole: %t", known, placement.Selector(), view.Cluster.NodesRead(placement.Selector()), view.Whole())
				}
				takes := view.Cluster.AnyNode(func(n *snapshot.Node) bool { return n.Name != "a" && placement.Refusal(n) == "" })
				if c.known && takes == c.read {
					t.Errorf("another node takes it: %t", takes)
				}
			})
		})
	}
}
