package sim

import (
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Do carries an action out as the API server does and answers it. What follows
// from it happens in Advance.
func (s *Sim) Do(a drain.Action) answers.Answer {
	s.oracle.noted(s, a)
	switch f := s.cfg.Faults; {
	case s.chance(f.Outages):
		return answers.Answer{Code: answers.Unavailable, Message: "connection refused"}
	case s.chance(f.Conflicts):
		return conflict()
	}
	s.oracle.asked(s, a)
	answer := s.carryOut(a)
	if s.chance(s.cfg.Faults.LostAnswers) {
		return answers.Answer{Code: answers.Unavailable, Message: "connection reset by peer"}
	}
	return answer
}

func (s *Sim) carryOut(a drain.Action) answers.Answer {
	switch a.Kind {
	case drain.Evict:
		return s.evict(a)
	case drain.Delete:
		return s.deletePod(a)
	case drain.LowerCost, drain.RestoreCost:
		return s.writeCost(a)
	case drain.Ask:
		return s.ask(a)
	case drain.Withdraw:
		return s.withdraw(a)
	case drain.Scale:
		return s.scale(a)
	case drain.ScaleMin:
		return s.scaleMin(a)
	case drain.RenewLease, drain.DeleteLease:
		return s.writeLease(a)
	default:
		return s.writeNode(a)
	}
}

func conflict() answers.Answer {
	return answers.Answer{Code: answers.Conflict, Message: "the object has been modified; please apply your changes to the latest version and try again"}
}

func gone() answers.Answer { return answers.Answer{Code: answers.Gone, Message: "not found"} }

func (s *Sim) writeNode(a drain.Action) answers.Answer {
	n := s.truth.Node(a.Node.Name)
	if n == nil || n.UID != a.Node.UID {
		return gone()
	}
	if (a.Kind != drain.Mark || a.Lapsed) && n.ResourceVersion != a.Node.ResourceVersion {
		return conflict()
	}
	changed := *n
	switch a.Kind {
	case drain.Cordon:
		changed.Unschedulable, changed.Drain = true, a.Record // a cordon that stands keeps its owner
	case drain.Mark:
		changed.Drain = a.Record
	case drain.Uncordon:
		changed.Unschedulable, changed.CordonedBy, changed.CordonLost, changed.Drain = false, "", false, nil
	case drain.Unmark:
		changed.Drain = nil
	default:
		return answers.Answer{Code: answers.Rejected, Message: "unknown action " + string(a.Kind)}
	}
	s.setNode(&changed)
	return answers.Answer{Code: answers.Accepted}
}

func (s *Sim) writeCost(a drain.Action) answers.Answer {
	p := s.truth.Pod(a.Pod.UID)
	switch {
	case s.cfg.Faults.NoCost:
		return forbidden("patch pods")
	case p == nil:
		return gone()
	case p.ResourceVersion != a.Pod.ResourceVersion:
		return conflict()
	case a.Kind == drain.LowerCost:
		s.changePod(p.UID, func(p *snapshot.Pod) { lowerCost(p, a.Drain) })
	default:
		s.changePod(p.UID, restoreCost)
	}
	return answers.Answer{Code: answers.Accepted}
}

func lowerCost(p *snapshot.Pod, drainID string) {
	p.CostMark = drainID
	if p.DeletionCost != "" {
		p.CostMark += "=" + p.DeletionCost
	}
	p.DeletionCost = snapshot.LowestCost
}

func restoreCost(p *snapshot.Pod) {
	p.DeletionCost, p.CostMark = p.CostToRestore(), ""
}

func forbidden(what string) answers.Answer {
	return answers.Answer{Code: answers.Forbidden, Message: "cannot " + what + ": forbidden"}
}

func (s *Sim) scale(a drain.Action) answers.Answer {
	w := s.truth.Workload(a.Workload.UID)
	switch {
	case s.cfg.Faults.NoScale:
		return forbidden("patch deployments")
	case w == nil:
		return gone()
	case w.ResourceVersion != a.Workload.ResourceVersion:
		return conflict()
	}
	changed := *w
	changed.Replicas, changed.Surge = a.Replicas, a.Surge
	if scaler := s.truth.AutoscalerOf(w); scaler != nil {
		s.desiredByAutoscaler(scaler, w)
		s.wakeScaler(scaler.Key(), s.cfg.Scaler)
	}
	if a.Replicas == w.Replicas {
		s.setWorkload(&changed)
		return answers.Answer{Code: answers.Accepted}
	}
	s.rescaled(&changed)
	return answers.Answer{Code: answers.Accepted}
}

func (s *Sim) scaleMin(a drain.Action) answers.Answer {
	current, w := s.scalerAndTarget(a.Autoscaler.Key())
	switch {
	case s.cfg.Faults.NoScale:
		return forbidden("patch horizontalpodautoscalers")
	case w == nil:
		return gone()
	case current.ResourceVersion != a.Autoscaler.ResourceVersion:
		return conflict()
	}
	s.desiredByAutoscaler(current, w)
	changed := *current
	changed.Min, changed.Surge = a.Replicas, a.Surge
	s.setAutoscaler(&changed)
	s.wakeScaler(changed.Key(), s.cfg.Scaler)
	return answers.Answer{Code: answers.Accepted}
}
