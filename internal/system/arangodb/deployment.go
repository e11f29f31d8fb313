package arangodb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb/agency"
)

// defaultTimeout is that of one call where the policy has none.
const defaultTimeout = 5 * time.Second

// deployment is a deployment of ArangoDB behind the port.
type deployment struct {
	client    *client
	endpoints []string // of coordinators or single servers
	agents    []string // as configured
	query     []byte   // of the agency

	leadership *leadership

	mu    sync.Mutex
	known []string // agents as they were found last
}

// Open makes a System that asks agents and servers over HTTP.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	own := spec.ArangoDB
	if own == nil {
		return nil, errors.New("opening ArangoDB: the policy has no spec.system.arangodb")
	}
	d := &deployment{
		client: &client{http: httpClient(access), timeout: cmp.Or(access.Timeout, defaultTimeout)},
		agents: addresses(own.Agents), endpoints: addresses(access.Endpoints), leadership: newReign(time.Now),
	}
	if len(d.agents) < len(own.Agents) || len(d.endpoints) < len(access.Endpoints) {
		return nil, errors.New("opening ArangoDB: every endpoint must be a URL like https://HOST:PORT")
	}
	var err error
	if d.query, err = json.Marshal([][]string{agency.Paths}); err != nil {
		return nil, fmt.Errorf("opening ArangoDB: %w", err)
	}
	if own.JWT != nil {
		if d.client.bearer, err = token(access.Secrets[*own.JWT]); err != nil {
			return nil, fmt.Errorf("opening ArangoDB: entry %q of Secret %q: %w", own.JWT.Key, own.JWT.Name, err)
		}
	}
	return d, nil
}

func httpClient(access system.Access) *http.Client {
	return &http.Client{
		Transport: access.HTTP(),
		// The standard client would follow without the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// addresses leaves out what is no URL.
func addresses(endpoints []string) []string {
	var all []string
	for _, endpoint := range endpoints {
		if address := webURL(endpoint); address != "" {
			all = append(all, address)
		}
	}
	return all
}

// Close implements system.System.
func (d *deployment) Close() { d.client.http.CloseIdleConnections() }

// Observe implements system.System.
func (d *deployment) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	seen, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	return seen.evidence(members), nil
}

// look asks the agents, and their leader for the state, and the servers of an active failover deployment for its leader.
func (d *deployment) look(ctx context.Context) (*clusterView, error) {
	seen, err := d.lookAtAgents(ctx)
	if err == nil && !seen.single && seen.agents.Problem == "" {
		d.readLeaderState(ctx, seen)
	}
	return seen, err
}

// lookAtAgents asks the agents alone.
func (d *deployment) lookAtAgents(ctx context.Context) (*clusterView, error) {
	addresses, err := d.findAgents(ctx)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return &clusterView{single: true}, nil
	}
	all := d.askAgents(ctx, addresses)
	if len(all.configs) == 0 {
		return nil, fmt.Errorf("no agent answers: %s", strings.Join(all.silent, "; "))
	}
	seen := &clusterView{agents: agency.Agree(all.configs), via: all.via, silent: append(all.silent, all.foreign...), foreign: len(all.foreign)}
	d.leadership.see(seen.agents)
	return seen, nil
}

// readLeaderState asks the leader. That it cannot be asked is part of what was seen.
func (d *deployment) readLeaderState(ctx context.Context, seen *clusterView) {
	state, err := d.read(ctx, seen.agents, seen.via)
	if err != nil {
		seen.agents.Problem = err.Error()
		return
	}
	seen.state, seen.availability = state, d.probe(ctx, state)
}

// probe asks each server of an active failover deployment whether it takes writes.
func (d *deployment) probe(ctx context.Context, state *agency.State) map[string]availability {
	results := make([]availability, len(state.Singles))
	each(len(state.Singles), func(i int) { results[i] = d.available(ctx, webURL(state.Servers[state.Singles[i]].Endpoint)) })
	all := map[string]availability{}
	for i, id := range state.Singles {
		all[id] = results[i]
	}
	return all
}

func (d *deployment) available(ctx context.Context, address string) availability {
	if address == "" {
		return silent
	}
	got, err := d.client.call(ctx, http.MethodGet, address+"/_admin/server/availability", nil, answerLimit)
	switch {
	case err != nil:
		return silent
	case got.status == http.StatusOK:
		return leading
	case got.status == http.StatusServiceUnavailable:
		return following
	}
	return silent
}
