package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/text"
)

// parallel is how many hosts are asked about at the same time.
const parallel = 8

// region is a region behind the port.
type region struct {
	session   *session
	namespace string
	modes     v1alpha1.ServersByState
	atOnce    int
	now       func() time.Time

	mu    sync.Mutex
	asked map[string]compute.Ask // by server
}

// Open makes a System that asks Nova over HTTP.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	return openAt(spec, access, time.Now)
}

func openAt(spec *v1alpha1.System, access system.Access, now func() time.Time) (system.System, error) {
	own := spec.OpenStack
	if own == nil {
		return nil, errors.New("opening OpenStack: the policy has no spec.system.openstack")
	}
	found, err := parseClouds(access.Secrets[own.Clouds], own.Cloud)
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
		session: s, namespace: access.Namespace, modes: own.Servers, atOnce: max(1, int(own.MigrationsAtOnce)), now: now,
		asked: map[string]compute.Ask{},
	}, nil
}

// Close implements system.System.
func (r *region) Close() { r.session.close() }

// Resume implements system.Resumer: what was asked for and does not show yet is not asked for again.
func (r *region) Resume(before system.System) {
	if other, ok := before.(*region); ok {
		r.asked = other.known()
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
	if plan := l.Plan(); err != nil || !plan.Empty {
		return l, err
	}
	// Old moves that were never confirmed matter where nothing else is left.
	old, err := n.unconfirmed(ctx, host)
	l.Migrations = append(l.Migrations, old...)
	return l, err
}

// Observe implements system.System. Servers are listed one by one of hosts that get no new ones: others may have other ones a moment later, and there
// may be hundreds of them.
func (r *region) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	n, err := r.session.compute(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.hypervisors(ctx)
	if err != nil {
		return nil, err
	}
	closed := map[string]bool{}
	for i := range all {
		closed[all[i].Host] = !all[i].Enabled
	}
	plans, errs := make([]compute.Plan, len(members)), make([]error, len(members))
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range members {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			var l *compute.Look
			if l, errs[i] = r.look(ctx, n, members[i].ID, all, closed[members[i].ID]); errs[i] == nil {
				plans[i] = l.Plan()
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, first(errs)
	}
	found := &eviction.Evidence{System: systemFacts(n, all), Members: map[string]expression.Facts{}, Summary: summary(n, all)}
	for i, m := range members {
		found.Members[m.ID] = r.memberFacts(&plans[i])
	}
	return found, nil
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

func counts(all []compute.Hypervisor) (up, open int) {
	for i := range all {
		if all[i].Up {
			up++
			if all[i].Enabled {
				open++
			}
		}
	}
	return up, open
}

func systemFacts(n *nova, all []compute.Hypervisor) expression.Facts {
	up, open := counts(all)
	return expression.Facts{
		"region": n.region, "microversion": n.client.Microversion, "hosts": int64(len(all)), "hostsUp": int64(up), "hostsOpen": int64(open),
	}
}

func summary(n *nova, all []compute.Hypervisor) string {
	up, open := counts(all)
	return fmt.Sprintf("region %s, %s: %d up, %d of them enabled", text.Name(n.region), text.Count(len(all), "compute host"), up, open)
}

func (r *region) memberFacts(p *compute.Plan) expression.Facts {
	facts := expression.Facts{"problem": p.Problem}
	if p.Problem != "" {
		return facts
	}
	h := p.Hypervisor
	facts["up"], facts["disabled"], facts["disabledReason"], facts["disabledByUsher"] = h.Up, !h.Enabled, h.Reason, !h.Enabled && r.isUshers(h.Reason)
	facts["others"], facts["servers"], facts["left"], facts["work"], facts["empty"] = int64(p.Others), list(p.Servers), int64(p.Left), int64(p.Work), p.Empty
	if h.Enabled {
		return facts
	}
	for name, all := range map[string][]string{
		"stay": p.Stay, "moving": p.Moving, "busy": p.Busy, "stuck": p.Stuck, "failed": p.Failed, "incoming": p.Incoming, "unconfirmed": p.Unconfirmed,
	} {
		facts[name] = list(all)
	}
	return facts
}

// list is never nil, which would be a fact of another type.
func list(names []string) []string { return append([]string{}, names...) }
