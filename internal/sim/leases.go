package sim

import (
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func (s *Sim) writeLease(a drain.Action) answers.Answer {
	present, _ := s.truth.LeaseOf(a.Lease.ID)
	switch {
	case s.cfg.Faults.NoLease:
		return forbidden("write leases")
	case a.Lease.UID == "" && present != nil:
		return conflict()
	case a.Lease.UID != "" && (present == nil || present.UID != a.Lease.UID):
		return gone()
	case a.Lease.UID != "" && present.ResourceVersion != a.Lease.ResourceVersion:
		return conflict()
	case a.Kind == drain.DeleteLease:
		s.deleteLease(a.Lease.ID)
	default:
		s.setLease(*a.Lease)
	}
	return answers.Answer{Code: answers.Accepted}
}

func (s *Sim) setLease(l snapshot.Lease) {
	l.ResourceVersion = s.version()
	if l.UID == "" {
		l.UID = types.UID("lease-" + l.ResourceVersion)
	}
	s.truth.SetLease(&l)
	if !s.watch.direct {
		s.watch.send(leaseChannel, s.now, func(c *snapshot.Cluster) { c.SetLease(&l) })
	}
}

func (s *Sim) deleteLease(id string) {
	s.truth.DeleteLease(id)
	if !s.watch.direct {
		s.watch.send(leaseChannel, s.now, func(c *snapshot.Cluster) { c.DeleteLease(id) })
	}
}
