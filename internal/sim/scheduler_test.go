package sim_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

func TestSchedulerFilters(t *testing.T) {
	taint := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name string
		node nodeOption
		pod  podOption
		why  string // "" if it fits
	}{
		{name: "room", node: func(*snapshot.Node) {}},
		{name: "cordoned", node: func(n *snapshot.Node) { n.Unschedulable = true }, why: "2 node(s) were unschedulable"},
		{name: "not ready", node: func(n *snapshot.Node) { n.Ready = false }, why: "1 node(s) were not ready"},
		{name: "tainted", node: func(n *snapshot.Node) { n.Taints = []corev1.Taint{taint} }, why: "1 node(s) had untolerated taint(s)"},
		{
			name: "tolerated", node: func(n *snapshot.Node) { n.Taints = []corev1.Taint{taint} },
			pod: func(p *snapshot.Pod) {
				p.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			},
		},
		{
			name: "preferred taint", node: func(n *snapshot.Node) {
				n.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectPreferNoSchedule}}
			},
		},
		{
			name: "selector", node: func(*snapshot.Node) {}, pod: func(p *snapshot.Pod) { p.NodeSelector = map[string]string{"zone": "z9"} },
			why: "1 node(s) didn't match Pod's node affinity/selector",
		},
		{name: "cpu", node: func(n *snapshot.Node) { n.Allocatable.MilliCPU = 50 }, why: "1 Insufficient cpu"},
		{name: "memory", node: func(n *snapshot.Node) { n.Allocatable.Memory = 1 << 20 }, why: "1 Insufficient memory"},
		{name: "pods", node: func(n *snapshot.Node) { n.Allocatable.Pods = 1 }, why: "1 Too many pods"},
		{name: "says nothing of its room", node: func(n *snapshot.Node) { n.Allocatable = snapshot.Resources{} }},
		{
			name: "apart from its kind", node: func(*snapshot.Node) {}, pod: func(p *snapshot.Pod) { p.SpreadHosts = true },
			why: "1 node(s) didn't match pod anti-affinity rules",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1")
			w.node("b", "z1", c.node)
			option := func(p *snapshot.Pod) {
				if c.pod != nil {
					c.pod(p)
				}
			}
			w.workload("Deployment", "web", []string{"a", "b"}, option)
			s := sim.New(w.view(), sim.Config{})
			s.Cordon("a", true)
			evict(s, podNamed(s, "web-0"))
			settle(s)
			why := ""
			for _, p := range s.Truth().Cluster.PodsIn("shop") {
				if p.Unschedulable {
					why = p.NotReadyWhy
				}
			}
			if want := c.why; want != "" {
				if c.name != "cordoned" {
					want += ", 1 node(s) were unschedulable"
				}
				want = fmt.Sprintf("0/2 nodes are available: %s.", want)
				if why != want && why != swapped(c.why) {
					t.Errorf("got %q, want %q", why, want)
				}
			} else if why != "" {
				t.Errorf("finds no node: %s", why)
			}
		})
	}
}

// swapped is the message with its two reasons in the other order.
func swapped(why string) string {
	return fmt.Sprintf("0/2 nodes are available: 1 node(s) were unschedulable, %s.", why)
}

// TestPendingPodsGetRoom: a pod that found no node is tried again when room appears.
func TestPendingPodsGetRoom(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z1", func(n *snapshot.Node) { n.Allocatable.Pods = 1 })
	w.pod("tenant", "b")
	w.workload("Deployment", "web", []string{"a"})
	s := sim.New(w.view(), sim.Config{Stop: after(time.Second)})
	s.Cordon("a", true)
	evict(s, podNamed(s, "web-0"))
	s.Advance(w.now.Add(10 * time.Second))
	if pods := s.Truth().Cluster.PodsOn(""); len(pods) != 1 || !pods[0].Unschedulable {
		t.Fatalf("pods: %v", names(s))
	}
	evict(s, podNamed(s, "tenant"))
	settle(s)
	if pods := s.Truth().Cluster.PodsOn("b"); len(pods) != 1 || pods[0].Unschedulable || !pods[0].Ready {
		t.Errorf("pods: %v", names(s))
	}
}

// TestSchedulerNeverOverfills, and leaves no pod pending that fits.
func TestSchedulerNeverOverfills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		var on []string
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			name := fmt.Sprintf("n%d", i)
			w.node(name, "z", func(n *snapshot.Node) {
				n.Allocatable = snapshot.Resources{MilliCPU: rapid.Int64Range(100, 1000).Draw(t, "cpu"), Memory: 1 << 30, Pods: rapid.Int64Range(1, 6).Draw(t, "pods")}
			})
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "workloads") {
			cpu := rapid.Int64Range(0, 500).Draw(t, "asks")
			top := w.workload("ReplicaSet", fmt.Sprintf("w%d", i), on, func(p *snapshot.Pod) { p.Requests.MilliCPU = cpu })
			w.pod(top.Name+"-seed", "", func(p *snapshot.Pod) {
				p.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: top.Name, UID: top.UID}
				p.Requests = snapshot.Resources{MilliCPU: cpu}
			})
		}
		s := sim.New(w.view(), sim.Config{Stop: after(time.Second)})
		for _, top := range s.Truth().Cluster.Workloads() {
			s.SetReplicas(top.UID, rapid.Int32Range(0, 5).Draw(t, "replicas"))
			settle(s)
		}
		fitting(t, s)
	})
}

func fitting(t *rapid.T, s *sim.Sim) {
	t.Helper()
	c := s.Truth().Cluster
	free := map[string]snapshot.Resources{}
	for _, n := range c.Nodes() {
		room := n.Allocatable
		for _, p := range c.PodsOn(n.Name) {
			room.MilliCPU, room.Pods = room.MilliCPU-p.Requests.MilliCPU, room.Pods-1
		}
		if room.MilliCPU < 0 || room.Pods < 0 {
			t.Fatalf("%s is overfull: %+v", n.Name, room)
		}
		free[n.Name] = room
	}
	for _, p := range c.PodsOn("") {
		for name, room := range free {
			if room.Pods > 0 && room.MilliCPU >= p.Requests.MilliCPU {
				t.Fatalf("%s is pending (%s), but %s has %+v free", p.Name, p.NotReadyWhy, name, room)
			}
		}
	}
}
