package memberset

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// form notes that the first members have formed their system: a quorum has a list of them, and nothing else is on it. From then on no pod begins one anew.
func (d *decision) form() {
	if d.status.Formed != nil {
		return
	}
	if d.Kind.File != nil {
		d.begin()
		return
	}
	if !d.Kind.Lists {
		d.status.Formed = &v1alpha1.MemberSetFormed{Time: d.stamp()}
		return
	}
	first := slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return m.First })
	if !first || d.List.Unread != "" {
		return
	}
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.First && d.entry(m) == nil {
			return
		}
	}
	for i := range d.List.Entries {
		if d.memberOf(&d.List.Entries[i]) == nil {
			d.block(strangerListed(&d.List.Entries[i]))
			return
		}
	}
	d.status.Formed = &v1alpha1.MemberSetFormed{Time: d.stamp(), Cluster: d.List.Cluster}
}

func (d *decision) stamp() metav1.Time { return metav1.Time{Time: d.Now.UTC().Truncate(1e9)} }

// otherCluster is the one that answers in place of the one that the members have formed; "": none does.
func (d *decision) otherCluster() string {
	if !d.Kind.Lists || d.status.Formed == nil || d.List.Unread != "" || d.List.Cluster == d.status.Formed.Cluster {
		return ""
	}
	return cmp.Or(d.List.Cluster, "without an id")
}

// listUnread is why the list of the set's own system is not known; "": it is.
func (d *decision) listUnread() string {
	if cluster := d.otherCluster(); cluster != "" {
		return "cluster " + cluster + " answers"
	}
	return d.List.Unread
}

// entry is the member's in the list; nil: it has none.
func (d *decision) entry(m *v1alpha1.SetMember) *Entry {
	if d.Kind.Empties {
		if place := at(d.entries, m.ID); place >= 0 && d.status.Formed != nil {
			return &d.List.Entries[place]
		}
		return nil
	}
	at := slices.IndexFunc(d.List.Entries, func(e Entry) bool { return d.isOf(&e, m) })
	if at < 0 {
		return nil
	}
	return &d.List.Entries[at]
}

// isOf reports whether an entry is a member's: at its host, which no two may have, whatever the scheme and the port that the template gives it today. In the list
// of the set's own system a name says it as well; before that is known, another system may have members of the same names.
func (d *decision) isOf(e *Entry, m *v1alpha1.SetMember) bool {
	if d.status.Formed != nil && e.Name == m.ID {
		return true
	}
	hosts := d.addresses(m)
	return slices.ContainsFunc(e.Addresses, func(a string) bool {
		return slices.ContainsFunc(hosts, func(own string) bool { return hostOf(own) != "" && hostOf(own) == hostOf(a) })
	})
}

// memberOf is whom an entry is of; nil: of none that is known.
func (d *decision) memberOf(e *Entry) *v1alpha1.SetMember {
	for i := range d.status.Members {
		if m := &d.status.Members[i]; d.isOf(e, m) {
			return m
		}
	}
	return nil
}

// addresses are where other members reach one.
func (d *decision) addresses(m *v1alpha1.SetMember) []string {
	g := d.group(m.Group)
	if d.Kind.Addresses == nil || g == nil {
		return nil
	}
	return d.Kind.Addresses(&g.pod.Spec, m.ID, d.Set.Namespace)
}

// peers are the members that one gets when it starts: those that form the system with it, or those that are on the list. Where that is not known, a
// member comes back that has joined, and has on its disk whom it knows.
func (d *decision) peers(m *v1alpha1.SetMember) []Peer {
	var peers []Peer
	if d.status.Formed == nil || d.listUnread() != "" {
		for i := range d.status.Members {
			if other := &d.status.Members[i]; other.ID == m.ID || d.status.Formed == nil && other.First || d.status.Formed != nil && whole(other) {
				peers = append(peers, Peer{ID: other.ID, Addresses: d.addresses(other)})
			}
		}
		return peers
	}
	for i := range d.List.Entries {
		e := &d.List.Entries[i]
		id := e.Name
		if other := d.memberOf(e); other != nil {
			id = other.ID
		}
		peers = append(peers, Peer{ID: id, Addresses: e.Addresses})
	}
	return peers
}
