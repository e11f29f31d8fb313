package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
)

var _ system.Resizable = (*cluster)(nil)

// List reads the list of members as a quorum has it.
func (c *cluster) List(ctx context.Context) (memberset.Listing, error) {
	l, v, err := c.lookFor(ctx, nil)
	if err != nil {
		return memberset.Listing{}, err
	}
	listing := memberset.Listing{Cluster: hexID(l.list.Cluster)}
	for _, m := range v.members {
		listing.Entries = append(listing.Entries, memberset.Entry{MemberRegistration: *registration(l, m), Name: m.Name, Whole: !m.Learner, Healthy: m.healthy()})
	}
	return listing, nil
}

// Admit adds a member as a learner, and promotes it once it has caught up: until then the others' quorum is what it was. etcd itself takes in none while a
// voter is not connected (strict-reconfig-check).
func (c *cluster) Admit(ctx context.Context, id string, addresses []string) (missing string, err error) {
	_, v, err := c.lookFor(ctx, &v1alpha1.MemberRegistration{Cluster: id})
	if err != nil {
		return "", err
	}
	member := v.at(addresses)
	if member == nil && (v.leader == nil || !v.leader.answered()) {
		return "no leader answers on which the voters agree", nil
	}
	if member == nil {
		if others := unhealthy(v.voters()); len(others) > 0 {
			return "other voters are not healthy: " + strings.Join(others, ", "), nil
		}
		ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
		defer cancel()
		return "it is added as a learner", refused("adding a learner", c.api.AddLearner(ctx, v.leader.url, addresses))
	}
	return c.promote(ctx, v, member)
}

// at finds the member at one of these peer URLs, which no two may have.
func (v *view) at(addresses []string) *memberState {
	return v.successor(&v1alpha1.MemberRegistration{Addresses: addresses})
}

// Expel removes a member that may run, which costs it its vote: only while all others with a vote are healthy and have caught up, so that what remains is
// whole. One that leads hands over first.
func (c *cluster) Expel(ctx context.Context, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	_, v, err := c.lookFor(ctx, entry)
	if err != nil {
		return "", err
	}
	member := v.registered(entry)
	if member == nil {
		return "", nil
	}
	if missing := v.needed(member, c.maxLag); missing != "" {
		return missing, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	if v.leader == member {
		target := v.transferTarget(c.maxLag)
		return "it leads, and hands over to " + target.label(), moved(target, c.api.MoveLeader(ctx, member.url, target.ID))
	}
	return "", refused("removing "+member.label(), c.api.Remove(ctx, v.leader.url, member.ID))
}

// needed says why the cluster cannot do without a member now; "": it can.
func (v *view) needed(member *memberState, maxLag int64) string {
	others := v.others(member)
	switch {
	case v.leader == nil || !v.leader.answered():
		return "no leader answers on which the voters agree"
	case member.Learner:
		return ""
	case len(others) == 0:
		return "it is the only voter"
	case v.called[member.ID] && v.leader != member:
		return member.label() + " is named as the leader"
	case len(unhealthy(others)) > 0:
		return "other voters are not healthy: " + strings.Join(unhealthy(others), ", ")
	case len(behind(others, maxLag)) > 0:
		return "other voters are behind: " + strings.Join(behind(others, maxLag), ", ")
	}
	return ""
}

// promote gives a learner its vote, and says what is missing until then.
func (c *cluster) promote(ctx context.Context, v *view, learner *memberState) (missing string, err error) {
	switch {
	case learner.Name == "":
		return fmt.Sprintf("it is on the list as %s, and has not started yet", hexID(learner.ID)), nil
	case !learner.Learner:
		return "", nil
	case v.leader == nil || !v.leader.answered():
		return "no leader answers on which the voters agree", nil
	case !learner.answered() || !learner.healthy():
		return learner.label() + " " + learner.why, nil
	case !learner.caughtUp(c.maxLag):
		return fmt.Sprintf("it catches up as a learner, and is %d entries behind", learner.lag), nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	err = c.api.Promote(ctx, v.leader.url, learner.ID)
	if errors.Is(err, ErrLearnerNotReady) {
		err = nil
	}
	return "it has caught up as a learner, and its vote is asked for", refused("promoting "+learner.label(), err)
}

// successor finds the member that has the place of one that was written down: another at one of its peer URLs, which no two may have.
func (v *view) successor(of *v1alpha1.MemberRegistration) *memberState {
	at := slices.IndexFunc(v.members, func(s *memberState) bool {
		return hexID(s.ID) != of.ID && slices.ContainsFunc(s.PeerURLs, func(u string) bool { return slices.Contains(of.Addresses, u) })
	})
	if at < 0 {
		return nil
	}
	return v.members[at]
}
