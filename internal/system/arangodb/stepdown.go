package arangodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb/agency"
)

// stepDown ends the process of the agent that leads, which comes back in its place with its disk. ArangoDB has no call that
// hands the lead over: an agency elects when its leader is away.
func (d *deployment) stepDown(ctx context.Context, member string) error {
	address, err := d.toRestart(ctx, member)
	if err == nil && address != "" {
		err = d.restart(ctx, address)
	}
	if err != nil {
		return fmt.Errorf("letting %s step down: %w", member, err)
	}
	return nil
}

// toRestart looks anew and returns where the member listens if it is to be restarted now, else "". The evidence that asked for
// the step may be seconds old, and an agency without a majority elects no leader.
func (d *deployment) toRestart(ctx context.Context, member string) (string, error) {
	seen, err := d.lookAtAgents(ctx)
	switch {
	case err != nil:
		return "", err
	case seen.single:
		return "", fmt.Errorf("%w: a single server has no agency", system.ErrTerminal)
	case seen.agents.Problem != "":
		return "", errors.New(seen.agencyProblem())
	}
	server, known := seen.resolve(member)
	if _, agent := seen.agents.Pool[server]; !known || !agent {
		return "", errors.New("the deployment has no such agent")
	}
	if seen.agents.Leader != server {
		return "", nil // another one leads: the evidence will say so
	}
	if others := agency.Without(seen.agents.Holding, server); others < seen.agents.Quorum {
		return "", fmt.Errorf("%d other agents follow it and have every entry, and %d are needed to elect another leader", others, seen.agents.Quorum)
	}
	ready, err := d.leadership.take()
	if !ready {
		return "", err
	}
	return seen.via[server], nil
}

// restart asks a server to end. Whatever ends a container's process lets the kubelet, or the pod's owner, start it again.
func (d *deployment) restart(ctx context.Context, address string) error {
	got, err := d.client.call(ctx, http.MethodDelete, address+"/_admin/shutdown", nil, answerLimit)
	switch {
	case unsent(err):
		d.leadership.untake()
		return err
	case err != nil:
		return err // it may have arrived
	case got.status >= http.StatusMultipleChoices:
		return terminal(&refusal{got.status, got.sentence()})
	}
	return nil
}
