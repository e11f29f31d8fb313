package sim

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/snapshot"
)

// spread lets a Deployment set the replicas of its newest ReplicaSet, taken to be
// the one with most replicas.
func (s *Sim) spread(d *snapshot.Workload) {
	s.after(s.cfg.Controllers, func() {
		d := s.truth.Workload(d.UID)
		if d == nil {
			return
		}
		sets := s.truth.WorkloadsOf(d.AsOwner())
		newest := newestOf(sets)
		if newest == nil {
			return
		}
		changed := *newest
		changed.Replicas = d.Replicas
		for _, set := range sets {
			if set.UID != newest.UID {
				changed.Replicas -= set.Replicas
			}
		}
		changed.Replicas = max(0, changed.Replicas)
		s.setWorkload(&changed)
		s.wake(s.controllerFor(&changed))
	})
}

func newestOf(sets []*snapshot.Workload) *snapshot.Workload {
	var newest *snapshot.Workload
	for _, set := range sets {
		if newest == nil || set.Replicas > newest.Replicas {
			newest = set
		}
	}
	return newest
}

// controllerFor returns the controller of a workload that may have no pods yet.
func (s *Sim) controllerFor(w *snapshot.Workload) *replicaController {
	key := w.AsOwner()
	if s.controllers[key] == nil {
		version := schema.GroupVersion{Group: key.Group, Version: "v1"}
		owner := snapshot.Owner{APIVersion: version.String(), Kind: w.Kind, Name: w.Name, UID: w.UID}
		s.controllers[key] = s.controllerOf(owner, w.Namespace, &snapshot.Pod{Labels: w.Labels, Grace: defaultGrace})
	}
	return s.controllers[key]
}

// unsettle notes that a Deployment's controllers have work to do, settle that they
// have done it. A rollout that was under way at the start is never done.
func (s *Sim) unsettle(c *replicaController) {
	if d := s.deploymentOf(c); s.cfg.Controllers > 0 && d != nil && d.Settled {
		s.markSettled(d, false)
	}
}

func (s *Sim) settle(c *replicaController) {
	if d := s.deploymentOf(c); d != nil && s.busy[d.UID] {
		s.markSettled(d, true)
	}
}

func (s *Sim) markSettled(d *snapshot.Workload, settled bool) {
	changed := *d
	changed.Settled = settled
	s.busy[d.UID] = !settled
	s.setWorkload(&changed)
}

func (s *Sim) deploymentOf(c *replicaController) *snapshot.Workload {
	w := s.truth.WorkloadOf(c.key())
	if w == nil {
		return nil
	}
	return s.truth.WorkloadOf(w.OwnerKey())
}
