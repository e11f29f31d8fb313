package sim

import (
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// setPod makes a pod true and updates all that counts it.
func (s *Sim) setPod(p *snapshot.Pod) {
	p.ResourceVersion = s.version()
	s.meet(p)
	s.guards.load(p.Namespace)
	former := s.truth.Pod(p.UID)
	s.truth.SetPod(p)
	s.counted(former, p)
	if !s.watch.direct {
		s.watch.send(podChannel, s.now, func(c *snapshot.Cluster) { c.SetPod(p) })
	}
}

// removePod takes a pod out of the API.
func (s *Sim) removePod(p *snapshot.Pod) {
	s.meet(p)
	s.guards.load(p.Namespace)
	s.truth.DeletePod(p.UID)
	s.counted(p, nil)
	if !s.watch.direct {
		uid := p.UID
		s.watch.send(podChannel, s.now, func(c *snapshot.Cluster) { c.DeletePod(uid) })
	}
}

// counted lets budgets and scheduler account for a pod that has changed its state.
func (s *Sim) counted(former, p *snapshot.Pod) {
	if former != nil {
		s.scheduler.release(former)
	}
	if p != nil {
		s.scheduler.occupy(p)
	}
	for _, g := range s.guards.count(former, p) {
		s.wakeGuard(g)
	}
	if s.scheduler.roomGrew() {
		s.wakeScheduler()
	}
}

func (s *Sim) setNode(n *snapshot.Node) {
	n.ResourceVersion = s.version()
	before := s.truth.Node(n.Name)
	s.truth.SetNode(n)
	s.givenBack(before, n)
	s.scheduler.nodeChanged(n.Name)
	if s.scheduler.roomGrew() {
		s.wakeScheduler()
	}
	if !s.watch.direct {
		s.watch.send(nodeChannel, s.now, func(c *snapshot.Cluster) { c.SetNode(n) })
	}
}

func (s *Sim) setBudget(g *budgetTracker, b *snapshot.Budget) {
	b.ResourceVersion = s.version()
	g.budget, g.lowest = b, min(g.lowest, b.Current)
	s.truth.SetBudget(b)
	if !s.watch.direct {
		s.watch.send(budgetChannel, s.now, func(c *snapshot.Cluster) { c.SetBudget(b) })
	}
}

func (s *Sim) setWorkload(w *snapshot.Workload) {
	w.ResourceVersion = s.version()
	s.truth.SetWorkload(w)
	if !s.watch.direct {
		s.watch.send(workloadChannel, s.now, func(c *snapshot.Cluster) { c.SetWorkload(w) })
	}
}

func (s *Sim) setAutoscaler(a *snapshot.Autoscaler) {
	a.ResourceVersion = s.version()
	s.truth.SetAutoscaler(a)
	if !s.watch.direct {
		s.watch.send(workloadChannel, s.now, func(c *snapshot.Cluster) { c.SetAutoscaler(a) })
	}
}

func (s *Sim) deleteAttachment(name string) {
	s.truth.DeleteAttachment(name)
	if !s.watch.direct {
		s.watch.send(nodeChannel, s.now, func(c *snapshot.Cluster) { c.DeleteAttachment(name) })
	}
}

// changePod applies an edit to a copy of the pod, if it still exists.
func (s *Sim) changePod(uid types.UID, edit func(*snapshot.Pod)) {
	p := s.truth.Pod(uid)
	if p == nil {
		return
	}
	changed := *p
	edit(&changed)
	s.setPod(&changed)
}
