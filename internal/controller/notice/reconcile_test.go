package notice

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

const nodeRules = `
rules:
- name: kernel
  condition: {type: KernelDeadlock, status: "True", for: 5m}
  action: Drain
- name: autoscaler
  taint: {key: ToBeDeletedByClusterAutoscaler}
  kind: ScaleDown
- name: disk
  condition: {type: DiskPressure, status: "True"}
`

// look reconciles once, and returns when it will again.
func (g *rig) look() time.Duration {
	g.t.Helper()
	result, err := g.recon.reconcile(g.t.Context(), reconcile.Request{})
	if err != nil {
		g.t.Fatal(err)
	}
	return result.RequeueAfter
}

// change changes node n1.
func (g *rig) change(change func(*corev1.Node)) {
	g.t.Helper()
	var n corev1.Node
	if err := g.Get(g.t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		g.t.Fatal(err)
	}
	change(&n)
	status := n.DeepCopy()
	if err := g.Update(g.t.Context(), &n); err != nil {
		g.t.Fatal(err)
	}
	status.ResourceVersion = n.ResourceVersion
	if err := g.Status().Update(g.t.Context(), status); err != nil {
		g.t.Fatal(err)
	}
}

func having(kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	}
}

// A condition drains its node once it has lasted, and the node is given back once it is over. So is one whose rule is taken away.
func TestConditionDrainsWhileItLasts(t *testing.T) {
	g := newRig(t, configMap(nodeRules))
	if after := g.look(); after != 0 {
		t.Errorf("looked at again after %s, without anything", after)
	}
	g.change(having("KernelDeadlock", "True", noon.Add(-2*time.Minute)))
	if after := g.look(); after != 3*time.Minute || len(g.maintenances()) != 0 {
		t.Errorf("looked at again after %s; %v", after, g.maintenances())
	}
	g.now = noon.Add(3 * time.Minute)
	g.look()
	if m := g.maintenances()["n1"]; m == nil || m.Spec.Requester != "condition.notice.usher.sh/Problem" || m.Spec.Concurrency.Nodes != 1 {
		t.Fatalf("%+v", m)
	}
	g.look()
	g.change(having("KernelDeadlock", "False", g.now))
	g.look()
	if left := g.maintenances(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	g.change(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"}}
	})
	g.look()
	if m := g.maintenances()["n1"]; m == nil || m.Spec.Requester != "taint.notice.usher.sh/ScaleDown" {
		t.Fatalf("%+v", m)
	}
	if err := g.Delete(t.Context(), configMap("")); err != nil {
		t.Fatal(err)
	}
	g.look()
	if left := g.maintenances(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A kubelet that shuts down has its node drained without a rule, until it is Ready again.
func TestKubeletThatShutsDown(t *testing.T) {
	g := newRig(t)
	ready := func(status corev1.ConditionStatus, reason, message string) {
		g.change(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason, Message: message}}
		})
		g.look()
	}
	ready("False", "KubeletNotReady", "node is shutting down")
	if m := g.maintenances()["n1"]; m == nil || m.Spec.Requester != "kubelet.notice.usher.sh/Shutdown" || m.Spec.Action != v1alpha1.ActionDrain {
		t.Fatalf("%+v", m)
	}
	ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
	if len(g.maintenances()) != 1 {
		t.Error("a node that has shut down is given back")
	}
	ready("True", "KubeletReady", "kubelet is posting ready status")
	if left := g.maintenances(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// What is only reported has one event, also for the process that leads next.
func TestConditionIsReportedOnce(t *testing.T) {
	g := newRig(t, configMap(nodeRules))
	g.change(having(corev1.NodeDiskPressure, "True", noon))
	created := 0
	g.faults.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		created++
		return c.Create(ctx, o, options...)
	}
	g.look()
	g.look()
	if created != 1 {
		t.Errorf("%d events are made", created)
	}
	g.recon.reported = nil
	g.look()
	var all eventsv1.EventList
	if err := g.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 1 || len(g.maintenances()) != 0 {
		t.Errorf("%+v", all.Items)
	}
	g.change(having(corev1.NodeDiskPressure, "False", noon))
	g.look()
	if len(g.recon.reported) != 0 {
		t.Errorf("remembered without end: %v", g.recon.reported)
	}
}

// By a configuration that cannot be read nothing is begun and nothing is undone; it is named once for each version.
func TestBadConfigurationUndoesNothing(t *testing.T) {
	for name, broken := range map[string]*corev1.ConfigMap{
		"a mistake": configMap("rules: [{name: a}]"),
		"no entry":  {ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: notice.ConfigName}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, configMap(nodeRules))
			g.change(having("KernelDeadlock", "True", noon.Add(-time.Hour)))
			g.look()
			if err := g.Update(t.Context(), broken.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			g.look()
			g.change(having("KernelDeadlock", "False", noon))
			g.look()
			if g.maintenances()["n1"] == nil {
				t.Error("what was begun is undone")
			}
			if len(g.events.Events) != 1 {
				t.Errorf("%d events", len(g.events.Events))
			}
		})
	}
}

// What time brings is done by the controller: a notice that is not sent again ends, and one in hours begins.
func TestTimeEndsAndBegins(t *testing.T) {
	g := newRig(t, configMap(`{beginBefore: 10m, rules: [{name: spot, alert: {matchers: [alertname="Spot"]}, kind: Termination, effectiveAfter: 1h}]}`))
	g.send(shared, array(alert("Spot", "n1", ""))) // stands for 4 minutes
	g.send(shared, webhook(alert("Spot", "n2", "firing")))
	if after := g.look(); after != 4*time.Minute {
		t.Errorf("looked at after %s", after)
	}
	g.now = noon.Add(4 * time.Minute)
	if after := g.look(); after != 46*time.Minute {
		t.Errorf("looked at after %s", after)
	}
	left := g.maintenances()
	if left["n1"] != nil || left["n2"] == nil || !left["n2"].Spec.Suspend {
		t.Fatalf("left: %v", left)
	}
	g.now = noon.Add(50 * time.Minute)
	if after := g.look(); after != 0 || g.maintenances()["n2"].Spec.Suspend {
		t.Errorf("looked at after %s, %+v", after, g.maintenances()["n2"])
	}
}

// What is refused is tried again, and keeps no other notice.
func TestRefusedIsTriedAgain(t *testing.T) {
	g := newRig(t, configMap(nodeRules))
	g.change(func(n *corev1.Node) {
		having("KernelDeadlock", "True", noon.Add(-time.Hour))(n)
		n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	})
	g.faults.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if m, is := o.(*v1alpha1.NodeMaintenance); is && m.Spec.Requester == "condition.notice.usher.sh/Problem" {
			return errors.New("connection refused")
		}
		return c.Create(ctx, o, options...)
	}
	if after := g.look(); after != failedAgain || len(g.maintenances()) != 1 {
		t.Errorf("looked at again after %s; %v", after, g.maintenances())
	}
}

// A maintenance whose status changes while it is withdrawn is withdrawn a moment later, though no event says so.
func TestRacedIsTriedAgain(t *testing.T) {
	g := newRig(t, configMap(nodeRules))
	g.change(having("KernelDeadlock", "True", noon.Add(-time.Hour)))
	g.look()
	g.change(having("KernelDeadlock", "False", noon))
	g.faults.Delete = func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("changed"))
	}
	if after := g.look(); after != racedAgain {
		t.Errorf("looked at again after %s", after)
	}
}

func TestWatches(t *testing.T) {
	g := newRig(t)
	c := Controller(g, g.recon.Options)
	before := node("n1")
	having("Ready", "True", noon)(before)
	update := func(object client.Object, change func(client.Object)) event.UpdateEvent {
		after, _ := object.DeepCopyObject().(client.Object)
		change(after)
		return event.UpdateEvent{ObjectOld: object, ObjectNew: after}
	}
	ofNode := func(change func(*corev1.Node)) event.UpdateEvent {
		return update(before, func(o client.Object) { change(o.(*corev1.Node)) })
	}
	for name, test := range map[string]struct {
		e    event.UpdateEvent
		want bool
	}{
		"a heartbeat": {ofNode(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon) }), false},
		"a label":     {ofNode(func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), false},
		"a status":    {ofNode(having("Ready", "False", noon)), true},
		"a message":   {ofNode(func(n *corev1.Node) { n.Status.Conditions[0].Message = "node is shutting down" }), true},
		"a taint":     {ofNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }), true},
	} {
		if got := c.Watches[0].When.Update(test.e); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := &v1alpha1.NodeMaintenance{Spec: v1alpha1.NodeMaintenanceSpec{Requester: "ec2.notice.usher.sh/Reboot"}}
	person := &v1alpha1.NodeMaintenance{Spec: v1alpha1.NodeMaintenanceSpec{Requester: "person.usher.sh/anna"}}
	for name, test := range map[string]struct {
		e    event.UpdateEvent
		want bool
	}{
		"its status":   {update(m, func(o client.Object) { o.SetResourceVersion("2") }), false},
		"its spec":     {update(m, func(o client.Object) { o.SetGeneration(2) }), true},
		"a time of it": {update(m, func(o client.Object) { o.SetAnnotations(map[string]string{notice.EndAnnotation: "a"}) }), true},
	} {
		if got := c.Watches[2].When.Update(test.e); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := configMap("")
	other.Name = "other"
	for name, test := range map[string]struct {
		keys int
		want int
	}{
		"its configuration": {len(c.Watches[1].Keys(t.Context(), configMap(""))), 1}, "another ConfigMap": {len(c.Watches[1].Keys(t.Context(), other)), 0},
		"a notice's maintenance": {len(c.Watches[2].Keys(t.Context(), m)), 1}, "a person's": {len(c.Watches[2].Keys(t.Context(), person)), 0},
	} {
		if test.keys != test.want {
			t.Errorf("%s wakes %d keys", name, test.keys)
		}
	}
}
