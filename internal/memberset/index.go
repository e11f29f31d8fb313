package memberset

// index finds what an Input has by name, and what it has of a member: a set has up to 500 of them, each of which is looked for several times.
type index struct {
	pods, services, claims map[string]int   // places, by name
	claimsOf, requestsOf   map[string][]int // by member
	entries                map[string]int   // by the member's id, of a kind that empties members: its list is by ids alone
}

func newIndex(in *Input) index {
	x := index{
		pods: map[string]int{}, services: map[string]int{}, claims: map[string]int{}, claimsOf: map[string][]int{}, requestsOf: map[string][]int{},
		entries: map[string]int{},
	}
	for i := range in.Pods {
		x.pods[in.Pods[i].Name] = i
	}
	for i := range in.Services {
		x.services[in.Services[i].Name] = i
	}
	for i := range in.Claims {
		c := &in.Claims[i]
		x.claims[c.Name] = i
		x.claimsOf[c.Member] = append(x.claimsOf[c.Member], i)
	}
	for i := range in.Requests {
		q := &in.Requests[i]
		x.requestsOf[q.Member] = append(x.requestsOf[q.Member], i)
	}
	for i := range in.List.Entries {
		if name := in.List.Entries[i].Name; in.Kind.Empties && at(x.entries, name) < 0 {
			x.entries[name] = i
		}
	}
	return x
}

// at is the place of a name, -1 where it has none.
func at(places map[string]int, name string) int {
	if place, is := places[name]; is {
		return place
	}
	return -1
}
