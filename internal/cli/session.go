package cli

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// session is a command's connection to one cluster.
type session struct {
	*connection

	source *observe.Observer
	host   host
	nodes  []string // whose pods decide what is read; nil: every node
}

// open connects and reads the cluster. The context ends the reading, not what was
// opened: that lives until close.
func open(ctx context.Context, flags *genericclioptions.ConfigFlags, nodes []string) (*session, error) {
	conn, err := connect(flags)
	if err != nil {
		return nil, err
	}
	s := &session{connection: conn, host: thisHost(), nodes: nodes}
	if s.source, err = s.watch(ctx, observe.Options{Nodes: nodes}); err != nil {
		return nil, err
	}
	return s, nil
}

// watch starts an observer that outlives the context once everything was read.
func (s *session) watch(ctx context.Context, options observe.Options) (*observe.Observer, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, end)
	options.Now, options.Evictions = s.clock.Now, s.evictions
	source, err := observe.Start(life, s.client, options)
	keep()
	if err != nil {
		end()
		return nil, problem(ctx, err)
	}
	return source, nil
}

// problem is an error of reading, or that the command was interrupted.
func problem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exitWith(exitInterrupted)
	}
	return err
}

func (s *session) close() { s.source.Stop() }

// dead returns the ids of drains that certainly run no more.
func (s *session) dead() map[string]bool {
	var found map[string]bool
	s.source.Read(func(v snapshot.View) { found = s.host.dead(v.Cluster) })
	return found
}

// revert undoes what killed drains left on workloads and pods, and withdraws what they
// asked for, if there is any. It says what was not undone, and whether undoing was broken
// off: because it took too long, or by the context, which is no error.
func (s *session) revert(ctx context.Context, reporter runner.Reporter) (undone, error) {
	var result undone
	source := s.source
	if s.mustLookWider() {
		wide, err := s.watch(ctx, observe.Options{})
		if err != nil {
			if ctx.Err() != nil {
				result.breakOff(reporter, s.clock.Now())
			}
			return result, err
		}
		defer wide.Stop()
		source = wide
	}
	var left drain.Decision
	var dead map[string]bool
	var scaled []types.UID
	source.Read(func(v snapshot.View) {
		dead = s.host.dead(v.Cluster)
		left = drain.Leftovers(v, dead, drain.NewLedger())
		scaled = scaledSince(v, dead)
	})
	if left.Settled {
		note(reporter, s.clock.Now(), left.Notes)
	} else {
		d := runner.Runner{
			Source: source, Writer: s.writer(), Reporter: reporter,
			Request: drain.Request{Self: s.host.self(s.clock.Now()), Dead: dead},
		}
		left = d.Revert(ctx)
	}
	result.failed = slices.Clone(left.Notes)
	if !left.Settled {
		result.breakOff(reporter, s.clock.Now())
	}
	source.Read(func(v snapshot.View) {
		note(reporter, v.Now, keptScales(v.Cluster, scaled))
		result.unknown, result.running = unread(v.Cluster), leftToRunning(v, dead)
	})
	return result, nil
}

// mustLookWider reports whether a killed drain may have left something that this
// session does not read: Deployments and eviction requests are read only where pods on
// its nodes need them.
func (s *session) mustLookWider() bool {
	if s.nodes == nil {
		return false
	}
	var traces, deployments, requests bool
	s.source.Read(func(v snapshot.View) {
		traces = len(v.Cluster.MarkedPods()) > 0 || slices.ContainsFunc(v.Cluster.Nodes(), func(n *snapshot.Node) bool {
			return s.host.abandoned(n, v.Now)
		})
		for _, name := range s.nodes {
			for _, p := range v.Cluster.PodsOn(name) {
				deployments = deployments || p.Owner.Kind == "ReplicaSet"
				requests = requests || p.Policy() != ""
			}
		}
	})
	return traces && (!deployments || !requests)
}
