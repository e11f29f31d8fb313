package memberset

import "usher.sh/usher/api/v1alpha1"

// A system with a list has one member, or as many as these: of two with a vote neither can go, and each vote above them slows every write.
const fewestMembers, mostVoters = 3, 9

// wanted is how many members a group is to have. Where what the spec asks for would be a system that cannot be left, that is as many as it was before: 0 at first.
func (d *decision) wanted(g *v1alpha1.MemberGroup) int32 {
	if g.PerNode != nil {
		return int32(len(d.Nodes[g.Name]))
	}
	asked := *g.Replicas
	if !d.Kind.Lists {
		return asked
	}
	var before int32
	for i := range d.Set.Status.Groups {
		if s := &d.Set.Status.Groups[i]; s.Name == g.Name {
			before = s.Replicas
		}
	}
	if asked == 1 && before < fewestMembers || asked >= fewestMembers && asked <= mostVoters {
		return asked
	}
	return before
}
