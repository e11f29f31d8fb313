package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

const uncordonLong = `Give nodes back: remove the cordons that usher set, and only those. A cordon that
another client had set before stays, and so does that of a drain that is still running.
A node that a NodeMaintenance has is given back by usher maintain --delete.

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
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	s := &session{connection: conn, host: thisHost()}
	view, names, err := o.read(ctx, s)
	if err != nil {
		return problem(ctx, err)
	}
	if err := o.undo(ctx, s); err != nil {
		if ctx.Err() != nil {
			return exitWith(exitInterrupted)
		}
		fmt.Fprintf(o.ErrOut, "what killed drains left elsewhere is not undone: %v\n", err)
	}
	kept := o.maintained(ctx, view, names)
	worst, out := exitDone, outlasting(o.Out)
	for _, name := range names {
		code, words := exitBlocked, kept[name]
		if words == "" {
			code, words = release(ctx, s, view, name)
		}
		worst = max(worst, code)
		fmt.Fprintf(out, "%s: %s\n", name, o.commands.In(words))
	}
	if worst == exitDone {
		return out.Err()
	}
	return exitWith(worst)
}

// read reads the nodes that are meant, and the Leases of the drains that work on them.
func (o *uncordonOptions) read(ctx context.Context, s *session) (snapshot.View, []string, error) {
	look, names, err := s.nodesMeant(ctx, o.nodes, o.selector)
	if apierrors.IsForbidden(err) {
		return snapshot.View{}, nil, observe.Refused("reading nodes", err, "usher-uncordon", "--verb=list,patch --resource=nodes")
	}
	if err == nil {
		err = look.LeasesOfNodes(ctx)
	}
	if err != nil {
		return snapshot.View{}, nil, err
	}
	return look.View(), names, nil
}

// maintained says which nodes are not given back since a NodeMaintenance has them, or may have them: it would count a node that is opened
// under it as blocked.
func (o *uncordonOptions) maintained(ctx context.Context, view snapshot.View, names []string) map[string]string {
	var nodes []*snapshot.Node
	for _, name := range names {
		if n := view.Cluster.Node(name); maintenance.Has(n) {
			nodes = append(nodes, n)
		}
	}
	words := map[string]string{}
	kept, err := maintained(ctx, o.config, slices.Clone(nodes))
	for _, n := range nodes {
		switch {
		case err != nil:
			words[n.Name] = "not changed: " + err.Error()
		case kept[n.Name] != "":
			words[n.Name] = "not changed: " + maintainedWords(n.Name, kept[n.Name])
		}
	}
	return words
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

// rereadAfter is how soon a node is read again that others have changed, or of which an answer is missing.
func rereadAfter() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Cap: 2 * time.Second, Steps: 5, Factor: 2, Jitter: 0.5}
}

// release gives one node back and waits until that was seen: in the answer to the write, or by reading the node again. The view may be as
// old as the command: it stays what it was at its own moment, each write insists on the node's version in it, and a drain that comes back
// to life writes its nodes anew before it does anything else.
func release(ctx context.Context, s *session, view snapshot.View, name string) (code int, words string) {
	ctx, cancel := context.WithTimeout(ctx, releasePatience)
	defer cancel()
	writer := s.recorder()
	defer writer.Wait()
	var lease drain.Action
	var done *drain.Action // what was accepted
	pause := rereadAfter()
	for {
		action, blocker, free := nextRelease(view, s.host, name)
		switch {
		case done != nil && blocker != "":
			drop(ctx, writer, lease)
			return released(*done, view.Cluster.Node(name), blocker)
		case free:
			return exitDone, blocker
		case blocker != "":
			return exitBlocked, blocker
		}
		lease = leaseOn(view, s.host, action.Node) // the record shows whether its drain has ended
		answer, node := writer.DoNode(ctx, action)
		shown := node != nil && done == nil // what has to be written again is not repeated without a pause
		switch answer.Code {
		case answers.Accepted:
			done = &action
		case answers.Conflict, answers.Unavailable:
		default:
			return exitUsage, fmt.Sprintf("not changed: %s", answer.Message)
		}
		if shown {
			view.Cluster.SetNode(observe.NodeFacts(node))
			continue
		}
		var err error
		if view, err = s.reread(ctx, name, pause.Step()); err != nil {
			return exitUsage, notSeen(ctx, answer, err)
		}
	}
}

// reread reads a node again after a while, and the Lease of the drain that works on it.
func (s *session) reread(ctx context.Context, name string, after time.Duration) (snapshot.View, error) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return snapshot.View{}, ctx.Err()
	}
	look := observe.NewLook(s.client, s.clock)
	err := look.CordonsNamed(ctx, s.metadata, []string{name})
	if err == nil {
		err = look.LeasesOfNodes(ctx)
	}
	return look.View(), err
}

// notSeen says that the effect of a write was not seen, by the answer to it and what keeps the node from being read.
func notSeen(ctx context.Context, answer answers.Answer, err error) string {
	if ctx.Err() != nil {
		return "not seen to change within " + releasePatience.String() + ": " + cmp.Or(answer.Message, err.Error())
	}
	return "not seen to change: " + err.Error()
}

// leaseOn returns what deletes the Lease of the drain that has a node, if that drain has ended; else it has no kind.
func leaseOn(view snapshot.View, h host, n *snapshot.Node) drain.Action {
	action, _ := drain.ReleaseLease(view, n.Drain.Drainer, h.dead(view.Cluster))
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
func nextRelease(view snapshot.View, h host, name string) (action drain.Action, blocker string, free bool) {
	n := view.Cluster.Node(name)
	if n == nil {
		return drain.Action{}, "the node was deleted", true
	}
	action, blocker = drain.Release(view, n, h.dead(view.Cluster))
	if blocker != "" && n.Drain != nil {
		blocker += "; " + signOfLife(view, n.Drain.Drainer)
	}
	return action, blocker, n.Drain == nil && n.DrainError == "" && !n.Unschedulable
}

// released says what was done, and whether the node, as it was seen since, is back: a cordon that others have set stays. Why nothing more
// is done is the blocker.
func released(a drain.Action, now *snapshot.Node, blocker string) (code int, words string) {
	switch {
	case a.Kind == drain.Unmark && a.Node.Unschedulable:
		return exitBlocked, fmt.Sprintf("usher's record is removed; %s; kubectl uncordon %s removes that", a.Why, a.Node.Name)
	case a.Kind == drain.Unmark:
		return exitDone, "usher's record is removed; " + a.Why
	case now != nil && now.Unschedulable:
		return exitBlocked, "usher's cordon was removed, and the node has one again: " + blocker
	}
	return exitDone, "uncordoned; it was " + a.Why
}
