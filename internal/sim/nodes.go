package sim

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// What tests do to the cluster behind the drain's back.

// DeleteNode takes a node away; its pods follow once the garbage collector has
// looked.
func (s *Sim) DeleteNode(name string) {
	if s.truth.Node(name) == nil {
		return
	}
	s.oracle.meddled(s)
	s.truth.DeleteNode(name)
	s.scheduler.nodeChanged(name)
	if !s.watch.direct {
		s.watch.send(nodeChannel, s.now, func(c *snapshot.Cluster) { c.DeleteNode(name) })
	}
	s.after(s.cfg.PodGC, func() {
		s.oracle.meddled(s)
		for _, p := range s.truth.PodsOn(name) {
			s.removed(p)
		}
	})
}

// SetNodeReady loses a node's kubelet or brings it back.
func (s *Sim) SetNodeReady(name string, ready bool) {
	n := s.truth.Node(name)
	if n == nil || n.Ready == ready {
		return
	}
	s.oracle.meddled(s)
	changed := *n
	changed.Ready, changed.ReadyWhy = ready, ""
	if !ready {
		changed.ReadyWhy = "NodeStatusUnknown: Kubelet stopped posting node status."
	}
	s.setNode(&changed)
	for _, p := range s.truth.PodsOn(name) {
		switch {
		case !ready && p.Ready:
			s.Flip(p.UID, false)
		case ready && p.Terminating():
			uid := p.UID
			s.after(s.takes(s.cfg.Stop, p), func() { s.stopped(uid) })
		case ready && active(p):
			s.bring(p)
		}
	}
}

// Cordon makes a node unschedulable, or schedulable again, as another client does: without a record. Only one that was schedulable
// gives that client the cordon alone.
func (s *Sim) Cordon(name string, unschedulable bool) {
	if n := s.truth.Node(name); n == nil || n.Unschedulable == unschedulable {
		return
	}
	s.changeNode(name, func(n *snapshot.Node) {
		n.Unschedulable, n.CordonedBy, n.CordonLost = unschedulable, "", false
		if unschedulable {
			n.CordonedBy, n.CordonLost = "kubectl", true
		}
	})
}

// ApplyCordon applies a cordon that stands, by server-side apply: its client has it beside who has set it.
func (s *Sim) ApplyCordon(name string) {
	s.changeNode(name, func(n *snapshot.Node) { n.CordonedBy = cmp.Or(n.CordonedBy, "argocd") })
}

// GiveBack takes cordon and record off a node, as usher uncordon does.
func (s *Sim) GiveBack(name string) {
	s.changeNode(name, func(n *snapshot.Node) { n.Unschedulable, n.CordonedBy, n.CordonLost, n.Drain = false, "", false, nil })
}

// Claim is what another drain does to a node: it cordons it and writes its record.
func (s *Sim) Claim(name string, record *snapshot.DrainRecord) {
	s.changeNode(name, func(n *snapshot.Node) { n.Unschedulable, n.Drain = true, record })
}

func (s *Sim) changeNode(name string, change func(*snapshot.Node)) {
	n := s.truth.Node(name)
	if n == nil {
		return
	}
	s.oracle.meddled(s)
	changed := *n
	change(&changed)
	s.setNode(&changed)
}

// Flip makes a pod unready, or ready again. One whose containers have not started does not get ready.
func (s *Sim) Flip(uid types.UID, ready bool) {
	p := s.truth.Pod(uid)
	if p == nil || p.Ready == ready || p.Finished() || p.Phase == corev1.PodPending {
		return
	}
	s.oracle.meddled(s)
	s.changePod(uid, func(p *snapshot.Pod) {
		p.Ready, p.ReadySince, p.NotReadyWhy = true, s.now, ""
		if !ready {
			p.Ready, p.ReadySince, p.NotReadyWhy = false, time.Time{}, "ContainersNotReady"
		}
	})
	s.readied(p)
}

// SetReplicas scales a workload as its owner would.
func (s *Sim) SetReplicas(uid types.UID, replicas int32) {
	if w := s.truth.Workload(uid); w != nil {
		s.oracle.meddled(s)
		s.resize(w, replicas)
	}
}
