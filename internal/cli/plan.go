package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

const planLong = `Say how a drain would go: the order of pods, what it uses of each budget, where it
would start replacements first, how long it takes, what would be in the way, and what
would be left. Nothing is evicted.

The plan runs the code of usher drain over a simulated future of the cluster. How long
replacements take to become ready is learned from the pods that are there.

With -f and a NodeMaintenance in the file, it says how the drain of that would go, of
the nodes that it selects now. With -f and a MemberSet, it says what applying that would
do: which members would be replaced and why, whose pods would be made anew and in which
batches, how many pods there would be at once, and what of the namespace's ResourceQuotas
they would use. With -f and a dump the cluster is read from the file, without any
connection:

  kubectl get nodes,pods,pdb,deploy,rs,sts,ds,rc,jobs,hpa,pvc,pv,volumeattachments -A -o yaml > dump.yaml
  usher plan worker-1 -f dump.yaml --ignore-daemonsets

Exit codes: 0 it would drain, or be done, 1 wrong usage or no access, 2 it would be
blocked, or exceed a ResourceQuota, 3 the deadline would pass.`

// planOptions is what `usher plan` was asked for.
type planOptions struct {
	genericiooptions.IOStreams
	requestFlags

	config *genericclioptions.ConfigFlags
	dump   string
	output string
	file   planFile // empty where the file is a dump

	nodes []string
	typed typed // as a drain
}

func newPlanCommand(name string, config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &planOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "plan NODE… | -l SELECTOR | -f FILE",
		Short: "Say how a drain would go, or what a MemberSet would do",
		Long:  planLong,
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
	fs.VarP(&once{to: &o.dump}, "filename", "f", "A MemberSet, a NodeMaintenance, or a dump of the cluster's objects, YAML or JSON; - is standard input.")
	fs.StringVarP(&o.output, "output", "o", "text", "text, json or yaml.")
	return cmd
}

// Complete reads the arguments.
func (o *planOptions) Complete(name string, cmd *cobra.Command, args []string) error {
	o.typed = typed{command: name + " drain", args: args, flags: cmd.Flags(), others: commandsOf(cmd), foreign: []string{"filename", "output"}}
	var err error
	if o.file, o.In, err = planFileIn(o.In, o.dump); err != nil {
		return err
	}
	named, file := len(args) > 0 || o.selector != "", o.dump
	if file == "-" {
		file = "standard input"
	}
	if o.file.stream {
		o.dump = "-"
	}
	switch {
	case o.file.maintenance != nil && named:
		return fmt.Errorf("%s has a NodeMaintenance, which says which nodes: give none", file)
	case o.file.set != nil && named:
		return fmt.Errorf("%s has a MemberSet, for which no nodes are drained: give none", file)
	case o.file.set != nil && drainFlag(cmd.Flags()) != "":
		return fmt.Errorf("%s has a MemberSet, for which no nodes are drained: --%s is for drains", file, drainFlag(cmd.Flags()))
	case o.file.maintenance != nil, o.file.set != nil:
		o.dump = ""
		return nil
	case file != "" && !named:
		if err := o.file.aim(file); err != nil {
			return err
		}
	}
	o.nodes, err = nodeArgs(args, o.selector)
	return err
}

// drainFlag returns the name of a flag of a drain that was given; "": none was.
func drainFlag(given *pflag.FlagSet) (name string) {
	drains := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(requestFlags).add(drains)
	given.Visit(func(f *pflag.Flag) {
		if drains.Lookup(f.Name) != nil {
			name = f.Name
		}
	})
	return name
}

// Validate says what is wrong with the flags.
func (o *planOptions) Validate() error {
	_, err := o.request(time.Now())
	return errors.Join(o.validate(), oneOf("--output", o.output, "text", "json", "yaml"), err)
}

// Run prints the plan.
func (o *planOptions) Run(ctx context.Context) error {
	if o.file.set != nil {
		return o.runSet(ctx)
	}
	cluster, err := readCluster(ctx, o.config, o.IOStreams, o.typed.others, o.dump)
	if err != nil {
		return err
	}
	req, err := o.planned(cluster.view)
	if err != nil {
		return err
	}
	req.Self, req.Dead = cluster.host.self(cluster.view.Now), cluster.host.dead(cluster.view.Cluster)
	return printPlan(newVoice(o.IOStreams, o.output, o.typed.others), cluster.view, req, o.typed, show.Plan{Assumed: cluster.assumed})
}

// planned is the drain that is asked for, by flags or by a maintenance.
func (o *planOptions) planned(view snapshot.View) (drain.Request, error) {
	if o.file.maintenance != nil {
		return planOfMaintenance(o.file.maintenance, view)
	}
	req, err := o.request(view.Now)
	if err != nil {
		return req, err
	}
	req.Nodes, err = resolveNodes(view.Cluster, o.nodes, o.selector)
	return req, err
}

// printPlan prints how the drain that was typed so would go, on a page that says what was
// assumed about the cluster, and returns its exit code.
func printPlan(v *printer, view snapshot.View, req drain.Request, as typed, page show.Plan) error {
	page.Nodes, page.Now, page.Objections = req.Nodes, view.Now, drain.Objections(view, req)
	page.Orders = view.Cluster.RoleOrders(req.Nodes)
	if len(page.Objections) > 0 {
		page.Outcome = drain.Blocked // nothing would be done
		page.Accept = as.accepting(page.Objections)
	} else {
		page.Plan, page.Ladder = sim.Forecast(view, req), drain.DeadlinePhases(view, req)
		page.Notes = append(page.Notes, unplaced(view, req, page.Left)...)
		page.Blockers = asOfNow(view, page.Blockers)
	}
	page.Objections, page.Blockers = v.commands.Blockers(page.Objections), v.commands.Blockers(page.Blockers)
	page.Notes, page.Unknown = v.commands.InAll(page.Notes), append(v.commands.InAll(page.Unknown), page.Assumed...)
	if err := v.page(page.JSON, page.Lines); err != nil {
		return err
	}
	return exitWith(outcomeCode(page.Outcome))
}

// unplaced says in place of which pods others are made that fit nowhere, but for those of which the forecast has found that.
func unplaced(view snapshot.View, req drain.Request, left []sim.Left) (notes []string) {
	for _, w := range drain.FitNowhere(view, req) {
		owner := view.Cluster.PodNamed(w.Pod).OwnerKey()
		if !slices.ContainsFunc(left, func(l sim.Left) bool { return l.Node == "" && l.Pod.OwnerKey() == owner }) {
			notes = append(notes, fmt.Sprintf("%s: %s; %s", w.Pod, w.Message, w.Remedy))
		}
	}
	return notes
}

// asOfNow returns the blockers of a forecast, with what they say of time counted from now: the forecast has met them at its end.
func asOfNow(view snapshot.View, blockers []drain.Blocker) []drain.Blocker {
	blockers = slices.Clone(blockers)
	for i := range blockers {
		b := &blockers[i]
		for _, pod := range view.Cluster.PodsOn(b.Node) {
			if pod.Key() != b.Pod || !pod.Terminating() {
				continue
			}
			found := drain.Why(view, pod)
			if now := found[len(found)-1]; now.Reason == b.Reason { // the last says why it is still there
				b.Message = now.Message
			} else {
				b.Message = "at the end of the drain: " + b.Message
			}
		}
	}
	return blockers
}
