package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/network"
)

// agentSteps are the steps that empty agents.
var agentSteps = map[string]network.Kind{MoveRouters: network.Routers, MoveNetworks: network.Networks, MoveSpeakers: network.Speakers}

// emptyAgent marks the host's agent at first, and returns the job. The calls that bring it back move things: of those that may be without an agent for a
// moment only such as the job names, so that none is forgotten by a process that ends in between. The job that it returns names the next.
func (r *region) emptyAgent(ctx context.Context, step eviction.Preparation, kind network.Kind) (eviction.Job, error) {
	began := time.Now()
	written, own := network.ParseJob(step.Job.ID)
	own = own && step.Job.Own()
	n, l, err := r.lookAtAgent(ctx, step.Member.ID, kind, written)
	if err != nil {
		return step.Job, err
	}
	plan := l.Plan()
	if plan.Set != nil {
		if err := r.setAgent(ctx, n, plan.Set); err != nil {
			return step.Job, err
		}
	}
	next := plan.Job
	if own {
		moved, err := r.carryOut(ctx, n, l, plan.Next, began)
		if next.Moved += moved; err == nil && len(plan.Next) > 0 && len(next.Moving) > 0 {
			next, err = r.follow(ctx, n, l, next)
		}
		if err != nil {
			return step.Job, err
		}
	}
	switch {
	case plan.Problem != "":
		return step.Job, errors.New(plan.Problem)
	case !own:
		next = network.Job{}
	}
	job := eviction.Job{ID: next.String()}
	job.Progress = progress(&plan, own, job.ID != step.Job.ID)
	return job, nil
}

// progress is how far a call has brought an agent. What was given to another agent is let go after a while alone, when that has had the time to serve it.
func progress(plan *network.Plan, own, reserved bool) eviction.Progress {
	gives := own && slices.ContainsFunc(plan.Next, func(c network.Call) bool { return c.AddFirst })
	switch {
	case plan.Empty:
		return eviction.ProgressDone
	case !gives && (plan.Set != nil || !own || len(plan.Next) > 0 || reserved):
		return eviction.ProgressSoon
	}
	return ""
}

// follow is what is written down after something was asked for, with what comes next.
func (r *region) follow(ctx context.Context, n *neutron, l *agentLook, job network.Job) (network.Job, error) {
	l.Job = job
	if err := l.again(ctx, n, r); err != nil {
		return job, err
	}
	plan := l.Plan()
	return plan.Job, nil
}

func (*region) setAgent(ctx context.Context, n *neutron, s *network.Setting) error {
	err := n.set(ctx, s)
	if system.Final(statusOf(err)) {
		return fmt.Errorf("%w: %w", system.ErrTerminal, err)
	}
	return err
}

// carryOut asks for what is next, each thing once, and returns how many were let go that were written down nowhere. What is refused is remembered, shows in
// the evidence, and does not keep others waiting. An answer that was lost ends it: the next call looks at what has come of that.
func (r *region) carryOut(ctx context.Context, n *neutron, l *agentLook, calls []network.Call, began time.Time) (moved int, err error) {
	for i := range calls {
		if late(ctx, began) {
			return moved, nil
		}
		c := &calls[i]
		let, err := r.letGo(ctx, n, l, c)
		if err != nil {
			return moved, fmt.Errorf("to take %s off an agent: %w", c.Name, err)
		}
		switch {
		case let && len(c.To) == 0:
			moved++
		case let:
			if err := r.give(ctx, n, l, c); err != nil {
				return moved, fmt.Errorf("to give %s to an agent: %w", c.Name, err)
			}
		}
	}
	return moved, nil
}

// letGo has an agent let a thing go, where the call says which. It reports whether the agent has it no more.
func (r *region) letGo(ctx context.Context, n *neutron, l *agentLook, c *network.Call) (bool, error) {
	if c.From == "" {
		return true, nil
	}
	err := n.remove(ctx, l.Kind, c.From, c.Thing)
	switch refused, answered := errors.AsType[*refusal](err); {
	case err == nil:
		return true, nil
	case unknown(refused, answered):
		return false, err
	case refused.status == http.StatusNotFound:
		return false, nil // the agent or the thing is gone, or the one has not the other: it shows
	default:
		r.notePair(network.Pair{Thing: c.Thing, Agent: c.From}, network.Ask{Host: l.Host, Refused: refused.Error()})
		return false, nil
	}
}

// give asks agents to have a thing until one takes it. Each request is noted before it is sent: while it has no answer the agent gets nothing else.
func (r *region) give(ctx context.Context, n *neutron, l *agentLook, c *network.Call) error {
	ctx, cancel := whole(ctx)
	defer cancel()
	for _, agent := range c.To {
		pair := network.Pair{Thing: c.Thing, Agent: agent}
		r.notePair(pair, network.Ask{Host: l.Host, Open: true})
		err := n.add(ctx, l.Kind, agent, c.Thing)
		refused, answered := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			r.notePair(pair, network.Ask{Host: l.Host})
			return nil
		case unknown(refused, answered):
			if unsent(err) {
				r.forgetPair(pair)
			}
			return err
		}
		r.notePair(pair, network.Ask{Host: l.Host, Refused: refused.Error()})
	}
	return nil
}

// unknown reports whether it is not known what has come of a request.
func unknown(refused *refusal, answered bool) bool {
	return !answered || refused.status >= http.StatusInternalServerError || refused.status == http.StatusUnauthorized
}

// refillAgent takes back what was begun for an agent. It is done only when a look shows that: each call looks first.
func (r *region) refillAgent(ctx context.Context, step eviction.Preparation, kind network.Kind) (eviction.Undone, error) {
	began := time.Now()
	job, own := network.ParseJob(step.Job.ID)
	if !own || !step.Job.Own() {
		job = network.Job{} // nothing was moved before the job was known
	}
	n, l, err := r.lookAtAgent(ctx, step.Member.ID, kind, job)
	if errors.Is(err, errNoExtension) {
		return r.unmark(ctx, step.Member.ID, kind, err)
	}
	if err != nil {
		return eviction.Undone{}, err
	}
	undo := l.Undo()
	if undo.Done() {
		return eviction.Undone{Done: true, Left: undo.Left}, nil
	}
	if undo.Set != nil {
		if err := r.setAgent(ctx, n, undo.Set); err != nil {
			return eviction.Undone{}, err
		}
	}
	if _, err := r.carryOut(ctx, n, l, undo.Next, began); err != nil {
		return eviction.Undone{}, err
	}
	if len(undo.Next) == 0 && len(undo.Waits) > 0 {
		return eviction.Undone{}, errors.New(undo.Waiting())
	}
	return eviction.Undone{}, nil
}

// unmark gives a host's agent back of which Neutron does not say what it has, since why is that what it is asked by is not loaded.
func (r *region) unmark(ctx context.Context, host string, kind network.Kind, why error) (eviction.Undone, error) {
	n, err := r.session.network(ctx)
	if err != nil {
		return eviction.Undone{}, err
	}
	agents, err := n.agents(ctx)
	if err != nil {
		return eviction.Undone{}, err
	}
	l := r.agentLook(host, kind, agents)
	if undo := l.Undo(); undo.Set != nil {
		return eviction.Undone{}, r.setAgent(ctx, n, undo.Set)
	}
	return eviction.Undone{Done: true, Left: why.Error()}, nil
}
