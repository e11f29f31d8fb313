package openstack

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/system/openstack/network"
	"usher.sh/usher/internal/text"
)

// parallel is how many hosts or agents are asked about at the same time.
const parallel = 8

// each does something for so many things, several at a time, and returns the first error.
func each(count int, do func(i int) error) error {
	errs := make([]error, count)
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range count {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	wait.Wait()
	return first(errs)
}

// region is a region behind the port.
type region struct {
	session *session
	// owner is the policy, in what is written of it into the region.
	owner  string
	modes  v1alpha1.ServersByState
	atOnce int
	now    func() time.Time

	mu    sync.Mutex
	asked map[string]compute.Ask // by server
	pairs map[network.Pair]network.Ask
	seen  map[string]listing       // by agent
	turns map[string]chan struct{} // by kind of agent and host
}

// Open makes a System that asks Nova and Neutron over HTTP.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	return openAt(spec, access, time.Now)
}

func openAt(spec *v1alpha1.System, access system.Access, now func() time.Time) (system.System, error) {
	own := spec.OpenStack
	if own == nil {
		return nil, errors.New("opening OpenStack: the policy has no spec.system.openstack")
	}
	found, err := parseClouds(access.Secrets[own.Clouds], "spec.system.openstack", own.Cloud)
	if err != nil {
		return nil, fmt.Errorf("entry %q of the Secret %q: %w", own.Clouds.Key, own.Clouds.Name, err)
	}
	if own.Region != "" {
		found.region = own.Region
	}
	var ca []byte
	if own.CA != nil {
		ca = append([]byte{}, access.Secrets[*own.CA]...)
	}
	s, err := newSession(found, access, ca)
	if err != nil {
		return nil, fmt.Errorf("entry %q of the Secret %q: %w", own.CA.Key, own.CA.Name, err)
	}
	return &region{
		session: s, owner: ownerOf(access), modes: own.Servers, atOnce: max(1, int(own.MigrationsAtOnce)), now: now,
		asked: map[string]compute.Ask{}, pairs: map[network.Pair]network.Ask{}, seen: map[string]listing{},
		turns: map[string]chan struct{}{},
	}, nil
}

// mostOwner is how long the name of a policy may be in the region: the reason of a dead host has room for two, with that of one which was being emptied.
const mostOwner = 60

// ownerOf is how a policy is called in the region. Two policies may care for one host, also two of a namespace.
func ownerOf(access system.Access) string {
	owner := access.Namespace + "/" + access.Name
	if len(owner) <= mostOwner {
		return owner
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(owner))
	return fmt.Sprintf("%s-%08x", owner[:mostOwner-9], hash.Sum32())
}

// turn waits until no other call changes the same, or until ctx ends. Steps and what takes them back look at a host first: of two that do so before either has
// changed it, the second would write what it knows over what the first has written.
func (r *region) turn(ctx context.Context, host string, kind network.Kind) (end func(), err error) {
	of := kind.Agent + " " + host
	r.mu.Lock()
	turn, known := r.turns[of]
	if !known {
		turn = make(chan struct{}, 1)
		r.turns[of] = turn
	}
	r.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another call about host %s to end: %w", text.Name(host), ctx.Err())
	}
}

// Close implements system.System.
func (r *region) Close() { r.session.close() }

// Resume implements system.Resumer: what was asked for and does not show yet is not asked for again.
func (r *region) Resume(before system.System) {
	if other, ok := before.(*region); ok {
		r.asked, r.pairs = other.known(), other.knownPairs()
	}
}

// known is a copy of what was asked of servers.
func (r *region) known() map[string]compute.Ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.asked)
}

// look asks for one host, of which the hypervisors were listed just before.
func (r *region) look(ctx context.Context, n *nova, host string, all []compute.Hypervisor, list bool) (*compute.Look, error) {
	l := &compute.Look{
		Now: r.now(), Host: host, Hypervisors: all, Listed: list, User: n.user, Asked: r.known(), Modes: r.modes, AtOnce: r.atOnce,
	}
	if !list {
		return l, nil
	}
	// Migrations come last: a server that was seen is seen on its way then, if it has begun to move.
	var err error
	if l.Servers, err = n.servers(ctx, host); err == nil {
		l.Migrations, err = n.migrations(ctx, host, l.Now)
	}
	if err == nil && slices.ContainsFunc(all, func(h compute.Hypervisor) bool { return h.Host == host && h.Forced }) {
		var live []compute.Migration
		live, err = n.arriving(ctx, host)
		l.Migrations = append(l.Migrations, live...)
	}
	if plan := l.Plan(); err != nil || !plan.Empty {
		return l, err
	}
	// Old moves that were never confirmed matter where nothing else is left.
	old, err := n.unconfirmed(ctx, host)
	l.Migrations = append(l.Migrations, old...)
	return l, err
}

// first is the first of several errors, which are mostly the same.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
