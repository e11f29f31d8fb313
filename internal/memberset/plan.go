package memberset

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/api/v1alpha1"
)

// Prospect is what a plan looks at: a set as it would be, its objects as they are, and what only a plan needs to know.
type Prospect struct {
	Input

	// Storage is the spec of each claim, by its name.
	Storage map[string]*corev1.PersistentVolumeClaimSpec
	// Quotas are the namespace's.
	Quotas []corev1.ResourceQuota
}

// Forecast is what comes of a set's spec.
type Forecast struct {
	Groups []GroupForecast
	// Replaced are members in whose place others are made, Removed those without successors; both with those of which that is under way.
	Replaced, Removed []Departure
	// Made are the ids of members that are made, successors among them.
	Made []string
	// Recreated are the members whose pods are made anew under their names, by batches: the next one goes once the one before is Ready.
	Recreated []Batch
	// Relabelled are members whose pods stay, and get labels or annotations.
	Relabelled []string
	// Today, Most and After are what the set's objects use of what a ResourceQuota counts, by its names. Most is the most that there is of each at once, where members
	// join as fast and go as late as can be.
	Today, Most, After corev1.ResourceList
	Quotas             []QuotaUse
	// Complete: the set has what its spec asks for then. Else Blockers say what it ends at.
	Complete bool
	Blockers []Blocker
	// Notes are worth knowing, Unknown is what had to be assumed.
	Notes, Unknown []string
}

// GroupForecast counts the members of a group.
type GroupForecast struct {
	Name, Role   string
	Today, After int
}

// Departure is a member that goes, and why.
type Departure struct{ Member, Group, Why string }

// Batch is the pods that go at the same time, and the zones that they are in.
type Batch struct{ Zones, Members []string }

// QuotaUse is what a ResourceQuota has of a resource, and what would be used of it at once at most.
type QuotaUse struct {
	Quota            string
	Resource         corev1.ResourceName
	Hard, Used, Most resource.Quantity
	Exceeded         bool // it would be
}

// Plan says what Decide would do for a set until nothing of it is left to do, where all that it waits for happens: pods become Ready, and requests let members go.
// Members join as fast and go as late as can be, so that what there is at once is the most that there can be.
func Plan(p Prospect) Forecast {
	r := rehearse(&p)
	before := p.Set.Status.Members
	f := Forecast{
		Replaced: r.departures(false), Removed: r.departures(true), Recreated: r.batches, Today: r.today, Most: r.most, After: r.amounts(), Complete: r.complete,
	}
	for i := range p.Set.Spec.Groups {
		g := &p.Set.Spec.Groups[i]
		f.Groups = append(f.Groups, GroupForecast{Name: g.Name, Role: g.Role, Today: membersOf(before, g.Name), After: membersOf(r.in.Set.Status.Members, g.Name)})
	}
	f.Made = r.made
	f.Relabelled = slices.DeleteFunc(r.relabelled, r.remade)
	f.Quotas = quotaUses(p.Quotas, f.Today, f.Most)
	switch {
	case f.Complete:
	case p.Set.Spec.Suspend:
		f.Blockers = append(f.Blockers, suspended())
	default:
		f.Blockers = r.blockers
	}
	f.Notes, f.Unknown = r.notes(&f, p.Quotas), r.unknown()
	return f
}

func membersOf(members []v1alpha1.SetMember, group string) (n int) {
	for i := range members {
		if members[i].Group == group {
			n++
		}
	}
	return n
}

// departures are the members that go without a successor, or with one, by their ids.
func (r *rehearsal) departures(surplus bool) []Departure {
	var all []Departure
	for id, gone := range r.going {
		if gone.surplus == surplus {
			all = append(all, Departure{Member: id, Group: gone.group, Why: gone.why})
		}
	}
	slices.SortFunc(all, func(a, b Departure) int { return cmp.Or(cmp.Compare(a.Group, b.Group), byNumber(a.Member, b.Member)) })
	return all
}

// remade reports whether a member's pod does not stay.
func (r *rehearsal) remade(id string) bool {
	_, goes := r.going[id]
	return goes || slices.ContainsFunc(r.batches, func(b Batch) bool { return slices.Contains(b.Members, id) })
}
