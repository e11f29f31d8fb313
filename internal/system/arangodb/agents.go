package arangodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"usher.sh/usher/internal/system/arangodb/agency"
)

// answers is what the agents said, each for itself.
type answers struct {
	configs []agency.Config
	via     map[string]string // id -> URL at which it answered
	silent  []string          // sentences about those that did not answer, sorted
	foreign []string          // sentences about those that belong to another agency
}

// rounds bounds how often newly named agents are asked: the configured ones, those they name, and those these name.
const rounds = 3

// askAgents asks every agent for its view. Those that others name are asked as well, so that one address leads to all.
func (d *deployment) askAgents(ctx context.Context, addresses []string) answers {
	var all answers
	all.via = map[string]string{}
	asked := map[string]bool{}
	for range rounds {
		var next []string
		for _, address := range addresses {
			if !asked[address] {
				asked[address] = true
				next = append(next, address)
			}
		}
		d.askAll(ctx, next, &all)
		all.leaveOut()
		addresses = all.unanswered()
	}
	slices.Sort(all.silent)
	slices.Sort(all.foreign)
	slices.SortFunc(all.configs, func(a, b agency.Config) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// leaveOut drops the answers of another deployment's agents: of an address that was given to another pod, say. What they name is
// not asked either.
func (a *answers) leaveOut() {
	ours, foreign := agency.Apart(a.configs)
	a.configs = ours
	for _, config := range foreign {
		a.foreign = append(a.foreign, fmt.Sprintf("%s answers as agent %s, which the other agents do not know: it is left out", a.via[config.ID], config.ID))
		delete(a.via, config.ID)
	}
}

// unanswered returns the addresses of agents that others name and that have not answered.
func (a *answers) unanswered() []string {
	addresses := map[string]bool{}
	for _, config := range a.configs {
		for id, endpoint := range config.Pool {
			if address := webURL(endpoint); a.via[id] == "" && address != "" {
				addresses[address] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(addresses))
}

func (d *deployment) askAll(ctx context.Context, addresses []string, all *answers) {
	configs := make([]agency.Config, len(addresses))
	errs := make([]error, len(addresses))
	each(len(addresses), func(i int) { configs[i], errs[i] = d.config(ctx, addresses[i]) })
	for i, address := range addresses {
		if errs[i] != nil {
			all.silent = append(all.silent, fmt.Sprintf("agent %s: %v", address, errs[i]))
			continue
		}
		all.configs = append(all.configs, configs[i])
		all.via[configs[i].ID] = address
	}
}

func (d *deployment) config(ctx context.Context, address string) (agency.Config, error) {
	data, err := d.client.get(ctx, address+"/_api/agency/config")
	if err != nil {
		return agency.Config{}, err
	}
	return agency.ParseConfig(data)
}

// read asks the leader for everything, once.
func (d *deployment) read(ctx context.Context, view agency.Agents, via map[string]string) (*agency.State, error) {
	got, address, err := d.askLeader(ctx, view, via, "/_api/agency/read", d.query)
	if err != nil {
		return nil, fmt.Errorf("reading from %w", err)
	}
	return parse(got, address)
}

// askLeader sends a request to the leader and returns its answer, and the address that it came from. Where the leader redirects, the request is sent
// again with the token, but only to an address that the agents themselves have named for their leader.
func (d *deployment) askLeader(ctx context.Context, view agency.Agents, via map[string]string, path string, body []byte) (got reply, address string, err error) {
	address = via[view.Leader] + path
	known := []string{via[view.Leader], webURL(view.Pool[view.Leader])}
	for range rounds {
		got, err := d.client.call(ctx, http.MethodPost, address, body, agencyLimit)
		if err != nil {
			return reply{}, address, fmt.Errorf("%s: %w", address, err)
		}
		if got.status != http.StatusTemporaryRedirect && got.status != http.StatusPermanentRedirect {
			return got, address, nil
		}
		if !slices.ContainsFunc(known, func(origin string) bool { return sameOrigin(origin, got.location) }) {
			return reply{}, address, fmt.Errorf("%s: %s was the leader and now hands us on to %q: the leadership is moving", address, view.Leader, short(got.location))
		}
		address = got.location
	}
	return reply{}, address, fmt.Errorf("the leader %s: it hands us on again and again", view.Leader)
}

func parse(got reply, address string) (*agency.State, error) {
	data, err := got.json()
	if err != nil {
		return nil, fmt.Errorf("reading from %s: %w", address, err)
	}
	state, err := agency.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading from %s: %w", address, err)
	}
	return state, nil
}

// findAgents returns where agents listen: as configured, else as the cluster's health names them, else where they were
// found last, so that no coordinator is needed to go on. None, and no error: it is a single server.
func (d *deployment) findAgents(ctx context.Context) ([]string, error) {
	if len(d.agents) > 0 {
		return d.agents, nil
	}
	var said []error
	for _, endpoint := range d.endpoints {
		found, err := d.agentsOf(ctx, endpoint)
		if err == nil {
			d.remember(found)
			return found, nil
		}
		said = append(said, fmt.Errorf("server %s: %w", endpoint, err))
	}
	if known := d.remembered(); len(known) > 0 {
		return known, nil
	}
	return nil, fmt.Errorf("looking for the agents: %w", errors.Join(said...))
}

// agentsOf asks a server for the agents of its deployment.
func (d *deployment) agentsOf(ctx context.Context, endpoint string) ([]string, error) {
	single, err := d.isSingle(ctx, endpoint)
	if single || err != nil {
		return nil, err
	}
	data, err := d.client.get(ctx, endpoint+"/_admin/cluster/health")
	if err != nil {
		return nil, err
	}
	found, err := healthyAgents(data)
	if err == nil && len(found) == 0 {
		err = errors.New("the cluster's health names no agents; name them in spec.system.arangodb.agents")
	}
	return found, err
}

func (d *deployment) isSingle(ctx context.Context, endpoint string) (bool, error) {
	data, err := d.client.get(ctx, endpoint+"/_admin/server/role")
	if err != nil {
		return false, err
	}
	answer, err := decode[struct{ Role, Mode string }](data)
	return strings.EqualFold(answer.Role, "SINGLE") && answer.Mode != "resilient", err
}

// healthyAgents reads the agents' addresses from a cluster's health. The times in it, which are strings or numbers by the
// kind of server, are not looked at: the agency's own view decides.
func healthyAgents(data []byte) ([]string, error) {
	answer, err := decode[struct {
		Health map[string]struct{ Role, Endpoint string }
	}](data)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, server := range answer.Health {
		if address := webURL(server.Endpoint); server.Role == "Agent" && address != "" {
			found = append(found, address)
		}
	}
	slices.Sort(found)
	return found, nil
}

func (d *deployment) remember(found []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = found
}

func (d *deployment) remembered() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}
