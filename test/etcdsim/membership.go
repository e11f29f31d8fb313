package etcdsim

import (
	"context"
	"errors"
	"slices"
	"strings"

	"usher.sh/usher/internal/system/etcd"
)

// AddLearner implements etcd.API. The process that is to be the member runs once it is started, with an empty disk.
func (c *Cluster) AddLearner(ctx context.Context, url string, peerURLs []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, err := c.proposer(ctx, url)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(peerURLs[0], "http://"), ".")
	for _, v := range leader.config {
		switch m := c.byID(v.id); {
		case m != nil && m.name == name:
			return errors.New("etcdserver: Peer URLs already exists")
		case v.learner:
			return errors.New("etcdserver: too many learner members in cluster")
		}
	}
	m := c.create(name)
	m.config = leader.config
	return c.agree(leader, append(slices.Clone(leader.config), voter{id: m.id, learner: true}))
}

// Promote implements etcd.API.
func (c *Cluster) Promote(ctx context.Context, url string, id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, err := c.proposer(ctx, url)
	if err != nil {
		return err
	}
	at := slices.Index(leader.config, voter{id: id, learner: true})
	if at < 0 {
		return errors.New("etcdserver: can only promote a learner member")
	}
	if m := c.byID(id); !m.up || common(m.log, leader.log) < len(leader.log)*9/10 {
		return etcd.ErrLearnerNotReady
	}
	config := slices.Clone(leader.config)
	config[at].learner = false
	return c.agree(leader, config)
}

// Remove implements etcd.API. It has no strict-reconfig-check: who asks has to look first.
func (c *Cluster) Remove(ctx context.Context, url string, id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, err := c.proposer(ctx, url)
	if err != nil || !leader.knows(id) {
		return err
	}
	if id == leader.id {
		return errors.New("the simulated cluster does not remove its leader")
	}
	m := c.byID(id)
	c.gone[id] = m.name
	m.up, m.leader, m.leaving = false, 0, true
	return c.agree(leader, slices.DeleteFunc(slices.Clone(leader.config), func(v voter) bool { return v.id == id }))
}

// proposer is the leader to which the member at a URL passes a change of the list of members.
func (c *Cluster) proposer(ctx context.Context, url string) (*member, error) {
	m, err := c.at(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := c.linearizable(m); err != nil {
		return nil, err
	}
	leader := c.byID(m.leader)
	if c.changing(leader) {
		return nil, errTimeout
	}
	return leader, nil
}

var errTimeout = errors.New("etcdserver: request timed out")

// agree proposes a configuration, and waits for it to be committed for as long as one round takes.
func (c *Cluster) agree(leader *member, config []voter) error {
	c.propose(leader, config)
	c.replicate()
	if c.changing(leader) {
		return errTimeout
	}
	return nil
}
