package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

var _ system.Membership = (*cluster)(nil)

// Listed reads the list of members as a quorum has it.
func (c *cluster) Listed(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (system.Listing, error) {
	l, v, err := c.lookFor(ctx, predecessor)
	if err != nil {
		return system.Listing{}, err
	}
	var listing system.Listing
	if m := v.named(member.ID); m != nil {
		listing.Member = registration(l, m)
	}
	if predecessor == nil {
		return listing, nil
	}
	listing.Predecessor = v.registered(predecessor) != nil
	if successor := v.successor(predecessor); successor != nil {
		listing.Successor, listing.Joined = registration(l, successor), successor.Name != "" && !successor.Learner
	}
	return listing, nil
}

// lookFor looks at the cluster that an entry (nil: none yet) is of. Endpoints that lead to several clusters are those of none.
func (c *cluster) lookFor(ctx context.Context, entry *v1alpha1.MemberRegistration) (*clusterRead, *view, error) {
	l, err := c.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range l.said {
		if r.listErr == nil && r.list.Cluster != l.list.Cluster {
			return nil, nil, fmt.Errorf("the endpoints lead to two clusters, %s and %s", hexID(l.list.Cluster), hexID(r.list.Cluster))
		}
	}
	if entry != nil && entry.Cluster != hexID(l.list.Cluster) {
		return nil, nil, fmt.Errorf("%w: cluster %s, and the member was one of cluster %s", system.ErrOtherSystem, hexID(l.list.Cluster), entry.Cluster)
	}
	return l, judge(l), nil
}

// Leave removes a member from the cluster, which costs it a vote: only while all others with a vote are healthy and a quorum of what then
// remains has caught up. The leader's strict-reconfig-check is no substitute: it counts members that are connected.
func (c *cluster) Leave(ctx context.Context, _ system.Member, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	l, v, err := c.lookFor(ctx, entry)
	if err != nil {
		return "", err
	}
	member := v.registered(entry)
	if member == nil {
		return "", nil
	}
	if missing := v.indispensable(member, l, c.maxLag); missing != "" {
		return missing, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	return "", refused("removing "+member.label(), c.api.Remove(ctx, v.leader.url, member.ID))
}

// indispensable says why a member may not leave the list now; "": it may.
func (v *view) indispensable(member *memberState, l *clusterRead, maxLag int64) string {
	asked := slices.ContainsFunc(l.said, func(r response) bool { return slices.Contains(member.ClientURLs, r.url) })
	switch others := unhealthy(v.others(member)); {
	case v.leader == nil || !v.leader.answered():
		return "no leader answers on which the voters agree"
	case v.called[member.ID]:
		return member.label() + " is named as the leader"
	case member.answered():
		return fmt.Sprintf("%s answers at %s: it runs", member.label(), member.url)
	case member.Name != "" && !asked:
		return "none of the client URLs of " + member.label() + " may be asked whether it runs"
	case member.Learner:
		return ""
	case len(others) > 0:
		return "other voters are not healthy: " + strings.Join(others, ", ")
	case len(behind(v.others(member), maxLag)) > 0:
		return "other voters are behind: " + strings.Join(behind(v.others(member), maxLag), ", ")
	}
	return ""
}

// Join adds the successor as a learner at its predecessor's peer URLs, and promotes it once it has caught up: until then the others' quorum is
// what it was.
func (c *cluster) Join(ctx context.Context, _ system.Member, predecessor *v1alpha1.MemberRegistration) (missing string, err error) {
	_, v, err := c.lookFor(ctx, predecessor)
	if err != nil {
		return "", err
	}
	switch successor := v.successor(predecessor); {
	case v.leader == nil || !v.leader.answered():
		return "no leader answers on which the voters agree", nil
	case v.registered(predecessor) != nil:
		return "its predecessor is still on the list of members", nil
	case successor != nil:
		return c.promote(ctx, v, successor)
	case len(predecessor.Addresses) == 0:
		return "", fmt.Errorf("adding a member: its predecessor had no peer URLs: %w", system.ErrTerminal)
	}
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	return "it is added as a learner", refused("adding a learner", c.api.AddLearner(ctx, v.leader.url, predecessor.Addresses))
}

// registered finds the member of an entry by its id, under which no other ever is.
func (v *view) registered(entry *v1alpha1.MemberRegistration) *memberState {
	at := slices.IndexFunc(v.members, func(s *memberState) bool { return hexID(s.ID) == entry.ID })
	if at < 0 {
		return nil
	}
	return v.members[at]
}

func registration(l *clusterRead, s *memberState) *v1alpha1.MemberRegistration {
	return &v1alpha1.MemberRegistration{ID: hexID(s.ID), Cluster: hexID(l.list.Cluster), Addresses: slices.Sorted(slices.Values(s.PeerURLs))}
}

// refused names what the cluster has refused; nil stays nil.
func refused(doing string, err error) error {
	switch {
	case errors.Is(err, errForbidden):
		return fmt.Errorf("%s: %s (the user needs etcd's role root): %w", doing, words(err), system.ErrTerminal)
	case err != nil:
		return fmt.Errorf("%s: %s", doing, words(err))
	}
	return nil
}
