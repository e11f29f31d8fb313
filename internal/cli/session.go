package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
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
	shared runner.Shared // of undoing what killed drains left, and of the drain that follows
	nodes  []string      // about whose pods is decided; empty: about what drains have left
}

// open connects and watches what decides about nodes, of these names or with these labels, and what drains have left. The context ends
// the reading, not what was opened: that lives until close.
func open(ctx context.Context, flags *genericclioptions.ConfigFlags, progress io.Writer, names []string, selector string) (*session, error) {
	conn, err := connect(flags, progress)
	if err != nil {
		return nil, err
	}
	s := &session{connection: conn, host: thisHost(), nodes: append([]string{}, names...)}
	if selector != "" {
		if s.nodes, err = conn.resolve(ctx, nil, selector); err != nil {
			return nil, problem(ctx, err)
		}
	}
	if s.source, err = s.watch(ctx, observe.Options{Nodes: s.nodes}); err != nil {
		return nil, err
	}
	return s, nil
}

// resolve reads the names of the nodes that are meant.
func (c *connection) resolve(ctx context.Context, names []string, selector string) ([]string, error) {
	_, found, err := c.nodesMeant(ctx, names, selector)
	return found, err
}

// nodesMeant reads the nodes that are meant, of those that are named what is known of their cordons, and returns their names.
func (c *connection) nodesMeant(ctx context.Context, names []string, selector string) (*observe.Look, []string, error) {
	look := observe.NewLook(c.client, c.clock)
	parsed, err := labels.Parse(selector)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("-l %q is not a label selector: %w", selector, err)
	case selector != "":
		err = look.Nodes(ctx, parsed)
	default:
		err = look.CordonsNamed(ctx, c.metadata, names)
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := resolveNodes(look.View().Cluster, names, selector)
	if err == nil {
		return look, found, nil
	}
	if err := look.Nodes(ctx, labels.Everything()); err != nil {
		return nil, nil, err
	}
	found, err = resolveNodes(look.View().Cluster, names, selector) // which names what may be meant
	return look, found, err
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
func (s *session) revert(ctx context.Context, reporter runner.Reporter) undone {
	var result undone
	var left drain.Decision
	var dead map[string]bool
	var scaled []types.UID
	s.source.Read(func(v snapshot.View) {
		dead = s.host.dead(v.Cluster)
		left = drain.Leftovers(v, dead, drain.NewLedger())
		scaled = scaledSince(v, dead)
	})
	if left.Settled {
		note(reporter, s.clock.Now(), left.Notes)
	} else {
		d := runner.Runner{
			Source: s.source, Writer: s.writer(), Reporter: reporter, Shared: &s.shared,
			Request: drain.Request{Self: s.host.self(s.clock.Now()), Dead: dead},
		}
		left = d.Revert(ctx)
	}
	result.failed = slices.Clone(left.Notes)
	if !left.Settled {
		result.breakOff(reporter, s.clock.Now())
	}
	s.source.Read(func(v snapshot.View) {
		note(reporter, v.Now, keptScales(v.Cluster, scaled))
		result.unknown, result.running = unread(v.Cluster), leftToRunning(v, dead)
	})
	return result
}
