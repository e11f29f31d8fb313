package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/install"
)

const uninstallLong = `Remove Usher from the cluster, with all policies and everything that it has written
on pods and namespaces. Webhooks go first, so that nothing is refused any more; then
the policies, for which the manager undoes what it has prepared. What could not be
undone is named.

With --dry-run=client it is read what is there and said what would be removed; with
--dry-run=server the server checks each removal and carries none out.`

// undoPatience is how long the manager may take to undo what it has prepared in the systems.
const undoPatience = 2 * time.Minute

// removalPatience is some ten times what the apiserver usually takes for the objects of a kind.
const removalPatience = 10 * time.Second

// uninstallOptions is what `usher uninstall` was asked for.
type uninstallOptions struct {
	genericiooptions.IOStreams

	config  *genericclioptions.ConfigFlags
	dryRun  string
	timeout time.Duration
}

func newUninstallCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &uninstallOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the manager, all policies and all traces from the cluster",
		Long:  uninstallLong,
		Args:  noNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.dryRun, err = dryRunOf(o.ErrOut, o.dryRun); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	addDryRun(cmd.Flags(), &o.dryRun, `"client": say what would be removed, and remove nothing. "server": let the server check it. "none": remove it.`)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long it may take altogether.")
	return cmd
}

// Run uninstalls.
func (o *uninstallOptions) Run(ctx context.Context) error {
	cluster, asked, err := connectInstall(o.config, o.IOStreams, o.timeout)
	if err != nil {
		return err
	}
	if _, err := install.LifecycleServed(asked); err != nil { // it explains why an apiserver cannot be reached
		return err
	}
	namespace := systemNamespace(o.config)
	objects, err := install.Objects(install.Everything(namespace)) // what is not there is passed over
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not within %s", o.timeout))
	defer cancel()
	cluster.UndoPatience, cluster.RemovalPatience = undoPatience, removalPatience
	out := &written{Writer: outlasting(cluster.Out)}
	cluster.Out = out
	if o.dryRun == dryRunClient {
		cluster = cluster.ReadOnly()
	}
	if err := cluster.Remove(ctx, objects, namespace, o.dryRun != dryRunNone); err != nil {
		return err
	}
	switch {
	case !out.something:
		fmt.Fprintln(o.Out, "nothing of usher is in the cluster")
	case o.dryRun == dryRunNone:
		fmt.Fprintln(o.Out, "uninstalled")
	}
	return nil
}

// written notes whether anything was written through it.
type written struct {
	io.Writer

	something bool
}

func (w *written) Write(p []byte) (int, error) {
	w.something = true
	return w.Writer.Write(p)
}
