package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/forecast"
	"usher.sh/usher/internal/nodepressure/record"
	"usher.sh/usher/internal/observe"
)

const pressureLong = `Say how a node stands with its eviction thresholds, which pod would go first if it
fell below one and why, and which one the kernel's OOM killer would take.

The readings are the kubelet's own, from its /stats/summary through the apiserver, and
so are the thresholds where its configuration may be read; nothing has to be installed.
The kubelet measures every 10 to 15 seconds. --order kubelet puts pods in the order of
the kubelet; --order qos in that of usher agent, which goes by QoS class first.
--oom 3.11 scores containers for the OOM killer as OpenShift 3.11 did.

With -f nothing is connected to. The file is a summary, of which requests, priorities
and QoS classes are not known, or a record with all that counts, as -o json prints and
usher agent keeps:

  kubectl get --raw /api/v1/nodes/worker-1/proxy/stats/summary > summary.json
  usher pressure -f summary.json --what-if memory.available=80Mi

-w looks again every few seconds until Ctrl-C.

Exit codes: 0 it was said, 1 wrong usage, no access, or a kubelet that does not answer.`

// pressureOptions is what `usher pressure` was asked for.
type pressureOptions struct {
	genericiooptions.IOStreams

	config *genericclioptions.ConfigFlags
	file   string
	whatIf []string
	order  string
	oom    string
	output string
	watch  bool

	node     string // "": the one that the file is about
	supposed map[nodepressure.Signal]supposed
}

func newPressureCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &pressureOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "pressure NODE",
		Short: "Say which pod goes first when a node runs short",
		Long:  pressureLong,
		RunE: func(cmd *cobra.Command, args []string) error {
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
	fs.StringVarP(&o.file, "filename", "f", "", "A summary of a kubelet, or a record; - is standard input.")
	fs.StringArrayVar(&o.whatIf, "what-if", nil, "SIGNAL=QUANTITY or SIGNAL=PERCENT%: suppose that this much is available. May be given for several signals.")
	fs.StringVar(&o.order, "order", "", "kubelet or qos. Without it: that of the record, else kubelet.")
	fs.StringVar(&o.oom, "oom", string(nodepressure.OOM137), "1.37 or 3.11: the release by which containers get their oom_score_adj, Kubernetes 1.37 or OpenShift 3.11.")
	fs.StringVarP(&o.output, "output", "o", "table", "table or json.")
	fs.BoolVarP(&o.watch, "watch", "w", false, "Look again every few seconds until Ctrl-C.")
	return cmd
}

// Complete reads the arguments.
func (o *pressureOptions) Complete(args []string) error {
	switch {
	case len(args) > 1:
		return errors.New("name one node: usher pressure NODE")
	case len(args) == 0 && o.file == "":
		return errors.New("no node was named: give NODE, or a file with -f")
	case len(args) == 1:
		names, err := nodeArgs(args, "")
		if err != nil {
			return err
		}
		o.node = names[0]
	}
	var err error
	o.supposed, err = readSuppositions(o.whatIf)
	return err
}

// Validate says what is wrong with the flags.
func (o *pressureOptions) Validate() error {
	if o.watch && o.file != "" {
		return errors.New("-w looks again and again, and a file stays as it is: use one of -w and -f")
	}
	return errors.Join(
		oneOf("--order", o.order, "", string(nodepressure.OrderKubelet), string(nodepressure.OrderQoS)),
		oneOf("--oom", o.oom, string(nodepressure.OOM137), string(nodepressure.OOM311)),
		oneOf("--output", o.output, "table", "json"),
	)
}

// Run answers.
func (o *pressureOptions) Run(ctx context.Context) error {
	if o.watch {
		return o.follow(ctx)
	}
	seen, err := o.look(ctx)
	if err != nil {
		return err
	}
	page, err := o.page(seen)
	if err != nil {
		return err
	}
	return o.print(page)
}

// print writes the page. There is nothing else that goes on without it, so an error says that it did not arrive.
func (o *pressureOptions) print(page show.Pressure) error {
	v := newVoice(o.IOStreams, o.output, show.Commands{})
	text := []byte(strings.Join(page.Lines(v.term.textWidth(), v.paint()), "\n"))
	if v.json != nil {
		var err error
		if text, err = page.JSON(); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(o.Out, "%s\n", text); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// look reads the node, live or from the file.
func (o *pressureOptions) look(ctx context.Context) (record.Record, error) {
	if o.file != "" {
		return o.readFile()
	}
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return record.Record{}, err
	}
	once := func(ctx context.Context) (observe.NodeUse, error) {
		return observe.ReadNodeUse(ctx, conn.client, o.node)
	}
	return readNode(ctx, conn, o.node, askThresholds(ctx, conn, o.node), once)
}

// page works out what follows from a look.
func (o *pressureOptions) page(seen record.Record) (show.Pressure, error) {
	node, err := suppose(seen.Node, seen.At, o.supposed)
	if err != nil {
		return show.Pressure{}, err
	}
	order := nodepressure.OrderKubelet
	switch {
	case o.order != "":
		order = nodepressure.Order(o.order)
	case seen.Order != "":
		order = seen.Order
	}
	var about []nodepressure.Signal
	for _, s := range nodepressure.Signals() {
		if _, asked := o.supposed[s]; asked {
			about = append(about, s)
		}
	}
	f, err := forecast.Of(forecast.Input{Now: seen.At, Node: node, Pods: seen.Pods, Config: seen.Config, Order: order, OOMTable: nodepressure.OOMTable(o.oom), About: about})
	if err != nil {
		return show.Pressure{}, fmt.Errorf("node %s: %w", seen.Node.Name, err)
	}
	return show.Pressure{Record: seen, Forecast: f, Supposed: about}, nil
}
