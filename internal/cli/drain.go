package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// drainOptions is what `usher drain` was asked for.
type drainOptions struct {
	genericiooptions.IOStreams
	requestFlags

	config            *genericclioptions.ConfigFlags
	timeout           time.Duration
	dryRun            string
	uncordonOnFailure bool
	reason            string
	revert            bool
	output            string

	nodes []string
	typed typed
}

func newDrainCommand(name string, config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &drainOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:     "drain NODE… | -l SELECTOR",
		Short:   "Move all pods off nodes, and say what keeps those that cannot go",
		Long:    drainLong,
		Example: strings.ReplaceAll(drainExample, "  usher ", "  "+name+" "),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(name, cmd, args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	o.add(fs)
	fs.DurationVar(&o.timeout, "timeout", 0, "How long the command may take before it gives up, reading the cluster included; tidying up takes a moment more. 0: as long as it takes.")
	addDryRun(fs, &o.dryRun, `"client": print the plan. "server": ask the server for each eviction without carrying it out. "none": drain.`)
	fs.BoolVar(&o.uncordonOnFailure, "uncordon-on-failure", false, "If the drain does not succeed, take back the cordons that it set.")
	fs.StringVar(&o.reason, "reason", "", "Why the nodes are drained; it is written on them.")
	fs.BoolVar(&o.revert, "revert", false, "Drain nothing: only undo what killed drains left. It has no dry run.")
	fs.StringVarP(&o.output, "output", "o", "text", "text, or json: one event a line.")
	return cmd
}

// Complete reads the arguments.
func (o *drainOptions) Complete(name string, cmd *cobra.Command, args []string) error {
	o.typed = typed{command: name + " drain", args: args, flags: cmd.Flags(), others: commandsOf(cmd)}
	var err error
	if o.dryRun, err = dryRunOf(o.ErrOut, o.dryRun); err != nil {
		return err
	}
	if o.revert {
		return o.checkRevert(args)
	}
	o.nodes, err = nodeArgs(args, o.selector)
	return err
}

// checkRevert says what is wrong with what stands beside --revert. A dry run of it is refused: each of its steps goes by
// what the one before has changed.
func (o *drainOptions) checkRevert(args []string) error {
	switch {
	case len(args) > 0 || o.selector != "":
		return errors.New("--revert undoes what all killed drains left, so it takes no nodes")
	case o.dryRun != dryRunNone:
		return errors.New(o.typed.others.In("--revert has no dry run; usher plan NODE shows what killed drains left, and writes nothing"))
	}
	return nil
}

// Validate says what is wrong with the flags.
func (o *drainOptions) Validate() error {
	errs := []error{o.validate(), oneOf("--output", o.output, "text", "json")}
	if o.timeout < 0 {
		errs = append(errs, errors.New("--timeout is negative: give 0 for as long as it takes"))
	}
	_, err := o.request(time.Now())
	return errors.Join(append(errs, err)...)
}

// Run drains.
func (o *drainOptions) Run(ctx context.Context) error {
	v := newVoice(o.IOStreams, o.output, o.typed.others)
	limit := limitOf(o.timeout)
	began := time.Now()
	var changing atomic.Bool
	ctx, stop := interruptible(ctx,
		func() { v.urgent(stoppingWords(changing.Load())) },
		func() { o.leave(v, changing.Load()) })
	defer stop()
	beginning, begun := limit.context(ctx)
	defer begun()
	if o.dryRun == dryRunClient {
		return o.dryRunOfClient(beginning, limit, v)
	}
	s, err := open(beginning, o.config, o.ErrOut, o.nodes, o.selector)
	if limit.over(beginning) {
		return o.late(v, "the cluster could not be read in that time")
	}
	if err != nil {
		if ctx.Err() != nil {
			v.idle(time.Now(), time.Since(began), drain.Interrupted)
		}
		return err
	}
	defer s.close()
	changing.Store(o.dryRun == dryRunNone)
	if o.revert {
		return o.runRevert(beginning, s, v)
	}
	req, err := o.prepare(beginning, s)
	if err != nil {
		return err
	}
	if err := o.leaveMaintained(beginning, s); err != nil {
		return err
	}
	if o.dryRun == dryRunNone {
		if err := o.undoFirst(beginning, s, req, v); err != nil {
			return err
		}
	}
	if objections := o.objections(s, req, v); objections {
		return exitWith(exitBlocked)
	}
	if o.dryRun == dryRunServer {
		return askServer(ctx, s, req, v)
	}
	return o.drain(ctx, s, req, v, limit)
}

// dryRunOfClient prints how the drain would go, by one look at the whole cluster.
func (o *drainOptions) dryRunOfClient(ctx context.Context, limit limit, v *printer) error {
	began := time.Now()
	cluster, err := readAll(ctx, o.config, o.ErrOut)
	switch {
	case limit.over(ctx):
		return o.late(v, "the cluster could not be read in that time")
	case err != nil && ctx.Err() != nil:
		v.idle(time.Now(), time.Since(began), drain.Interrupted)
		return err
	case err != nil:
		return err
	}
	req, err := o.request(cluster.view.Now)
	if err != nil {
		return err
	}
	if req.Nodes, err = resolveNodes(cluster.view.Cluster, o.nodes, o.selector); err != nil {
		return err
	}
	req.Self, req.Dead = cluster.host.self(cluster.view.Now), cluster.host.dead(cluster.view.Cluster)
	req.Why, req.UncordonOnFailure = o.reason, o.uncordonOnFailure
	return printPlan(v, cluster.view, req, o.typed, show.Plan{OneLine: true})
}

// leaveMaintained refuses nodes that a NodeMaintenance has: two would wait for each other, or give the node back to each other.
func (o *drainOptions) leaveMaintained(ctx context.Context, s *session) error {
	var nodes []*snapshot.Node
	s.source.Read(func(v snapshot.View) {
		for _, name := range s.nodes {
			nodes = append(nodes, v.Cluster.Node(name))
		}
	})
	kept, err := maintained(ctx, o.config, nodes)
	if err != nil || len(kept) == 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		fmt.Fprintln(o.ErrOut, o.typed.others.In(maintainedWords(name, kept[name])))
	}
	fmt.Fprintln(o.ErrOut, "nothing was changed")
	return exitWith(exitBlocked)
}

// undoAtMost bounds how long what killed drains left is undone before a drain begins.
const undoAtMost = 30 * time.Second

// undoTime is how long undoing before a drain may take: a deadline is the node's, and does not wait for what is elsewhere.
func undoTime(deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return undoAtMost
	}
	return min(undoAtMost, deadline.Sub(now)/12)
}

// undoFirst undoes what killed drains left. What takes too long is left to the next command that undoes; with an error no drain begins.
func (o *drainOptions) undoFirst(ctx context.Context, s *session, req drain.Request, v *printer) error {
	most := undoTime(req.Deadline, s.clock.Now())
	var left undone
	late := within(ctx, most, func(ctx context.Context) { left = s.revert(ctx, v.reporter()) })
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return o.late(v, "what killed drains left took that long to undo", left.all()...)
	case ctx.Err() != nil:
		now := s.clock.Now()
		v.urgent("interrupted, and no node was drained")
		v.idle(now, now.Sub(req.Started), drain.Interrupted, left.all()...)
		return exitWith(exitInterrupted)
	case late:
		v.say(fmt.Sprintf("what killed drains left was not undone within %s, and the drain begins", most.Round(time.Millisecond)))
	}
	return nil
}

// within runs do for so long at most, and reports whether it was broken off then.
func within(ctx context.Context, most time.Duration, do func(context.Context)) (late bool) {
	bounded, enough := context.WithTimeout(ctx, most)
	defer enough()
	do(bounded)
	return bounded.Err() != nil && ctx.Err() == nil
}

// stoppingWords answer an interrupt.
func stoppingWords(changing bool) string {
	words := "stopping; press again to leave at once"
	if changing {
		words += "; tidying up what this drain has changed"
	}
	return words
}

// leave ends the process at once.
func (o *drainOptions) leave(v *printer, changing bool) {
	if changing {
		fmt.Fprintln(v.err, o.leftWords())
	}
	os.Exit(exitInterrupted)
}

// leftWords say what undoes what a drain has left that could not tidy up.
func (o *drainOptions) leftWords() string {
	undo := "usher drain --revert"
	switch {
	case o.revert:
	case o.selector != "":
		undo += ", usher uncordon -l " + text.ShellWord(o.selector)
	default:
		undo += ", usher uncordon " + strings.Join(o.nodes, " ")
	}
	return o.typed.others.In("left at once; undo with: " + undo)
}

// late says that the time was over before the drain began, and what was not undone until then.
func (o *drainOptions) late(v *printer, why string, left ...string) error {
	v.urgent(fmt.Sprintf("timed out after %s (--timeout), and no node was drained: %s", o.timeout, why))
	v.idle(time.Now(), o.timeout, drain.TimedOut, left...)
	return exitWith(exitLate)
}

// prepare turns flags and cluster into a request; nothing is changed.
func (o *drainOptions) prepare(ctx context.Context, s *session) (drain.Request, error) {
	now := s.clock.Now()
	req, err := o.request(now)
	if err != nil {
		return req, err
	}
	s.source.Read(func(v snapshot.View) { req.Nodes, err = resolveNodes(v.Cluster, s.nodes, "") })
	if err != nil {
		if req.Nodes, err = s.resolve(ctx, s.nodes, ""); err != nil { // which says what may be meant
			return req, problem(ctx, err)
		}
	}
	req.Self, req.Dead, req.Why, req.UncordonOnFailure = s.host.self(now), s.dead(), o.reason, o.uncordonOnFailure
	return req, nil
}

// objections prints everything that the filters object to. It reports whether there
// is any.
func (o *drainOptions) objections(s *session, req drain.Request, v *printer) bool {
	var found []drain.Blocker
	var now time.Time
	s.source.Read(func(view snapshot.View) {
		found, now = drain.Objections(view, req), view.Now
		for _, name := range req.Nodes {
			v.know(view.Cluster.PodsOn(name))
		}
	})
	if len(found) == 0 {
		return false
	}
	v.objections(found, now, o.typed.accepting(found))
	return true
}

func (o *drainOptions) drain(ctx context.Context, s *session, req drain.Request, v *printer, limit limit) error {
	var phases []drain.DeadlinePhase
	s.source.Read(func(view snapshot.View) { phases = drain.DeadlinePhases(view, req) })
	v.deadlinePhases(phases, req.Started)
	writer := s.recorder()
	defer writer.Wait()
	d := runner.Runner{
		Source: s.source, Writer: writer,
		Reporter: &watchHealth{Reporter: v.begin(req, s.clock.Now), broken: s.source.Broken},
		Request:  req, Until: limit.at, Shared: &s.shared,
	}
	estimating, enough := context.WithCancel(ctx)
	estimated := v.estimate(estimating, s.source, req)
	decision := d.Run(ctx)
	enough()
	estimated()
	v.end()
	var sum show.Summary
	s.source.Read(func(view snapshot.View) {
		sum = show.Summarize(decision, view, req, o.typed.resumeCommand(decision.Nodes))
	})
	sum.Stale = staleness(s.source.Broken)
	v.summary(sum)
	return exitWith(outcomeCode(decision.Outcome))
}
