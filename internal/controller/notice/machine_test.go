package notice

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// machineRig is a rig with a Machine of node n1 that is being deleted and waits for Usher.
func machineRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	kind := observe.MachineKind.WithVersion("v1beta2")
	machine := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "pool", "name": "m1", "uid": "uid-m1", "finalizers": []any{"machine.cluster.x-k8s.io"}, "annotations": map[string]any{notice.MachineHook: "usher", "a": "b"},
			"deletionTimestamp": noon.Format(time.RFC3339),
		},
		"status": map[string]any{"nodeRef": map[string]any{"name": "n1"}},
	}}
	machine.SetGroupVersionKind(kind)
	g := newRig(t, append(objects, machine)...)
	g.recon.Machines = &observe.Machines{Client: g.WithWatch, Kind: kind}
	return g
}

func (g *rig) hooked() bool {
	g.t.Helper()
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(g.recon.Machines.Kind)
	if err := g.Get(g.t.Context(), client.ObjectKey{Namespace: "pool", Name: "m1"}, machine); err != nil {
		g.t.Fatal(err)
	}
	if machine.GetAnnotations()["a"] != "b" {
		g.t.Error("another annotation is taken off")
	}
	_, is := machine.GetAnnotations()[notice.MachineHook]
	return is
}

// A Machine that is being deleted waits until its node is drained, and the node stays drained until it is gone.
func TestMachineWaitsForItsNode(t *testing.T) {
	g := machineRig(t)
	if after := g.look(); after != time.Hour || !g.hooked() {
		t.Errorf("looked at again after %s, held: %v", after, g.hooked())
	}
	m := g.maintenances()["n1"]
	if m == nil || m.Spec.Requester != "clusterapi.notice.usher.sh/Termination" {
		t.Fatalf("%+v", m)
	}
	m.Status.Nodes = []v1alpha1.MaintainedNode{{Name: "n1", UID: "uid-n1", Step: v1alpha1.StepDrained, StartTime: metav1.NewTime(noon), StepTime: metav1.NewTime(noon)}}
	if err := g.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	g.look()
	if g.hooked() {
		t.Error("it is held, and its node is drained")
	}
	g.look()
	if g.maintenances()["n1"] == nil {
		t.Error("the node is given back, and its Machine goes")
	}
}

// A Machine whose node is never drained is held for as long as the configuration says. By one that cannot be read nothing is let go.
func TestMachineIsNotHeldForEver(t *testing.T) {
	g := machineRig(t, configMap("machineHold: 10m"))
	g.look()
	g.now = noon.Add(10*time.Minute - time.Second)
	if after := g.look(); after != time.Second || !g.hooked() {
		t.Errorf("looked at again after %s, held: %v", after, g.hooked())
	}
	if err := g.Update(t.Context(), configMap("machineHold: never")); err != nil {
		t.Fatal(err)
	}
	g.now = noon.Add(24 * time.Hour)
	if g.look(); !g.hooked() {
		t.Error("let go by a configuration that cannot be read")
	}
	if err := g.Update(t.Context(), configMap("machineHold: 10m")); err != nil {
		t.Fatal(err)
	}
	if g.look(); g.hooked() {
		t.Error("held for longer than it may be")
	}
}

// Without Machines nothing is asked about them.
func TestMachinesAreNotFollowedUnasked(t *testing.T) {
	g := machineRig(t)
	g.recon.Machines = nil
	if g.look(); len(g.maintenances()) != 0 {
		t.Errorf("%v", g.maintenances())
	}
	if n := len(Controller(g, g.recon.Options).Watches); n != 3 {
		t.Errorf("%d watches", n)
	}
	g.recon.Machines = &observe.Machines{Kind: observe.MachineKind.WithVersion("v1beta1")}
	if n := len(Controller(g, g.recon.Options).Watches); n != 4 {
		t.Errorf("%d watches", n)
	}
}
