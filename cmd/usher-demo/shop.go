package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

const (
	namespace = "shop"
	drained   = "node-a1"
	deadline  = time.Minute
)

// shop is a cluster of two nodes in each of three zones, with what makes drains hard on the one that is drained.
type shop struct {
	now     time.Time
	cluster *snapshot.Cluster
}

func newShop(now time.Time) snapshot.View {
	s := shop{now, snapshot.NewCluster()}
	for _, zone := range []string{"a", "b", "c"} {
		s.node("node-"+zone+"1", "zone-"+zone)
		s.node("node-"+zone+"2", "zone-"+zone)
	}
	s.run(app{kind: "Deployment", name: "web", on: []string{drained, drained, "node-a2", "node-b1", "node-b2", "node-c1"}})
	s.atLeast("web", 5)
	// One pod that must always be there: a budget that never allows an eviction.
	s.run(app{kind: "Deployment", name: "payments", on: []string{drained}})
	s.atLeast("payments", 1)
	s.run(app{kind: "StatefulSet", name: "orders-db", on: []string{"node-b1", drained, "node-c1"}, priority: 1000, disk: true})
	s.atLeast("orders-db", 2)
	// A pod that tolerates the cordon, and comes back to the node as often as it is evicted.
	s.run(app{kind: "Deployment", name: "node-tools", on: []string{drained}, pinned: true})
	s.run(app{kind: "DaemonSet", name: "log-agent", on: []string{drained, "node-a2", "node-b1", "node-b2", "node-c1", "node-c2"}})
	s.pod("debug-shell", drained, snapshot.Owner{}, app{name: "debug-shell"})
	return snapshot.View{Now: now, Cluster: s.cluster}
}

// app is a workload, with one pod on each of the nodes.
type app struct {
	kind, name string
	on         []string
	priority   int32
	disk       bool // each pod has a volume of its own
	pinned     bool // to its node, whatever its taints
}

func (s shop) node(name, zone string) {
	s.cluster.SetNode(&snapshot.Node{
		Name: name, UID: types.UID(name), ResourceVersion: "1", Zone: zone, Ready: true,
		Labels:      map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name},
		Allocatable: snapshot.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110},
	})
}

func (s shop) run(a app) {
	top := &snapshot.Workload{
		Kind: a.kind, Namespace: namespace, Name: a.name, UID: types.UID(a.kind + "-" + a.name), ResourceVersion: "1",
		Labels: map[string]string{"app": a.name}, Replicas: int32(len(a.on)), Settled: true,
	}
	s.cluster.SetWorkload(top)
	owner, suffix := top, func(i int) string { return strconv.Itoa(i) }
	if a.kind == "Deployment" {
		set := *top
		set.Kind, set.Name, set.UID = "ReplicaSet", a.name+"-5d9c", types.UID("ReplicaSet-"+a.name)
		set.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: top.Kind, Name: top.Name, UID: top.UID}
		s.cluster.SetWorkload(&set)
		owner, suffix = &set, func(i int) string { return fmt.Sprintf("x%dq", i) }
	}
	for i, node := range a.on {
		s.pod(owner.Name+"-"+suffix(i), node, snapshot.Owner{APIVersion: "apps/v1", Kind: owner.Kind, Name: owner.Name, UID: owner.UID}, a)
	}
}

func (s shop) pod(name, node string, owner snapshot.Owner, a app) {
	since := s.now.Add(-time.Hour)
	p := &snapshot.Pod{
		Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1", Node: node, Owner: owner,
		Labels: map[string]string{"app": a.name}, Phase: corev1.PodRunning, Created: since, Ready: true, ReadySince: since.Add(5 * time.Second),
		Grace: 10 * time.Second, Priority: a.priority, Requests: snapshot.Resources{MilliCPU: 250, Memory: 256 << 20},
	}
	if a.pinned {
		p.NodeSelector = map[string]string{corev1.LabelHostname: node}
		p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if a.disk {
		claim := "data-" + name
		p.Claims = []string{claim}
		s.cluster.SetClaim(&snapshot.Claim{Namespace: namespace, Name: claim, Volume: "pv-" + name})
		s.cluster.SetAttachment(&snapshot.Attachment{Name: "va-" + name, Node: node, Volume: "pv-" + name})
	}
	s.cluster.SetPod(p)
}

// atLeast gives an app the budget that so many of its pods are always ready.
func (s shop) atLeast(app string, ready int32) {
	pods := int32(0)
	for _, p := range s.cluster.PodsIn(namespace) {
		if p.Labels["app"] == app {
			pods++
		}
	}
	least := intstr.FromInt32(ready)
	s.cluster.SetBudget(&snapshot.Budget{
		Namespace: namespace, Name: app, UID: types.UID("budget-" + app), ResourceVersion: "1",
		Selector: labels.SelectorFromSet(labels.Set{"app": app}), MinAvailable: &least,
		Observed: true, Allowed: pods - ready, Current: pods, Desired: ready, Expected: pods,
	})
}
