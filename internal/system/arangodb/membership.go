package arangodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb/agency"
	"usher.sh/usher/internal/text"
)

var _ system.Membership = (*deployment)(nil)

// Listed implements system.Membership. Agents are on another list, that of their own configuration, and keep their ids.
func (d *deployment) Listed(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (system.Listing, error) {
	seen, err := d.servers(ctx)
	if err != nil {
		return system.Listing{}, err
	}
	return seen.listing(member.ID, predecessor), nil
}

// servers looks at a deployment whose agency says which servers it has.
func (d *deployment) servers(ctx context.Context) (*clusterView, error) {
	seen, err := d.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case seen.single:
		return nil, errors.New("a single server has no list of servers")
	case seen.state == nil:
		return nil, errors.New(seen.agencyProblem())
	}
	return seen, nil
}

func (s *clusterView) listing(id string, predecessor *v1alpha1.MemberRegistration) system.Listing {
	var listing system.Listing
	if server, known := s.resolve(id); known && s.listed(server) {
		listing.Member = s.registration(server)
		if failed := s.failedBeside(server); len(failed) > 0 && s.state.Servers[server].Status != agency.Lost { // it is their successor
			listing.Member = s.registration(failed[0])
		}
		listing.Failed = s.state.Servers[listing.Member.ID].Status == agency.Lost
	}
	if predecessor == nil {
		return listing
	}
	listing.Predecessor = len(s.former(predecessor)) > 0
	if successor := s.successor(predecessor); successor != "" {
		listing.Successor, listing.Joined = s.registration(successor), s.state.Servers[successor].Status == agency.Good
	}
	return listing
}

func (s *clusterView) listed(server string) bool {
	return slices.Contains(slices.Concat(s.state.DBServers, s.state.Coordinators, s.state.Singles), server)
}

func (s *clusterView) registration(server string) *v1alpha1.MemberRegistration {
	return &v1alpha1.MemberRegistration{ID: server, Addresses: []string{s.state.Servers[server].Endpoint}}
}

// successor is the server that has another id at its predecessor's address; "": there is none.
func (s *clusterView) successor(of *v1alpha1.MemberRegistration) string {
	for _, id := range slices.Sorted(maps.Keys(s.servers())) {
		server := s.state.Servers[id]
		if id != of.ID && s.listed(id) && server.Endpoint != "" && server.Status != agency.Lost && slices.Contains(of.Addresses, server.Endpoint) {
			return id
		}
	}
	return ""
}

// failedBeside are the servers on the list that have failed at the address of another one: each had it before.
func (s *clusterView) failedBeside(server string) []string {
	at := s.state.Servers[server].Endpoint
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.servers())), func(id string) bool {
		other := s.state.Servers[id]
		return id == server || !s.listed(id) || at == "" || other.Endpoint != at || other.Status != agency.Lost
	})
}

// former are the servers on the list that a predecessor's successor is there for: the predecessor, and others that have failed at its address, since each
// pod of a coordinator without a volume begins as another one.
func (s *clusterView) former(predecessor *v1alpha1.MemberRegistration) []string {
	var all []string
	if s.listed(predecessor.ID) {
		all = append(all, predecessor.ID)
	}
	if successor := s.successor(predecessor); successor != "" {
		all = append(all, slices.DeleteFunc(s.failedBeside(successor), func(id string) bool { return id == predecessor.ID })...)
	}
	return all
}

// Leave takes a server off the deployment's list for good, and after it those that had its address before. One that has not failed, or that has shards by plan or in fact, or leads, is kept: the
// supervision moves the shards of one that has failed to others, as soon as there is one that may have them, and has another one lead.
func (d *deployment) Leave(ctx context.Context, _ system.Member, entry *v1alpha1.MemberRegistration) (missing string, err error) {
	seen, err := d.servers(ctx)
	if err != nil {
		return "", err
	}
	former := seen.former(entry)
	if len(former) == 0 {
		return "", nil
	}
	if missing, err = d.takeOff(ctx, seen, former[0]); missing != "" || err != nil || len(former) == 1 {
		return missing, err
	}
	return fmt.Sprintf("%s, which has failed at the same address, is the next to leave", text.List(former[1:], 3)), nil
}

// takeOff takes one server off the list, and returns what that waits for.
func (d *deployment) takeOff(ctx context.Context, seen *clusterView, id string) (missing string, err error) {
	if missing := seen.needed(id); missing != "" {
		return missing, nil
	}
	by, remove := "coordinator", d.removeServer
	if slices.Contains(seen.state.Singles, id) {
		by, remove = "agency", func(ctx context.Context, id string) error { return d.removeSingle(ctx, seen, id) }
	}
	err = remove(ctx, id)
	if refused, is := errors.AsType[*refusal](err); is {
		switch refused.status {
		case http.StatusNotFound: // another client was first
			return "", nil
		case http.StatusPreconditionFailed:
			return "the " + by + " keeps " + id + ": " + refused.message, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("removing server %s: %w", id, err)
	}
	return "", nil
}

// removeServer has a coordinator take a server off all lists.
func (d *deployment) removeServer(ctx context.Context, id string) error {
	body, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	return d.command(ctx, http.MethodPost, "/_admin/cluster/removeServer", body)
}

// removeSingle takes a server of an active failover deployment off all lists, in one transaction of the agency: ArangoDB has no call for it, since
// removeServer leaves Plan/Singles as it is. It is carried out only while the server has failed and the same other one leads.
func (d *deployment) removeSingle(ctx context.Context, seen *clusterView, id string) error {
	body, err := agency.RemoveSingle(id, seen.state.FailoverLeader)
	if err != nil {
		return err
	}
	got, address, err := d.askLeader(ctx, seen.agents, seen.via, "/_api/agency/write", body)
	if err == nil {
		_, err = got.json()
	}
	if err != nil {
		return fmt.Errorf("agent %s: %w", address, terminal(err))
	}
	return nil
}

// needed says why a server stays on the list; "": it need not.
func (s *clusterView) needed(server string) string {
	if health := s.state.Servers[server].Status; health != agency.Lost {
		return fmt.Sprintf("the supervision's verdict on server %s is %q, and only one that has FAILED is removed", server, health)
	}
	if leader := s.state.FailoverLeader; slices.Contains(s.state.Singles, server) && (leader == "" || leader == server) {
		return fmt.Sprintf("no other server than %s leads the active failover deployment yet", server)
	}
	if !slices.Contains(s.state.DBServers, server) {
		return ""
	}
	if !s.state.PlanKnown || !s.state.CurrentKnown {
		return "which shards server " + server + " has is not known"
	}
	use := s.state.Usage(server)
	if shards := len(use.Planned) + len(use.Current); shards > 0 {
		return fmt.Sprintf("server %s has %s by plan or in fact, until the supervision has moved them to others", server, text.Count(shards, "shard"))
	}
	return ""
}

// Join implements system.Membership: a server joins by itself, under an id that it makes with its empty disk.
func (*deployment) Join(context.Context, system.Member, *v1alpha1.MemberRegistration) (missing string, err error) {
	return "", nil
}
