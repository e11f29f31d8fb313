package etcdsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
)

// Service is a URL that leads to some member that runs, as a Service in front of them does.
const Service = "http://etcd:2379"

const clusterID = 0xc1a57e4

// Fault is how a URL misbehaves until another is set.
type Fault string

// The faults.
const (
	Healthy  Fault = ""
	Refuses  Fault = "refuses"  // no connection
	Silent   Fault = "silent"   // no answer until time is up
	Errs     Fault = "errs"     // every answer is an error
	Stale    Fault = "stale"    // status as it was at the last Tick but one or earlier
	Mistaken Fault = "mistaken" // status names another leader
	Stranger Fault = "stranger" // a member of another cluster answers
	Deaf     Fault = "deaf"     // the alarms are not answered
)

// Misbehave makes a URL misbehave from now on.
func (c *Cluster) Misbehave(url string, fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[url] = fault
}

// Kind is etcd's own, opened on this cluster.
func (c *Cluster) Kind() system.Kind {
	kind := etcd.Kind()
	kind.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		return c.Open(spec.Etcd.MaxLag, access.Timeout), nil
	}
	return kind
}

// Open makes a System of the cluster.
func (c *Cluster) Open(maxLag int64, timeout time.Duration) system.System {
	return etcd.Over(c, maxLag, c.Endpoints(), timeout)
}

// Members implements etcd.API.
func (c *Cluster) Members(ctx context.Context, url string) (etcd.Membership, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.at(ctx, url)
	if err != nil {
		return etcd.Membership{}, err
	}
	if slices.Contains(m.config, voter{id: m.id, learner: true}) {
		return etcd.Membership{}, errors.New("rpc not supported for learner")
	}
	if err := c.linearizable(m); err != nil {
		return etcd.Membership{}, err
	}
	all := etcd.Membership{Cluster: c.clusterOf(url), By: m.id}
	for _, v := range c.byID(m.leader).config { // m has waited until it knew it
		all.Members = append(all.Members, c.describe(v))
	}
	return all, nil
}

func (c *Cluster) describe(v voter) etcd.Member {
	m := c.byID(v.id)
	if m == nil {
		return etcd.Member{ID: v.id, Name: c.gone[v.id], PeerURLs: []string{c.peerURL(c.gone[v.id])}, ClientURLs: []string{URL(c.gone[v.id])}, Learner: v.learner}
	}
	if !m.started && m.named {
		return etcd.Member{ID: v.id, Name: m.name, PeerURLs: []string{c.peerURL(m.name)}, Learner: v.learner}
	}
	if !m.started {
		return etcd.Member{ID: v.id, PeerURLs: []string{c.peerURL(m.name)}, Learner: v.learner}
	}
	return etcd.Member{ID: v.id, Name: m.name, PeerURLs: []string{c.peerURL(m.name)}, ClientURLs: []string{URL(m.name)}, Learner: v.learner}
}

// Status implements etcd.API.
func (c *Cluster) Status(ctx context.Context, url string) (etcd.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.at(ctx, url)
	if err != nil {
		return etcd.Status{}, err
	}
	s := c.status(m)
	s.Cluster = c.clusterOf(url)
	switch c.faults[url] {
	case Stale:
		if m.former != nil {
			s = *m.former
		}
	case Mistaken:
		s.Leader = c.another(s.Leader)
	default:
	}
	return s, nil
}

func (c *Cluster) status(m *member) etcd.Status {
	s := etcd.Status{
		Cluster: clusterID, Member: m.id, Leader: m.leader, Term: m.term, Committed: m.applied, Applied: m.applied,
		Learner: slices.Contains(m.config, voter{id: m.id, learner: true}), Version: "3.7.3",
	}
	if m.leader == 0 {
		s.Errors = append(s.Errors, "etcdserver: no leader")
	}
	for _, a := range c.alarms {
		s.Errors = append(s.Errors, fmt.Sprintf("memberID:%d alarm:%s ", a.Member, a.Name))
	}
	return s
}

// keepFormer remembers what every member says now, for stale answers to come; not each time, so that some are old.
func (c *Cluster) keepFormer() {
	for _, m := range c.members {
		if m.up && c.faults[URL(m.name)] != Stale {
			s := c.status(m)
			m.former = &s
		}
	}
}

// Alarms implements etcd.API.
func (c *Cluster) Alarms(ctx context.Context, url string) ([]etcd.Alarm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.at(ctx, url)
	if err != nil {
		return nil, err
	}
	if c.faults[url] == Deaf {
		return nil, errors.New("etcdserver: permission denied")
	}
	return slices.Clone(c.alarms), c.linearizable(m)
}

// MoveLeader implements etcd.API.
func (c *Cluster) MoveLeader(ctx context.Context, url string, to uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.at(ctx, url)
	if err != nil {
		return err
	}
	if m.leader != m.id {
		return etcd.ErrNotLeader
	}
	heir := c.byID(to)
	if heir == nil || !heir.up || !reach(m, heir) || !m.votes(to) || heir.slow > 0 {
		return errors.New("request timed out, leader transfer took too long")
	}
	heir.take(m.log)
	c.crown(heir, m.term+1)
	return nil
}

// Close implements etcd.API.
func (c *Cluster) Close() {}

// at finds the member that answers at a URL, if its fault lets it.
func (c *Cluster) at(ctx context.Context, url string) (*member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch c.faults[url] {
	case Refuses:
		return nil, errors.New("connection refused")
	case Silent:
		return nil, context.DeadlineExceeded
	case Errs:
		return nil, errors.New("etcdserver: request timed out")
	default:
	}
	for _, m := range c.members {
		if m.up && !m.hidden && (url == URL(m.name) || url == Service) {
			return m, nil
		}
	}
	return nil, errors.New("connection refused")
}

func (c *Cluster) clusterOf(url string) uint64 {
	if c.faults[url] == Stranger {
		return clusterID + 1
	}
	return clusterID
}

// another is some member but not that one.
func (c *Cluster) another(id uint64) uint64 {
	for _, m := range c.members {
		if m.id != id {
			return m.id
		}
	}
	return id + 1
}

// patience is for how many Ticks a read waits until a slow member knows what the leader has committed.
const patience = 100

// linearizable fails where m does not reach a leader with a quorum, or is too slow to follow it.
func (c *Cluster) linearizable(m *member) error {
	leader := c.byID(m.leader)
	if leader == nil || !leader.up || leader.leader != leader.id || !reach(m, leader) || !c.quorum(leader, leader.config) {
		return errors.New("etcdserver: request timed out")
	}
	if m.slow > 0 && leader.applied > m.applied+uint64(patience*m.slow) {
		return errors.New("etcdserver: request timed out")
	}
	return nil
}
