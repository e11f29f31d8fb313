package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

const noticesLong = `List the notices that nodes will go: what came of each, and how long is left. Those
that are only reported are listed as long as the apiserver keeps events, for an hour
where that was not changed.`

// noticesOptions is what `usher notices` was asked for.
type noticesOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	output   string
}

func newNoticesCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &noticesOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "notices",
		Short: "List the notices that nodes will go, and what came of each",
		Long:  noticesLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if len(args) > 0 {
				return errors.New("usher notices takes no names; usher why NODE looks at one node")
			}
			if err := oneOf("--output", o.output, "text", "json"); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json.")
	return cmd
}

// Run lists.
func (o *noticesOptions) Run(ctx context.Context) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	config, err := restConfig(o.config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	all, err := observe.Maintenances{Client: objects}.List(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("the cluster has no NodeMaintenances: Usher is not installed, or older than this program; usher install brings them")
	case err != nil:
		return observe.Refused("reading maintenances", err, "usher-notices-view", "--verb=list --resource=nodemaintenances.usher.sh,events.events.k8s.io")
	}
	reported, err := observe.ReportedNotices(ctx, conn.client)
	if err != nil {
		return observe.Refused("reading events about nodes", err, "usher-notices-view", "--verb=list --resource=nodemaintenances.usher.sh,events.events.k8s.io")
	}
	page := show.Notices{Standing: notice.StandingOf(all), Reported: reported, Now: conn.clock.Now()}
	return newVoice(o.IOStreams, o.output, o.commands).page(page.JSON, page.Lines)
}
