package realfdb

import (
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// kill ends the machine of a member and starts it again: its pods come back with what their volumes have, and with other IPs.
func (d *database) kill(t *testing.T) {
	t.Helper()
	node := d.node(t, d.coordinator(t).Spec.NodeName)
	before := on(d.members(t, ""), node.Name)
	if err := syscall.Kill(node.PID(), syscall.SIGKILL); err != nil { // with which all its processes end
		t.Fatal(err)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, d.lab.Pods(d.namespace), "its pods to be back", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(before, func(was corev1.Pod) bool {
			return !slices.ContainsFunc(all, func(p *corev1.Pod) bool {
				return p.UID == was.UID && testlab.PodReady(p) && p.Status.ContainerStatuses[0].ContainerID != was.Status.ContainerStatuses[0].ContainerID
			})
		})
	})
	d.coordinatesFrom(t)
	d.isWhole(t, size)
}

// lose ends the machine of a member for good, and has the cluster forget it; a person asks for the replacement of what was on it.
func (d *database) lose(t *testing.T) {
	t.Helper()
	node := d.node(t, d.members(t, "storage")[3].Spec.NodeName)
	lost := on(d.members(t, ""), node.Name)
	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.lab.Client().CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.managersLeave(t, node.Name)
	for _, p := range lost {
		d.request(t, p)
	}
	d.areReplaced(t, lost)
}

// managersLeave deletes the pods of managers on a node that is gone, as the control plane does after a while, and waits for others: till then the Service of the
// webhook leads there, and no request is taken.
func (d *database) managersLeave(t *testing.T, node string) {
	t.Helper()
	managers := d.lab.Client().CoreV1().Pods(managerNamespace)
	err := managers.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, d.lab.Pods(managerNamespace), "managers on nodes that are there", func(all []*corev1.Pod) bool {
		ready := 0
		for _, p := range all {
			if p.Spec.NodeName == node {
				return false
			}
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
				ready++
			}
		}
		return ready == 2
	})
}

// drain has kubectl drain a node, and returns the members that were on it.
func (d *database) drain(t *testing.T, node string) []corev1.Pod {
	t.Helper()
	before := on(d.members(t, ""), node)
	defer d.kubectl(t, "", "uncordon", node)
	d.kubectl(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app=fdb", "--timeout="+stepLimit.String())
	return before
}

// drainReplacing: the volumes can be used on that node alone, so other members take the places of those that are there.
func (d *database) drainReplacing(t *testing.T) {
	t.Helper()
	before := d.drain(t, d.members(t, "storage")[0].Spec.NodeName)
	d.isWhole(t, size)
	d.areGone(t, before)
}

// drainRecreating: the set has the pods be made anew, and their volumes have them wait for the node.
func (d *database) drainRecreating(t *testing.T) {
	t.Helper()
	node := d.alone(t).Spec.NodeName
	d.patch(t, `{"op": "replace", "path": "/spec/onEviction", "value": "Recreate"}`)
	waitUntil(t, d.lab.Pods(d.namespace), "pods to say so", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Annotations[v1alpha1.OnEvictionAnnotation] != v1alpha1.PodRecreates })
	})
	before := d.drain(t, node)
	d.isWhole(t, size)
	d.areOthers(t, before)
	d.patch(t, `{"op": "replace", "path": "/spec/onEviction", "value": "Auto"}`)
}

// alone is a storage server that has its node for itself: a second member of a drained node would stay for the two minutes in which the first, which waits for the
// node, is missing.
func (d *database) alone(t *testing.T) corev1.Pod {
	t.Helper()
	all, storage := d.members(t, ""), d.members(t, "storage")
	at := slices.IndexFunc(storage, func(p corev1.Pod) bool { return len(on(all, p.Spec.NodeName)) == 1 })
	if at < 0 {
		t.Fatal("every storage server shares its node")
	}
	return storage[at]
}

// taint has repair replace the members of a node for its taint.
func (d *database) taint(t *testing.T) {
	t.Helper()
	node := d.members(t, "storage")[2].Spec.NodeName
	before := on(d.members(t, ""), node)
	d.patch(t, `{"op": "add", "path": "/spec/repair", "value": {"mode": "Automatic", "unhealthyConditions": ["NodeTainted"], "taintedAfter": "0s",
		"taints": [{"key": "lab.usher.sh/worn", "after": "1s"}], "maxInFlight": {"zones": 1}, "stopAbove": {"zones": 1}}}`)
	d.kubectl(t, "", "taint", "node", node, "lab.usher.sh/worn=:NoSchedule")
	d.areReplaced(t, before)
	d.kubectl(t, "", "taint", "node", node, "lab.usher.sh/worn-")
	d.patch(t, `{"op": "remove", "path": "/spec/repair"}`)
}

// node is the one of a name.
func (d *database) node(t *testing.T, name string) *realnode.Node {
	t.Helper()
	at := slices.IndexFunc(d.nodes, func(n *realnode.Node) bool { return n.Name == name })
	if at < 0 {
		t.Fatalf("there is no node %q", name)
	}
	return d.nodes[at]
}
