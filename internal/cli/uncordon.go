package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

const uncordonLong = `Give nodes back: remove the cordons that usher set, and only those. A cordon that
another client had set before stays, and so does that of a drain that is still running.

Exit codes: 0 the nodes are as they were before usher, 1 wrong usage or no access,
2 at least one cordon was not usher's to remove.`

// uncordonOptions is what `usher uncordon` was asked for.
type uncordonOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	selector string

	nodes []string
}

func newUncordonCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &uncordonOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "uncordon NODE… | -l SELECTOR",
		Short: "Remove the cordons that usher set",
		Long:  uncordonLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Nodes with these labels, instead of names.")
	return cmd
}

// Complete reads the arguments.
func (o *uncordonOptions) Complete(args []string) error {
	var err error
	o.nodes, err = nodeArgs(args, o.selector)
	return err
}

// Run uncordons.
func (o *uncordonOptions) Run(ctx context.Context) error {
	conn, err := connect(o.config)
	if err != nil {
		return err
	}
	s := &session{connection: conn, host: thisHost()}
	names, err := o.watch(ctx, s)
	if err != nil {
		return err
	}
	defer s.close()
	if err := o.undo(ctx, s); err != nil {
		if ctx.Err() != nil {
			return exitWith(exitInterrupted)
		}
		fmt.Fprintf(o.ErrOut, "what killed drains left elsewhere is not undone: %v\n", err)
	}
	worst, out := exitDone, outlasting(o.Out)
	for _, name := range names {
		code, words := release(ctx, s, name)
		worst = max(worst, code)
		fmt.Fprintf(out, "%s: %s\n", name, o.commands.In(words))
	}
	if worst == exitDone {
		return out.Err()
	}
	return exitWith(worst)
}

// watch begins to watch the nodes that are meant, and returns their names. Nodes that are named are read by the watch alone; where one does
// not exist, what is read besides says which may be meant.
func (o *uncordonOptions) watch(ctx context.Context, s *session) ([]string, error) {
	names := o.nodes
	if o.selector != "" {
		var err error
		if names, err = s.resolve(ctx, nil, o.selector); err != nil {
			return nil, problem(ctx, err)
		}
	}
	var err error
	if s.source, err = s.watch(ctx, observe.Options{Nodes: names, Only: true}); err != nil {
		return nil, err
	}
	all := true
	s.source.Read(func(v snapshot.View) {
		all = !slices.ContainsFunc(names, func(name string) bool { return v.Cluster.Node(name) == nil })
	})
	if all || o.selector != "" {
		return names, nil
	}
	if names, err = s.resolve(ctx, names, ""); err != nil {
		s.close()
		return nil, problem(ctx, err)
	}
	return names, nil
}

// undo undoes what killed drains left, if there is something.
func (o *uncordonOptions) undo(ctx context.Context, s *session) error {
	some, unread, err := observe.NewLook(s.client, s.clock).Traces(ctx, s.evictions)
	if err != nil {
		return err
	}
	if len(unread) > 0 {
		fmt.Fprintf(o.ErrOut, "what killed drains left is not looked for on %s: they may not be listed\n", strings.Join(unread, ", "))
	}
	if !some {
		return nil
	}
	left := &session{connection: s.connection, host: s.host}
	if left.source, err = left.watch(ctx, observe.Options{Nodes: []string{}}); err != nil {
		return err
	}
	defer left.close()
	left.revert(ctx, advised{show.NewPlain(o.ErrOut), o.commands})
	return nil
}

// releasePatience bounds how long a node is waited for that others keep changing, or
// whose change is not seen.
const releasePatience = 15 * time.Second

// release gives one node back and waits until that was seen.
func release(ctx context.Context, s *session, name string) (code int, words string) {
	ctx, cancel := context.WithTimeout(ctx, releasePatience)
	defer cancel()
	writer := s.recorder()
	defer writer.Wait()
	var answer answers.Answer
	var lease drain.Action
	done := "" // what was accepted and is not seen yet
	became := exitDone
	for {
		action, blocker, free := nextRelease(s, name)
		switch {
		case done != "" && blocker != "":
			drop(ctx, writer, lease)
			return became, done
		case free:
			return exitDone, blocker
		case blocker != "":
			return exitBlocked, blocker
		case done == "":
			lease = leaseOn(s, action.Node) // the record shows whether its drain has ended
			answer = writer.Do(ctx, action)
		}
		switch answer.Code {
		case answers.Accepted:
			became, done = released(action)
		case answers.Conflict, answers.Unavailable:
		default:
			return exitUsage, fmt.Sprintf("not changed: %s", answer.Message)
		}
		select {
		case <-s.source.Changed():
		case <-ctx.Done():
			return exitUsage, "not seen to change within " + releasePatience.String() + ": " + answer.Message
		}
	}
}

// leaseOn returns what deletes the Lease of the drain that has a node, if that drain has ended; else it has no kind.
func leaseOn(s *session, n *snapshot.Node) (action drain.Action) {
	dead := s.dead()
	s.source.Read(func(v snapshot.View) { action, _ = drain.ReleaseLease(v, n.Drain.Drainer, dead) })
	return action
}

// drop deletes a Lease, if there is one. One that stays changes nothing: it is not renewed.
func drop(ctx context.Context, writer runner.Writer, lease drain.Action) {
	if lease.Kind != "" {
		writer.Do(ctx, lease)
	}
}

// nextRelease returns what is to be done next, or why nothing is; free: the node carries
// neither a cordon nor a record.
func nextRelease(s *session, name string) (action drain.Action, blocker string, free bool) {
	dead := s.dead()
	s.source.Read(func(v snapshot.View) {
		n := v.Cluster.Node(name)
		if n == nil {
			blocker, free = "the node was deleted", true
			return
		}
		action, blocker = drain.Release(v, n, dead)
		if blocker != "" && n.Drain != nil {
			blocker += "; " + signOfLife(v, n.Drain.Drainer)
		}
		free = n.Drain == nil && n.DrainError == "" && !n.Unschedulable
	})
	return action, blocker, free
}

// released says what was done, and whether the node is back: a cordon that others have set stays.
func released(a drain.Action) (code int, words string) {
	switch {
	case a.Kind != drain.Unmark:
		return exitDone, "uncordoned; it was " + a.Why
	case a.Node.Unschedulable:
		return exitBlocked, fmt.Sprintf("usher's record is removed; %s; kubectl uncordon %s removes that", a.Why, a.Node.Name)
	}
	return exitDone, "usher's record is removed; " + a.Why
}
