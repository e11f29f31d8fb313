package memberset

import (
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// equipClaims makes the claims that a member lacks, and reports whether its pod may be made with all that it has. They are those that it was written down with,
// whatever its group says today: beside an empty disk of another name its data would be out of reach, and a claim that the status does not have would never go.
func (d *decision) equipClaims(g *group, m *v1alpha1.SetMember) bool {
	has := d.reshaped(g, m)
	for _, template := range m.Shape.Claims {
		name := claimName(template, m.ID)
		place, t := at(d.claims, name), g.claim(template)
		switch {
		case t == nil: // said by reshaped
		case place < 0 && d.Kind.Lists && d.began(m):
			d.block(claimMissing(name, m.ID, d.Set, d.status.Formed != nil))
			has = false
		case place < 0 && d.Kind.Lists && d.status.Formed != nil && d.listUnread() != "":
			d.block(listNotKnown(d.listUnread()))
			has = false
		case place < 0:
			d.act(Action{Kind: MakeClaim, Member: m.ID, Claim: d.newClaim(t, m)})
			has = false
		case !d.Claims[place].Ours:
			d.block(d.notOurs("claim", &d.Claims[place].Object, m.ID))
			has = false
		case d.Claims[place].Terminating:
			d.block(claimTerminates(name, d.Set.Namespace))
			has = false
		}
	}
	return has
}

// reshaped reports whether a member was made with the claims that its group has, or is one whose pod is there with those that it was made with. No pod is made of any
// other: the template is for other volumes, and the member is replaced. Before the system is formed none is, which is said with that.
func (d *decision) reshaped(g *group, m *v1alpha1.SetMember) bool {
	if d.pod(m.ID) != nil {
		return true
	}
	var others []Blocker
	for _, template := range m.Shape.Claims {
		if g.claim(template) == nil {
			others = append(others, claimDropped(template, m, d.Set))
		}
	}
	for i := range g.claims {
		if template := g.claims[i].Name; !slices.Contains(m.Shape.Claims, template) {
			others = append(others, claimAdded(template, m, d.Set))
		}
	}
	if d.status.Formed != nil {
		d.blockers = append(d.blockers, others...)
	}
	return len(others) == 0
}
