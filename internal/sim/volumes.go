package sim

import "usher.sh/usher/internal/snapshot"

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
