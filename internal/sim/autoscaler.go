package sim

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// wakeScaler lets an autoscaler look at its workload at the end of its period.
func (s *Sim) wakeScaler(key snapshot.Key, in time.Duration) {
	s.after(in, func() { s.autoscale(key) })
}

// autoscale holds a workload at what the metrics ask for, within the bounds. The
// metrics are taken to ask for what was there before.
func (s *Sim) autoscale(key snapshot.Key) {
	a, w := s.scalerAndTarget(key)
	if w == nil {
		return
	}
	want := min(max(s.desiredByAutoscaler(a, w), a.Min), a.Max)
	switch {
	case want > w.Replicas:
		s.resize(w, want)
	case want < w.Replicas:
		s.after(s.cfg.ScaleDown, func() { s.relax(key) })
	}
}

// relax scales down after the stabilisation window, if that is still wanted.
func (s *Sim) relax(key snapshot.Key) {
	a, w := s.scalerAndTarget(key)
	if w == nil {
		return
	}
	if want := max(s.desiredByAutoscaler(a, w), a.Min); want < w.Replicas {
		s.resize(w, want)
	}
}

func (s *Sim) desiredByAutoscaler(a *snapshot.Autoscaler, w *snapshot.Workload) int32 {
	desired, known := s.desired[a.Key()]
	if !known {
		desired = w.Replicas
		s.desired[a.Key()] = desired
	}
	return desired
}

func (s *Sim) scalerAndTarget(key snapshot.Key) (*snapshot.Autoscaler, *snapshot.Workload) {
	for _, a := range s.truth.Autoscalers() {
		if a.Key() != key {
			continue
		}
		for _, w := range s.truth.Workloads() {
			if a.Rules(w) {
				return a, w
			}
		}
	}
	return nil, nil
}

// resize sets a workload's replicas as any client of the API may.
func (s *Sim) resize(w *snapshot.Workload, replicas int32) {
	changed := *w
	changed.Replicas = replicas
	s.rescaled(&changed)
}

// rescaled makes a workload with new replicas true and lets its controllers act.
func (s *Sim) rescaled(w *snapshot.Workload) {
	if w.Kind == "Deployment" {
		s.busy[w.UID] = s.busy[w.UID] || w.Settled
		w.Settled = false
		s.setWorkload(w)
		s.spread(w)
		return
	}
	s.setWorkload(w)
	s.wake(s.controllerFor(w))
}
