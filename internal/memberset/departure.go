package memberset

import "usher.sh/usher/api/v1alpha1"

// depart notes on each pod what comes of its eviction, and has members that are evicted be replaced where that is what comes of it.
func (d *decision) depart() {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		p, g := d.pod(m.ID), d.group(m.Group)
		if leaving(m) || g == nil || p == nil || p.Terminating || p.Finished {
			continue
		}
		says, known := d.onEviction(p)
		switch {
		case !known:
			d.block(departureNotKnown(m.ID, p.Unpinned))
		case says != p.OnEviction:
			d.act(Action{
				Kind: RelabelPod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version, Annotations: map[string]string{v1alpha1.OnEvictionAnnotation: says},
			})
		}
		if evicted := p.Wanted && replacedOnEviction(says, p); evicted && m.Removal == nil && d.status.Formed != nil {
			d.act(Action{Kind: Mark, Member: m.ID, Request: d.request(m, evictedRequest(m.ID), g.Role)})
		} else if !evicted {
			d.unmarkNamed(m, evictedRequest(m.ID))
		}
	}
}

// replacedOnEviction reports whether a member whose pod says so leaves by being replaced, where the pod is.
func replacedOnEviction(says string, p *Pod) bool {
	return says == v1alpha1.PodIsReplaced || says == v1alpha1.PodIsReplacedWhereCordoned && p.Cordoned
}

// onEviction is what comes of the eviction of a pod; known is false where it is not known. The set's own, for an update, makes the pod anew.
func (d *decision) onEviction(p *Pod) (says string, known bool) {
	switch {
	case d.Set.Spec.OnEviction == v1alpha1.OnEvictionRecreate, p.Asked && !p.Wanted && d.Set.Spec.OnEviction == v1alpha1.OnEvictionReplace:
		return v1alpha1.PodRecreates, true
	case d.Set.Spec.OnEviction == v1alpha1.OnEvictionReplace:
		return v1alpha1.PodIsReplaced, true
	case p.Node == "":
		return p.OnEviction, true // nothing of it runs anywhere
	case p.Pinned == nil:
		return "", false
	case *p.Pinned:
		return v1alpha1.PodIsReplacedWhereCordoned, true
	}
	return v1alpha1.PodFollows, true
}
