package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

const evictLong = `Ask for one pod's eviction and follow it until the pod is gone. An EvictionRequest is
made in your name; Usher, or another responder of the pod, makes it safe to leave
and evicts it. The request stands when this command ends: --withdraw takes it back,
and what was prepared for it is undone.

A pod that stays by its policy (leaves: Load) is followed until it is emptied.

Exit codes: 0 the pod is gone or emptied, or the request was made (--wait=false) or withdrawn,
1 wrong usage or no access, 2 it will not be evicted, 3 the timeout passed,
130 interrupted: the request stands.`

// evictOptions is what `usher evict` was asked for.
type evictOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	wait     bool
	withdraw bool
	timeout  time.Duration

	commands show.Commands
	pod      snapshot.Key
}

func newEvictCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &evictOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "evict POD",
		Short: "Ask for one pod's eviction and follow it",
		Long:  evictLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.wait, "wait", true, "Follow the eviction until the pod is gone.")
	fs.BoolVar(&o.withdraw, "withdraw", false, "Take back the request that was made in your name.")
	fs.DurationVar(&o.timeout, "timeout", 0, "How long to follow it. 0: as long as it takes.")
	return cmd
}

// Complete reads the arguments.
func (o *evictOptions) Complete(args []string) error {
	var err error
	o.pod, err = podArg(o.config, "evict", args)
	return err
}

// Validate says what is wrong with the flags.
func (o *evictOptions) Validate() error {
	if o.timeout < 0 {
		return errors.New("--timeout is negative: give 0 for as long as it takes")
	}
	return nil
}

// Run asks, or withdraws.
func (o *evictOptions) Run(ctx context.Context) error {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	err := o.run(ctx)
	var ended exit
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil && !errors.As(err, &ended) {
		fmt.Fprintf(o.ErrOut, "timed out after %s (--timeout): %v\n", o.timeout, err)
		return exitWith(exitLate)
	}
	return err
}

func (o *evictOptions) run(ctx context.Context) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	pod, err := conn.client.CoreV1().Pods(o.pod.Namespace).Get(ctx, o.pod.Name, metav1.GetOptions{})
	if err != nil {
		return o.noPod(ctx, conn, err)
	}
	self := thisHost().self(conn.clock.Now())
	demand := act.Demand{Pod: observe.PodFacts(pod), Requester: evictionrequest.Requester(self.By)}
	if o.withdraw {
		return o.takeBack(ctx, conn, demand)
	}
	if err := conn.writer().Ask(ctx, demand); err != nil {
		return notServed(err)
	}
	fmt.Fprintf(o.Out, "pod %s: its eviction was requested, as %s\n", o.pod, demand.Requester)
	if !o.wait {
		return nil
	}
	return o.follow(ctx, conn, demand)
}

// noPod names pods that may be meant.
func (o *evictOptions) noPod(ctx context.Context, conn *connection, err error) error {
	if !apierrors.IsNotFound(err) {
		return observe.Explained("reading pod "+o.pod.String(), err)
	}
	look := observe.NewLook(conn.client, conn.clock)
	if look.Near(ctx, o.pod) != nil {
		return fmt.Errorf("reading pod %s: %w", o.pod, err) // it is not there, and what is may not be read
	}
	return unknownPod(look.View().Cluster, o.pod, "evict", o.commands)
}

func (o *evictOptions) takeBack(ctx context.Context, conn *connection, demand act.Demand) error {
	found, err := conn.writer().Withdraw(ctx, demand)
	if err != nil {
		return notServed(err)
	}
	if !found {
		return fmt.Errorf("no request of %s for pod %s is there to be withdrawn; %s lists what is requested", demand.Requester, o.pod, o.commands.In("usher evictions"))
	}
	fmt.Fprintf(o.Out, "pod %s: the request of %s was withdrawn; what a manager has prepared for it alone, that manager undoes\n", o.pod, demand.Requester)
	return nil
}

// notServed explains the commonest failure.
func notServed(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w; usher install brings EvictionRequests to clusters that do not serve them", err)
	}
	return err
}

// clearedWithin is how long a command that has its answer still waits for the apiserver.
const clearedWithin = 5 * time.Second

// follow prints what becomes of the request until it has ended.
func (o *evictOptions) follow(ctx context.Context, conn *connection, demand act.Demand) error {
	ctx, stop := interruptible(ctx, func() {}, func() { os.Exit(exitInterrupted) })
	defer stop()
	shown := requestProgress{out: o.Out, now: conn.clock.Now, commands: o.commands}
	unanswered := time.AfterFunc(drain.TakenUpWithin, shown.nothing)
	end, err := observe.Follow(ctx, conn.client, conn.evictions, demand.Pod, demand.Requester, shown.eviction)
	unanswered.Stop()
	if !end.Gone && !end.Emptied && end.Failed == "" {
		shown.nothing()
	}
	shown.end()
	if end.Gone {
		// It has served its purpose; what is left of it would only be in the way of users who list the requests.
		clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearedWithin)
		defer cancel()
		_, _ = conn.writer().Withdraw(clearing, demand)
	}
	return o.end(ctx, end, err)
}

func (o *evictOptions) end(ctx context.Context, end observe.End, err error) error {
	again := o.commands.In(fmt.Sprintf("the request stands: usher evict %s -n %s goes on, with --withdraw it is taken back", o.pod.Name, o.pod.Namespace))
	switch {
	case end.Gone:
		fmt.Fprintf(o.Out, "pod %s is gone\n", o.pod)
		return nil
	case end.Emptied:
		back := o.commands.In(fmt.Sprintf("usher evict %s -n %s --withdraw", o.pod.Name, o.pod.Namespace))
		fmt.Fprintf(o.Out, "pod %s is emptied and stays (its policy says leaves: Load); the request stands and keeps it empty, and %s gives it back\n", o.pod, back)
		return nil
	case end.Failed != "":
		fmt.Fprintf(o.Out, "pod %s is not evicted: %s\n", o.pod, end.Failed)
		return exitWith(exitBlocked)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		fmt.Fprintln(o.Out, again)
		return exitWith(outcomeCode(drain.TimedOut))
	case ctx.Err() != nil:
		fmt.Fprintln(o.Out, again)
		return exitWith(exitInterrupted)
	}
	return fmt.Errorf("following the eviction of pod %s: %w", o.pod, err)
}
