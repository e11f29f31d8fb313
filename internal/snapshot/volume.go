package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Volume is a PersistentVolume.
type Volume struct {
	Name     string
	Affinity *corev1.NodeSelector // that the nodes match which can use it; nil: all can
}

// SetVolume adds or replaces a volume.
func (c *Cluster) SetVolume(v *Volume) { c.volumes[v.Name] = v }

// DeleteVolume forgets a volume.
func (c *Cluster) DeleteVolume(name string) { delete(c.volumes, name) }

// VolumesOf returns the volumes of a pod, as far as they are known, which a pod that takes its place uses as well: a claim of the pod's own goes with it.
func (c *Cluster) VolumesOf(p *Pod) []*Volume {
	var found []*Volume
	for _, name := range p.Claims {
		claim := c.Claim(Key{Namespace: p.Namespace, Name: name})
		if claim == nil || claim.OfPod {
			continue
		}
		if v := c.volumes[claim.Volume]; v != nil {
			found = append(found, v)
		}
	}
	return found
}

// OnAlone reports whether a volume can be used on a node and, by what it is, on no other: each term of its affinity names the node, by its name or its hostname,
// whatever the label that this is in.
func (v *Volume) OnAlone(n *Node) bool {
	if v.Affinity == nil || len(v.Affinity.NodeSelectorTerms) == 0 {
		return false
	}
	names := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 && (r.Values[0] == n.Name || r.Values[0] == n.Labels[corev1.LabelHostname])
	}
	return !slices.ContainsFunc(v.Affinity.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, names) && !slices.ContainsFunc(t.MatchFields, names)
	})
}

// WithVolumes is a pod that asks of nodes what p does, and that they can use its volumes, as far as these are known: p itself where that asks for nothing more.
func (c *Cluster) WithVolumes(p *Pod) *Pod {
	affinity := p.NodeAffinity
	for _, v := range c.VolumesOf(p) {
		if v.Affinity != nil {
			affinity = both(affinity, v.Affinity)
		}
	}
	if affinity == p.NodeAffinity {
		return p
	}
	asking := *p
	asking.NodeAffinity = affinity
	return &asking
}

// mostTerms bounds the terms of two affinities together: tenants write one of them.
const mostTerms = 64

// both selects the nodes that two affinities select; of those with more terms than mostTerms together, what the first one does.
func both(a, b *corev1.NodeSelector) *corev1.NodeSelector {
	if a == nil {
		return b
	}
	if len(a.NodeSelectorTerms)*len(b.NodeSelectorTerms) > mostTerms {
		return a
	}
	all := &corev1.NodeSelector{}
	for i := range a.NodeSelectorTerms {
		for j := range b.NodeSelectorTerms {
			if x, y := &a.NodeSelectorTerms[i], &b.NodeSelectorTerms[j]; !selectsNone(x) && !selectsNone(y) {
				all.NodeSelectorTerms = append(all.NodeSelectorTerms, corev1.NodeSelectorTerm{
					MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions), MatchFields: slices.Concat(x.MatchFields, y.MatchFields),
				})
			}
		}
	}
	return all
}

// selectsNone reports whether a term asks for nothing, which selects no node.
func selectsNone(t *corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}
