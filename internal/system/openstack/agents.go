package openstack

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"usher.sh/usher/internal/system/openstack/network"
)

// movedAtOnce is how many things of an agent are asked for in one call of Prepare, which has but the policy's time.
const movedAtOnce = 10

// agentLook is a look at a host's agent of a kind.
type agentLook struct{ network.Look }

func (r *region) agentLook(host string, kind network.Kind, agents []network.Agent) *agentLook {
	return &agentLook{network.Look{
		Now: r.now(), Host: host, Kind: kind, Owner: r.owner, Agents: agents, Asked: r.knownPairs(), AtOnce: movedAtOnce,
	}}
}

// own are the host's agents of the kind.
func (l *agentLook) own() (ids []string) {
	for i := range l.Agents {
		if a := &l.Agents[i]; a.Host == l.Host && a.Type == l.Kind.Agent {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// things asks for what the host's agent has. Several agents are a problem that says so itself.
func (l *agentLook) things(ctx context.Context, n *neutron) (err error) {
	if own := l.own(); len(own) == 1 {
		l.Things, err = n.things(ctx, l.Kind, own[0])
	}
	return err
}

// listing is what an agent had when it was asked for.
type listing struct {
	time   time.Time
	things []network.Thing
}

// seenLife is how long that is taken for what an agent has that serves, of which nothing leaves before it is marked and asked about anew.
const seenLife = time.Minute

// list is things that are not asked for where they were seen not long ago and nothing is decided by them, unless they are to be fresh: agents of a whole region are
// observed every few seconds, and of all but a few nothing is wanted.
func (r *region) list(ctx context.Context, n *neutron, l *agentLook, fresh bool) error {
	own := l.own()
	if len(own) != 1 {
		return nil
	}
	serves := slices.ContainsFunc(l.Agents, func(a network.Agent) bool { return a.ID == own[0] && a.Serves() })
	if last, known := r.listed(own[0], l.Now); known && serves && !fresh {
		l.Things = last
		return nil
	}
	err := l.things(ctx, n)
	if err == nil && serves {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[own[0]] = listing{l.Now, l.Things}
	}
	return err
}

// listed returns what an agent had, where that is not long ago, and forgets what is.
func (r *region) listed(agent string, now time.Time) (things []network.Thing, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.seen, func(_ string, l listing) bool { return now.Sub(l.time).Abs() >= seenLife })
	last, known := r.seen[agent]
	return last.things, known
}

// lookAtAgent asks for all that is needed to decide what is next.
func (r *region) lookAtAgent(ctx context.Context, host string, kind network.Kind, job network.Job) (*neutron, *agentLook, error) {
	n, err := r.session.network(ctx)
	if err != nil {
		return nil, nil, err
	}
	agents, err := n.agents(ctx)
	if err != nil {
		return nil, nil, err
	}
	l := r.agentLook(host, kind, agents)
	l.Job, l.Listed = job, true
	if err := l.things(ctx, n); err != nil {
		return nil, nil, err
	}
	if len(l.Things)+len(job.Moving) == 0 {
		return n, l, nil
	}
	if err := l.load(ctx, n); err != nil {
		return nil, nil, err
	}
	return n, l, l.holders(ctx, n, l.Wanted())
}

// load asks for what the agents have that may get some. So it is known which of them have what is on the host's agent as well.
func (l *agentLook) load(ctx context.Context, n *neutron) error {
	open := l.Open()
	found := make([][]network.Thing, len(open))
	err := each(len(open), func(i int) error {
		var err error
		if found[i], err = n.things(ctx, l.Kind, open[i]); errors.Is(err, errAgentGone) {
			return nil // it has nothing, and refuses what it is given
		}
		return err
	})
	if err != nil {
		return err
	}
	l.Load, l.Holders = map[string]int{}, map[string][]network.Holder{}
	for i, agent := range open {
		l.Load[agent] = len(found[i])
		for j := range found[i] {
			if t := &found[i][j]; !t.HA {
				l.Holders[t.ID] = append(l.Holders[t.ID], network.Holder{Agent: agent})
			}
		}
	}
	return nil
}

// holders asks which agents have what is wanted by itself.
func (l *agentLook) holders(ctx context.Context, n *neutron, wanted []string) error {
	found, left := make([][]network.Holder, len(wanted)), make([]*network.Thing, len(wanted))
	err := each(len(wanted), func(i int) error {
		all, known, err := n.holders(ctx, l.Kind, wanted[i])
		if err != nil || !known {
			return err
		}
		found[i] = all
		if len(all) > 0 {
			return nil
		}
		// Neutron has no agents for what does not exist, and says so of it only itself.
		if left[i], err = n.thing(ctx, l.Kind, wanted[i]); left[i] == nil {
			found[i] = nil
		}
		return err
	})
	for i, id := range wanted {
		delete(l.Holders, id)
		if found[i] != nil {
			l.Holders[id] = found[i]
		}
		if left[i] != nil {
			l.Left = append(l.Left, *left[i])
		}
	}
	return err
}

// again looks at what was written down, after something was asked for.
func (l *agentLook) again(ctx context.Context, n *neutron, r *region) error {
	l.Now, l.Asked, l.Left = r.now(), r.knownPairs(), nil
	if err := l.things(ctx, n); err != nil {
		return err
	}
	return l.holders(ctx, n, l.Job.Moving)
}

// knownPairs is a copy of what was asked of agents.
func (r *region) knownPairs() map[network.Pair]network.Ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pairs)
}

// notePair remembers a request, before it is sent and when it is answered.
func (r *region) notePair(pair network.Pair, ask network.Ask) {
	now := r.now()
	ask.Time = now
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pairs, func(_ network.Pair, ask network.Ask) bool { return now.Sub(ask.Time) >= network.Again })
	r.pairs[pair] = ask
}

func (r *region) forgetPair(pair network.Pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pairs, pair)
}

// late reports whether less than half of a call's time is left: then nothing is begun any more, or the end of it might be cut off.
func late(ctx context.Context, began time.Time) bool {
	deadline, has := ctx.Deadline()
	return has && time.Until(deadline) < deadline.Sub(began)/2
}

// whole is a context that ends with the call's time, and not when the call is broken off: what is taken off one agent is given to another.
func whole(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, has := ctx.Deadline()
	if !has {
		return context.WithCancel(context.WithoutCancel(ctx))
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}
