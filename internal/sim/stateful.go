package sim

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// reconcileStateful is the StatefulSet controller with OrderedReady: one pod at a
// time, in order, a name only after its former bearer is gone.
func (s *Sim) reconcileStateful(c *replicaController) {
	w := s.truth.WorkloadOf(c.key())
	want := int(s.wanted(c))
	for ordinal := c.first; ordinal < c.first+want; ordinal++ {
		name := c.owner.Name + "-" + strconv.Itoa(ordinal)
		p := s.truth.PodNamed(snapshot.Key{Namespace: c.space, Name: name})
		if p == nil {
			s.create(c, name, "")
			return
		}
		if p.Terminating() || !p.Ready || w != nil && !p.AvailableAt(s.now, w.MinReady) {
			s.lookAgainAt(c, p, w)
			return
		}
	}
	s.dropAbove(c, c.first+want)
}

// lookAgainAt wakes the controller when a ready pod becomes available.
func (s *Sim) lookAgainAt(c *replicaController, p *snapshot.Pod, w *snapshot.Workload) {
	if w != nil && p.Ready && !p.Terminating() {
		s.after(p.ReadySince.Add(w.MinReady).Sub(s.now), func() { s.wake(c) })
	}
}

// dropAbove scales down from the greatest ordinal, one pod at a time.
func (s *Sim) dropAbove(c *replicaController, end int) {
	var last *snapshot.Pod
	greatest := 0
	for _, p := range s.truth.PodsOf(c.key()) {
		if at, _ := p.Ordinal(); at >= end && (last == nil || at > greatest) {
			last, greatest = p, at
		}
	}
	if last != nil && !last.Terminating() {
		s.terminate(last, nil)
	}
}

// reconcileDaemons is the DaemonSet controller: it puts its pod back on each node
// that lost one, cordoned or not.
func (s *Sim) reconcileDaemons(c *replicaController) {
	there := map[string]bool{}
	for _, p := range s.truth.PodsOf(c.key()) {
		there[p.Node] = there[p.Node] || p.Phase != corev1.PodFailed
	}
	for _, node := range c.lost {
		if s.truth.Node(node) != nil && !there[node] {
			there[node] = true
			s.create(c, c.owner.Name+"-"+suffix(s.count()), node)
		}
	}
	c.lost = nil
}
