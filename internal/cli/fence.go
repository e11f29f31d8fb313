package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

const fenceLong = `Say that the machine of a lost node is off. Your word is recorded, with your name and
the time, as the proof without which nothing with a disk leaves the node: Usher then
taints it as out of service, and Kubernetes removes its pods and detaches its volumes.

Make sure that the machine has no power, and gets none: if it runs, what ran on it
runs twice, and writes to the same disks.

Without --confirm nothing is recorded, and it says what would be.

Exit codes: 0 it was recorded, 1 wrong usage or no access, 2 it was not recorded.`

// fenceOptions is what `usher fence` was asked for.
type fenceOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	confirm  bool

	node string
}

func newFenceCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &fenceOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "fence NODE",
		Short: "Say that the machine of a lost node is off",
		Long:  fenceLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.confirm, "confirm", false, "Record it: the machine is off.")
	return cmd
}

// Complete reads the arguments.
func (o *fenceOptions) Complete(args []string) error {
	if len(args) != 1 {
		return errors.New("name one node: usher fence NODE --confirm")
	}
	o.node = args[0]
	if kind, name, typed := strings.Cut(args[0], "/"); typed {
		if of, _ := kindOf(kind); of != nodeKind {
			return fmt.Errorf("%q is not a node: give NAME or node/NAME", args[0])
		}
		o.node = name
	}
	if o.node == "" {
		return errors.New("name one node: usher fence NODE --confirm")
	}
	return nil
}

// Run records it.
func (o *fenceOptions) Run(ctx context.Context) error {
	c, clock, err := fenceClient(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	lost, err := observe.LookAtLostNode(ctx, c, o.node)
	if err != nil {
		return problem(ctx, err)
	}
	fences := &act.Fences{Client: c, Now: clock.Now}
	user, err := fences.Username(ctx)
	if err != nil {
		return problem(ctx, err)
	}
	fence, why := lostnode.Confirm(&lost.Node, lost.Lease, lost.Fences, user, clock.Now())
	if why != "" {
		fmt.Fprintln(o.Out, o.commands.In(text.Line(why)))
		return exitWith(exitBlocked)
	}
	if !o.confirm {
		o.ask(fence)
		return exitWith(exitBlocked)
	}
	return o.record(ctx, fences, fence)
}

// ask says what would be recorded.
func (o *fenceOptions) ask(fence *v1alpha1.NodeFence) {
	fmt.Fprintf(o.Out, "Node %s has been unreachable since %s. Nothing was recorded yet.\n", fence.Spec.NodeName, fence.Spec.UnreachableSince.UTC().Format(time.RFC3339))
	fmt.Fprintf(o.Out, "With --confirm it is recorded that %s says that the machine is off, in its boot %s. Its pods are then started elsewhere, with their disks:\n",
		text.Line(fence.Spec.Confirmation.Requester), text.Line(fence.Spec.BootID))
	fmt.Fprintln(o.Out, "make sure that it has no power and gets none. Then: "+o.commands.In("usher fence "+fence.Spec.NodeName+" --confirm"))
}

func (o *fenceOptions) record(ctx context.Context, fences *act.Fences, fence *v1alpha1.NodeFence) error {
	switch answer := fences.Confirm(ctx, fence); answer.Code {
	case answers.Accepted:
		fmt.Fprintf(o.Out, "recorded in fence %s: %s says that the machine of node %s is off\n", fence.Name, text.Line(fence.Spec.Confirmation.Requester), fence.Spec.NodeName)
		fmt.Fprintln(o.Out, "what follows, and what it waits for: "+o.commands.In("usher why node/"+fence.Spec.NodeName))
		return nil
	case answers.Conflict, answers.Gone:
		return errors.New("the fence has changed meanwhile, and nothing was recorded: try again")
	case answers.Forbidden:
		return fmt.Errorf("you may not say so, and nothing was recorded (%s); %s", answer.Message,
			observe.GrantTo(observe.RefusedUser(answer.Message), "usher-fence", "--verb=create,patch --resource=nodefences.usher.sh"))
	default:
		return fmt.Errorf("nothing was recorded: %s", answer.Message)
	}
}

// fenceClient knows nodes, Leases and Usher's own kinds.
func fenceClient(config *genericclioptions.ConfigFlags, progress io.Writer) (client.Client, *observe.Clock, error) {
	access, err := restConfig(config)
	if err != nil {
		return nil, nil, err
	}
	access = rest.CopyConfig(access)
	access.ContentType, access.AcceptContentTypes = "", "" // custom resources speak JSON
	clock := &observe.Clock{}
	awaitFirstAnswer(access, clock, progress)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, fmt.Errorf("making a scheme: %w", err)
		}
	}
	c, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", access.Host, err)
	}
	return c, clock, nil
}
