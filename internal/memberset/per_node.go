package memberset

import (
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// spread has one member be on each node of a group with a member for each. A node whose member is still there, marked or not, gets another once that is gone: there
// is room for one. One whose node is not among them any more is marked.
func (d *decision) spread(g *group) {
	nodes := d.Nodes[g.Name]
	for i := range d.status.Members {
		m := &d.status.Members[i]
		switch {
		case m.Group != g.Name || leaving(m):
		case slices.Contains(nodes, m.ForNode):
			d.unmarkNamed(m, surplusRequest(m.ID))
		case m.Removal == nil:
			d.act(Action{Kind: Mark, Member: m.ID, Request: d.request(m, surplusRequest(m.ID), g.Role)})
		}
	}
	first := d.Kind.forms() && d.status.Formed == nil
	if first && len(d.Set.Status.Members) > 0 {
		return
	}
	all := d.numbersOf(g)
	for _, node := range nodes {
		if slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool {
			return m.Group == g.Name && m.ForNode == node && (m.Removal == nil || m.Removal.Step != v1alpha1.RemovalRemoved)
		}) {
			continue
		}
		if len(d.status.Members) >= mostMembers {
			d.block(tooManyMembers())
			return
		}
		d.status.Members = append(d.status.Members, v1alpha1.SetMember{
			ID: d.idOf(g.Name, all.next()), Group: g.Name, State: v1alpha1.MemberJoining, First: first, StartTime: d.stamp(), ForNode: node, Shape: d.shapeOf(g),
		})
	}
}
