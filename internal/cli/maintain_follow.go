package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// How long a maintenance is followed in which nothing happens: one that the manager has not looked at, and one that is blocked.
const (
	unseenFor  = 15 * time.Second
	stalledFor = 30 * time.Second
)

// unseen says what to do where no manager looks at an object.
var unseen = "no manager has looked at it within " + unseenFor.String() + "; see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher"

// warnings prints what the server warns of, each once.
type warnings struct{ out io.Writer }

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, message string) {
	if code == 299 {
		fmt.Fprintf(w.out, "warning: %s\n", text.Line(message))
	}
}

// follow shows a maintenance until it is done, or has been blocked for a while.
func (o *maintainOptions) follow(ctx context.Context, objects dynamic.Interface, m *v1alpha1.NodeMaintenance) error {
	f := o.follower(m)
	ctx, stop := f.bounded(ctx)
	defer stop()
	code := exitDone
	err := observe.Maintenances{Client: objects}.Follow(ctx, m.Name, m.UID, func(now *v1alpha1.NodeMaintenance) bool {
		if now == nil {
			f.say("NodeMaintenance " + m.Name + " was deleted, and its nodes were given back")
			code = exitBlocked
			return true
		}
		f.show(now)
		if complete(now) {
			return true
		}
		f.watchFor(now)
		return false
	})
	f.end()
	if err == nil {
		return exitWith(code)
	}
	goesOn := " goes on"
	if f.last.Spec.Suspend {
		goesOn = fmt.Sprintf(" is suspended; kubectl patch nodemaintenance %s --type=merge -p '{\"spec\":{\"suspend\":false}}' has it go on", m.Name)
	}
	return f.ended(ctx, err, o.commands.In(fmt.Sprintf("NodeMaintenance %s%s; usher maintain --delete %s ends it and gives its nodes back", m.Name, goesOn, m.Name)))
}

// followEnd waits until a maintenance that was deleted has given its nodes back.
func (o *maintainOptions) followEnd(ctx context.Context, objects dynamic.Interface, m *v1alpha1.NodeMaintenance) error {
	f := o.follower(m)
	ctx, stop := f.bounded(ctx)
	defer stop()
	err := observe.Maintenances{Client: objects}.Follow(ctx, m.Name, m.UID, func(now *v1alpha1.NodeMaintenance) bool {
		if now == nil {
			f.say("NodeMaintenance " + m.Name + " is gone, and its nodes are given back" + f.exceptMaintained(ctx, objects, m))
			return true
		}
		f.show(now)
		f.watchFor(now)
		return false
	})
	f.end()
	if err == nil {
		return nil
	}
	stands := fmt.Sprintf("NodeMaintenance %s is being ended all the same; kubectl get nodemaintenance %s says how far it is", m.Name, m.Name)
	if errors.Is(context.Cause(ctx), errUnseen) {
		stands += fmt.Sprintf("; without a manager: kubectl patch nodemaintenance %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}', then usher uncordon its nodes", m.Name)
	}
	return f.ended(ctx, err, o.commands.In(stands))
}

// exceptMaintained names the nodes of a maintenance that has ended which others have in work; "" where there are none, and where that cannot be read.
func (f *maintenanceFollower) exceptMaintained(ctx context.Context, objects dynamic.Interface, m *v1alpha1.NodeMaintenance) string {
	others, err := observe.Maintenances{Client: objects}.List(ctx)
	if err != nil {
		return ""
	}
	var kept []string
	for i := range m.Status.Nodes {
		e := &m.Status.Nodes[i]
		if names := maintainersOf(others, e.Name, e.UID); len(names) > 0 {
			kept = append(kept, fmt.Sprintf("%s (%s)", e.Name, text.List(names, 3)))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return ", but for those that other NodeMaintenances have: " + text.List(kept, 10)
}

func complete(m *v1alpha1.NodeMaintenance) bool {
	return m.Status.ObservedGeneration == m.Generation && meta.IsStatusConditionTrue(m.Status.Conditions, "Ready")
}

// stalled reports whether a maintenance is blocked, with no node that goes on. Nodes that are kept cordoned do not.
func stalled(m *v1alpha1.NodeMaintenance) bool {
	goingOn := m.Status.Counts.Draining + m.Status.Counts.Drained
	for i := range m.Status.Nodes {
		if e := &m.Status.Nodes[i]; (e.Step == v1alpha1.StepDrained || e.Step == v1alpha1.StepMarked) && !e.Blocked {
			goingOn--
		}
	}
	return meta.IsStatusConditionTrue(m.Status.Conditions, "Stalled") && goingOn <= 0
}

// maintenanceFollower shows one maintenance: redrawn on a terminal, a line for each change elsewhere.
type maintenanceFollower struct {
	options *maintainOptions
	printer *printer
	screen  *show.Screen
	last    *v1alpha1.NodeMaintenance
	said    map[string]string // by node
	stuck   *time.Timer       // fires when nothing has happened for long
	stop    context.CancelCauseFunc
}

func (o *maintainOptions) follower(m *v1alpha1.NodeMaintenance) *maintenanceFollower {
	return &maintenanceFollower{
		options: o, printer: newVoice(o.IOStreams, "text", o.commands), screen: show.NewScreen(o.Out), said: map[string]string{}, last: m,
	}
}

// Why following ends.
var (
	errStalled = errors.New("it is blocked")
	errUnseen  = errors.New("the manager does not look at it")
	errLate    = errors.New("--timeout")
	errStopped = errors.New("interrupted")
)

// bounded ends with the timeout, when the maintenance has been stuck for long, and on a signal.
func (f *maintenanceFollower) bounded(parent context.Context) (context.Context, func()) {
	ctx, stop, done := f.options.limit.follow(parent)
	f.stop = stop
	return ctx, done
}

// watchFor bounds how long nothing may happen.
func (f *maintenanceFollower) watchFor(m *v1alpha1.NodeMaintenance) {
	if f.stuck != nil {
		f.stuck.Stop()
	}
	switch {
	case m.Status.ObservedGeneration < m.Generation:
		f.stuck = time.AfterFunc(unseenFor, func() { f.stop(errUnseen) })
	case stalled(m):
		f.stuck = time.AfterFunc(stalledFor, func() { f.stop(errStalled) })
	}
}

// show draws the table anew, or prints what has changed.
func (f *maintenanceFollower) show(m *v1alpha1.NodeMaintenance) {
	f.last = m
	if f.printer.term.live {
		width, height := f.printer.term.size()
		f.screen.Draw(show.MaintenanceScreen(m, width, height, f.printer.paint()), width)
		return
	}
	now := map[string]string{}
	for i := range m.Status.Nodes {
		e := &m.Status.Nodes[i]
		words := show.MaintainedNode(m, e)
		if now[e.Name] = words; f.said[e.Name] != words {
			f.say(e.Name + "  " + words)
		}
	}
	for _, name := range m.Status.DoneNodes {
		if now[name] = "done"; f.said[name] != "done" {
			f.say(name + "  done")
		}
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, "Ready"); c != nil && c.Reason != "InProgress" {
		if now[""] = c.Message; f.said[""] != c.Message {
			f.say(c.Message)
		}
	}
	f.said = now
}

func (f *maintenanceFollower) say(words string) {
	fmt.Fprintf(f.options.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), f.options.commands.In(text.Line(words)))
}

func (f *maintenanceFollower) end() {
	if f.stuck != nil {
		f.stuck.Stop()
	}
}

// ended says why following has ended before the maintenance, and that it stands.
func (f *maintenanceFollower) ended(ctx context.Context, err error, stands string) error {
	var code int
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		code = exitBlocked
		for _, line := range show.MaintenanceBlockers(f.last, f.printer.term.textWidth()) {
			fmt.Fprintln(f.options.Out, f.options.commands.In(line))
		}
	case errors.Is(cause, errUnseen):
		code = exitBlocked
		fmt.Fprintln(f.options.Out, unseen)
	case errors.Is(cause, errLate):
		code = exitLate
		for _, line := range show.MaintenanceWaits(f.last, f.printer.term.textWidth()) {
			fmt.Fprintln(f.options.Out, f.options.commands.In(line))
		}
		fmt.Fprintf(f.options.Out, "timed out after %s (--timeout)\n", f.options.timeout)
	case ctx.Err() != nil:
		code = exitInterrupted
	default:
		return err
	}
	fmt.Fprintln(f.options.Out, stands)
	return exitWith(code)
}
