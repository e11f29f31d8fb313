package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// resume picks up what was under way when the view was taken: pods that are
// starting or ending on any node.
func (s *Sim) resume() {
	var found []*snapshot.Pod
	s.truth.EachPod(func(p *snapshot.Pod) {
		if p.Terminating() || !p.Ready && !p.Finished() {
			found = append(found, p)
		}
	})
	slices.SortFunc(found, snapshot.ComparePods)
	for _, p := range found {
		switch {
		case p.Terminating():
			s.endOn(p, s.takes(s.cfg.Stop, p))
		case p.Node == "":
			s.queue(p)
		default:
			s.bring(p)
		}
	}
}

// defaultGrace is what a pod gets that asks for none.
const defaultGrace = 30 * time.Second

// overdue is how long after its grace a pod that is still there is taken to stay.
const overdue = time.Minute

// endOn lets a pod that was terminating at the start go, unless it is overdue, or its
// grace is over and it has finalizers: what held it so far goes on holding it.
func (s *Sim) endOn(p *snapshot.Pod, stop time.Duration) {
	left := p.Deletion.Sub(s.now)
	if left < -overdue || (left <= 0 && len(p.Finalizers) > 0) {
		return
	}
	uid := p.UID
	s.after(max(min(left, stop), time.Nanosecond), func() { s.stopped(uid) })
}

// terminate begins the deletion of a pod as the API does. A second deletion can only
// shorten the grace.
func (s *Sim) terminate(p *snapshot.Pod, asked *time.Duration) {
	grace := p.Grace
	if asked != nil {
		grace = *asked
	}
	if p.Node == "" || p.Finished() {
		grace = 0
	}
	due := s.now.Add(grace)
	if p.Terminating() && !due.Before(p.Deletion) {
		return
	}
	uid := p.UID
	if grace == 0 && !s.stuck(p) {
		s.removed(p)
		return
	}
	s.changePod(uid, func(p *snapshot.Pod) { p.Deletion, p.Grace = due, grace })
	s.after(min(grace, s.takes(s.cfg.Stop, p)), func() { s.stopped(uid) })
	s.wakeCrew(p)
}

func (s *Sim) stuck(p *snapshot.Pod) bool {
	return len(p.Finalizers) > 0 && s.cfg.Faults.Stuck != nil && s.cfg.Faults.Stuck(p)
}

// stopped is the kubelet's word that a pod's containers have ended. A lost kubelet
// says nothing.
func (s *Sim) stopped(uid types.UID) {
	p := s.truth.Pod(uid)
	if p == nil || s.stuck(p) {
		return
	}
	if n := s.truth.Node(p.Node); p.Node != "" && (n == nil || !n.Ready) {
		return
	}
	s.removed(p)
}

// removed takes a pod away for good and lets what waits for that go on.
func (s *Sim) removed(p *snapshot.Pod) {
	s.removePod(p)
	if c := s.controllers[p.OwnerKey()]; c != nil && p.Owner.DaemonSet() {
		c.lost = append(c.lost, p.Node)
	}
	if active(p) || p.Owner.Kind == "StatefulSet" || p.Owner.DaemonSet() {
		s.wakeCrew(p) // others have replaced it when it began to terminate
	}
	s.detachLater(p)
}

// bring starts a bound pod's containers.
func (s *Sim) bring(p *snapshot.Pod) {
	uid := p.UID
	if p.Phase == corev1.PodPending {
		s.after(s.takes(s.cfg.Boot, p), func() { s.running(uid) })
		return
	}
	s.becomeReady(p)
}

func (s *Sim) running(uid types.UID) {
	if p := s.live(uid); p != nil {
		s.changePod(uid, func(p *snapshot.Pod) { p.Phase, p.NotReadyWhy = corev1.PodRunning, "ContainersNotReady" })
		s.becomeReady(p)
	}
}

func (s *Sim) becomeReady(p *snapshot.Pod) {
	if never := s.cfg.Faults.NeverReady; never != nil && never(p) {
		return
	}
	uid := p.UID
	s.after(s.takes(s.cfg.Ready, p), func() {
		if p := s.live(uid); p != nil && !p.Ready {
			s.changePod(uid, func(p *snapshot.Pod) { p.Ready, p.ReadySince, p.NotReadyWhy = true, s.now, "" })
			s.readied(p)
		}
	})
}

// readied lets a controller go on that waits for each pod before the next.
func (s *Sim) readied(p *snapshot.Pod) {
	if p.Owner.Kind == "StatefulSet" {
		s.wakeCrew(p)
	}
}

// live returns a pod that is bound to a node with a kubelet and is not on its way
// out, or nil.
func (s *Sim) live(uid types.UID) *snapshot.Pod {
	p := s.truth.Pod(uid)
	if p == nil || p.Terminating() || p.Finished() {
		return nil
	}
	if n := s.truth.Node(p.Node); n == nil || !n.Ready {
		return nil
	}
	return p
}

// detachLater lets the volumes of a pod that is gone leave its node, unless another
// pod there uses them.
func (s *Sim) detachLater(p *snapshot.Pod) {
	if len(p.Claims) == 0 || p.Node == "" {
		return
	}
	node := p.Node
	s.after(s.cfg.Detach, func() { s.detach(node) })
}

func (s *Sim) detach(node string) {
	used := map[string]bool{}
	for _, p := range s.truth.PodsOn(node) {
		for _, name := range p.Claims {
			if claim := s.truth.Claim(snapshot.Key{Namespace: p.Namespace, Name: name}); claim != nil {
				used[claim.Volume] = true
			}
		}
	}
	for _, a := range s.truth.AttachmentsOn(node) {
		if !used[a.Volume] {
			s.deleteAttachment(a.Name)
		}
	}
}
