package memberset

import (
	"fmt"
	"maps"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// shapeOf is what the members of a group are today, as far as only a replacement changes it.
func (d *decision) shapeOf(g *group) v1alpha1.MemberShape {
	return v1alpha1.MemberShape{
		AddressFrom: addressFrom(g.MemberGroup, &d.Kind), MembersPerPod: max(g.MembersPerPod, 1), NodeSelector: maps.Clone(g.pod.Spec.NodeSelector),
		Claims: claimsOf(g),
	}
}

// addressFrom is whose address the members of a group are reached at; "": they are not.
func addressFrom(g *v1alpha1.MemberGroup, kind *Kind) v1alpha1.AddressSource {
	if g.AddressFrom == "" && len(kind.AddressFrom) > 0 {
		return kind.AddressFrom[0]
	}
	return g.AddressFrom
}

// hasService reports whether a member is reached at the address of a Service of its own.
func hasService(m *v1alpha1.SetMember) bool {
	return m.Shape.AddressFrom == v1alpha1.AddressFromService
}

// misshapen says what of a member only a replacement can change to what its group says ("source 002, only through replacement"); "": nothing.
func (d *decision) misshapen(g *group, m *v1alpha1.SetMember) string {
	want := d.shapeOf(g)
	switch {
	case m.ID != d.idOf(g.Name, numberOf(d.Set.Name, g.Name, m.ID)):
		return fmt.Sprintf("its id does not begin with %q", d.Set.Spec.IDPrefix)
	case m.Shape.AddressFrom != want.AddressFrom:
		return fmt.Sprintf("its address is that of a %s", m.Shape.AddressFrom)
	case m.Shape.MembersPerPod != want.MembersPerPod:
		return fmt.Sprintf("its pod has %d processes", m.Shape.MembersPerPod)
	case !maps.Equal(m.Shape.NodeSelector, want.NodeSelector):
		return "its node selector is another"
	}
	return d.misclaimed(g, m)
}

// misclaimed says which of a member's claims is not as its group says; "": none. A claim that does not say what it was made of is taken for what it should be.
func (d *decision) misclaimed(g *group, m *v1alpha1.SetMember) string {
	for _, i := range d.claimsOf[m.ID] {
		c := &d.Claims[i]
		if !c.Ours || c.Made == "" {
			continue
		}
		at := slices.IndexFunc(g.claims, func(t claimTemplate) bool { return claimName(t.Name, m.ID) == c.Name })
		if at >= 0 && c.Made != g.claims[at].hash {
			return fmt.Sprintf("its claim %s is of another template", g.claims[at].Name)
		}
	}
	if !slices.Equal(m.Shape.Claims, claimsOf(g)) {
		return "its group has other claims"
	}
	return ""
}

// claimsOf are the names of a group's claims, sorted.
func claimsOf(g *group) []string {
	var names []string
	for i := range g.claims {
		names = append(names, g.claims[i].Name)
	}
	slices.Sort(names)
	return names
}
