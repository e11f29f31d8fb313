package memberset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// Requester is who asks for a replacement where a set does: of a member that is one too many.
const Requester = "usher.sh/member-set"

// idOf is the id of a member that is made today, and the name of its pod and its Service.
func (d *decision) idOf(group string, number int64) string {
	id := fmt.Sprintf("%s-%s-%d", d.Set.Name, group, number)
	if prefix := d.Set.Spec.IDPrefix; prefix != "" {
		return prefix + "-" + id
	}
	return id
}

// highestNumber is the highest that a member gets: with the longest prefix, name of a set and name of a group an id has 63 characters. highestOfOthers is the highest
// that is counted on from where something else than the set's status has it: whoever makes an object can name any, which must not leave none after it.
const (
	highestNumber   = 99_999_999
	highestOfOthers = highestNumber / 2
)

// numberOf is the number in the id of a member of a group, whatever its prefix, up to highestNumber; 0: it is none of it.
func numberOf(set, group, id string) int64 {
	own := set + "-" + group + "-"
	at := strings.LastIndex(id, own)
	if at < 0 || at > 0 && id[at-1] != '-' {
		return 0
	}
	rest := id[at+len(own):]
	number, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || number < 0 || number > highestNumber || strconv.FormatInt(number, 10) != rest {
		return 0
	}
	return number
}

// Had reports whether a set has given an id to a member, which may be gone by now: none is given twice.
func Had(set *v1alpha1.MemberSet, id string) bool {
	return slices.ContainsFunc(set.Status.Groups, func(g v1alpha1.MemberGroupStatus) bool {
		number := numberOf(set.Name, g.Name, id)
		return number > 0 && number <= g.LastNumber
	})
}

// claimName is that of a member's claim.
func claimName(template, id string) string { return template + "-" + id }

// numbers are those that something remembers of a group: none is given twice.
type numbers struct {
	last   int64
	beyond map[int64]bool // those above highestOfOthers that others than the set's status have; nil: none
}

// next is the lowest number after the last that nothing remembers.
func (n *numbers) next() int64 {
	n.last++
	for n.beyond[n.last] {
		n.last++
	}
	return n.last
}

func (n *numbers) note(number int64) {
	if number <= highestOfOthers {
		n.last = max(n.last, number)
		return
	}
	if n.beyond == nil {
		n.beyond = map[int64]bool{}
	}
	n.beyond[number] = true
}

// numbersOf are those that anything remembers of a group.
func (d *decision) numbersOf(g *group) numbers {
	all := d.numbersHad(g)
	for i := range d.Requests {
		all.note(numberOf(d.Set.Name, g.Name, d.Requests[i].Member))
	}
	return all
}

// numbersHad are those that a member of a group may have had. A request is for whatever id its requester has named, and none of a member by that. What says of itself that
// it is the set's is none of its status: who makes a claim writes that too.
func (d *decision) numbersHad(g *group) numbers {
	var all numbers
	note := func(id string) { all.note(numberOf(d.Set.Name, g.Name, id)) }
	for i := range d.Set.Status.Groups {
		if s := &d.Set.Status.Groups[i]; s.Name == g.Name {
			all.last = s.LastNumber
		}
	}
	for i := range d.status.Members {
		all.last = max(all.last, numberOf(d.Set.Name, g.Name, d.status.Members[i].ID))
	}
	for i := range d.Pods {
		note(d.Pods[i].Name)
	}
	for i := range d.Services {
		note(d.Services[i].Name)
	}
	for i := range d.Claims {
		note(d.Claims[i].Member)
		for _, template := range g.claims {
			note(strings.TrimPrefix(d.Claims[i].Name, template.Name+"-"))
		}
	}
	for i := range d.List.Entries {
		note(d.List.Entries[i].Name)
		for _, address := range d.List.Entries[i].Addresses {
			note(labelOf(address))
		}
	}
	return all
}

// hostOf is the host in a URL, without its port; "": there is none.
func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "/")
	if port := strings.LastIndex(rest, ":"); port > strings.LastIndex(rest, "]") {
		rest = rest[:port]
	}
	return rest
}

// labelOf is the first label of the host in a URL.
func labelOf(address string) string {
	label, _, _ := strings.Cut(hostOf(address), ".")
	return label
}

// surplusRequest is the name of the request that a set makes for a member that is one too many, outdatedRequest that for one that is not as its group says. No
// other member ever has its id.
func surplusRequest(id string) string { return id + "-surplus" }

func outdatedRequest(id string) string { return id + "-outdated" }

// evictedRequest is that for one that is evicted, and leaves by being replaced.
func evictedRequest(id string) string { return id + "-evicted" }

func (d *decision) request(m *v1alpha1.SetMember, name, role string) *v1alpha1.ReplacementRequest {
	q := &v1alpha1.ReplacementRequest{Spec: v1alpha1.ReplacementRequestSpec{
		Requester: Requester, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: d.Set.Name},
		Member: v1alpha1.ReplacementMember{Role: role, ID: m.ID},
	}}
	q.Namespace, q.Name = d.Set.Namespace, name
	return q
}
