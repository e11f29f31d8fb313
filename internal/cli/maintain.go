package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
)

const maintainLong = `Take nodes out of service by a NodeMaintenance, which the manager carries out: it
drains them, does what --until, --hook and --delete-nodes say, and gives them back.
This command creates it and follows it; Ctrl-C ends the following only. It is the same
object that any automation can create (docs/maintenance.md).

Nodes that are drained stay cordoned until the maintenance is ended with --delete, or
with --until until what is waited for has happened: a new boot of the node, say.

The caller must be allowed to create nodemaintenances.usher.sh and to delete pods in
all namespaces; usher install --maintenance gives the manager its rights.

Exit codes: 0 the nodes are drained, or done with; the maintenance was made
(--wait=false) or ended (--delete), 1 wrong usage or no access, 2 blocked; what blocks
is the last thing printed, 3 the timeout passed, 130 interrupted. With 2, 3 and 130 the
maintenance stands, if it was created by then.`

const maintainExample = `  # Drain a node and keep it cordoned, then give it back
  usher maintain worker-1 --reason "kernel 6.12"
  usher maintain --delete worker-1

  # Reboot a pool, two nodes at a time, each given back once it has booted
  usher maintain -l pool=web --max-parallel 2 --until boot --hook https://reboot.example/nodes`

// maintainOptions is what `usher maintain` was asked for.
type maintainOptions struct {
	genericiooptions.IOStreams
	maintainFlags

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	wait     bool
	timeout  time.Duration
	limit    limit // of the timeout, from the beginning
	dryRun   string
	delete   bool

	args []string // nodes, or with --delete maintenances
}

func newMaintainCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &maintainOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:     "maintain NODE… | -l SELECTOR | --delete NAME…",
		Short:   "Take nodes out of service, and give them back",
		Long:    maintainLong,
		Example: maintainExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.commands = commandsOf(cmd)
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			if cmd.Flags().Changed("until-timeout") && o.until == "" {
				return errors.New("--until-timeout goes with --until: a node that stays cordoned waits for nothing")
			}
			return o.Run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	o.add(fs)
	fs.BoolVar(&o.delete, "delete", false, "End maintenances of these names: what was begun is undone, and their nodes are given back.")
	fs.BoolVar(&o.wait, "wait", true, "Follow it until it is done.")
	fs.DurationVar(&o.timeout, "timeout", 0, "How long the command may take, from its start. 0: as long as it takes.")
	addDryRun(fs, &o.dryRun, `"client": print the NodeMaintenance. "server": let the server check it. "none": create it.`)
	return cmd
}

// Complete reads the arguments.
func (o *maintainOptions) Complete(args []string) error {
	var err error
	if o.dryRun, err = dryRunOf(o.ErrOut, o.dryRun); err != nil {
		return err
	}
	if !o.delete {
		o.args, err = nodeArgs(args, o.selector)
		return err
	}
	switch {
	case len(args) == 0:
		return errors.New("--delete takes the names of maintenances: kubectl get nodemaintenances lists them")
	case o.selector != "":
		return errors.New("--delete takes the names of maintenances, not nodes with -l")
	case o.dryRun != dryRunNone:
		return errors.New("--delete has no dry run")
	}
	for _, arg := range args {
		kind, name, typed := strings.Cut(arg, "/")
		if !typed {
			name = arg
		}
		if typed && !slices.Contains([]string{"nodemaintenance", "nodemaintenances", "nodemaintenances.usher.sh"}, kind) || name == "" {
			return fmt.Errorf("%q is not a NodeMaintenance: give its NAME, which for one node is by default the node's", arg)
		}
		o.args = append(o.args, name)
	}
	return nil
}

// Validate says what is wrong with the flags.
func (o *maintainOptions) Validate() error {
	var errs []error
	if o.timeout < 0 {
		errs = append(errs, errors.New("--timeout is negative: give 0 for as long as it takes"))
	}
	if o.delete {
		return errors.Join(errs...)
	}
	errs = append(errs, o.validate())
	_, err := o.maintenance(o.args, "x", time.Now())
	return errors.Join(append(errs, err)...)
}

// Run creates a maintenance and follows it, or ends some. The timeout counts from here.
func (o *maintainOptions) Run(ctx context.Context) error {
	o.limit = limitOf(o.timeout)
	return o.limit.run(ctx, o.ErrOut, o.timeout, o.run)
}

// run does so. What precedes the following ends with the context before, and with an error then.
func (o *maintainOptions) run(ctx, before context.Context) error {
	conn, err := connect(o.config, o.ErrOut)
	if err != nil {
		return err
	}
	now := conn.clock.Now()
	m, err := o.maintenance(o.args, userName(), now)
	if err != nil && !o.delete {
		return err
	}
	if o.dryRun == dryRunClient {
		return o.print(m)
	}
	if o.delete {
		objects, err := o.objects(conn, rest.NoWarnings{})
		if err != nil {
			return err
		}
		return o.end(ctx, before, objects)
	}
	objects, err := o.objects(conn, &warnings{out: o.ErrOut})
	if err != nil {
		return err
	}
	if o.selector == "" {
		switch _, err := conn.resolve(before, o.args, ""); {
		case apierrors.IsForbidden(err): // the object says which are not there
			fmt.Fprintln(o.ErrOut, "warning: whether the nodes exist is not checked: you may not list nodes")
		case err != nil:
			return problem(ctx, err)
		}
	}
	created, err := o.create(before, objects, m)
	switch {
	case err != nil:
		return err
	case o.dryRun == dryRunServer:
		fmt.Fprintf(o.Out, "NodeMaintenance %s would be created (server dry run)\n", m.Name)
		return nil
	case !o.wait:
		return nil
	}
	return o.follow(ctx, objects, created)
}

// print prints the object, for those who keep it elsewhere.
func (o *maintainOptions) print(m *v1alpha1.NodeMaintenance) error {
	text, err := yaml.Marshal(manifestOf(m))
	if err != nil {
		return fmt.Errorf("writing the NodeMaintenance: %w", err)
	}
	_, err = o.Out.Write(text)
	return err
}

// objects is the client of maintenances.
func (o *maintainOptions) objects(conn *connection, handler rest.WarningHandlerWithContext) (dynamic.Interface, error) {
	config, err := restConfig(o.config)
	if err != nil {
		return nil, err
	}
	config.WarningHandlerWithContext = handler
	awaitFirstAnswer(config, conn.clock, o.ErrOut)
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return objects, nil
}

// create creates the maintenance. One that is there, for the same nodes and the same requester, is followed.
func (o *maintainOptions) create(ctx context.Context, objects dynamic.Interface, m *v1alpha1.NodeMaintenance) (*v1alpha1.NodeMaintenance, error) {
	created, err := act.CreateMaintenance(ctx, objects, m, o.dryRun == dryRunServer)
	switch {
	case err == nil:
		if o.dryRun == dryRunNone {
			fmt.Fprintf(o.Out, "NodeMaintenance %s was created for %s\n", created.Name, created.Spec.Requester)
		}
		return created, nil
	case apierrors.IsNotFound(err):
		return nil, o.notServed(err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("creating NodeMaintenance %s was not answered in time, so that it may have been created: kubectl get nodemaintenance %[1]s", m.Name)
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsInternalError(err): // webhooks, which may not answer, are asked before the name is looked at
		return nil, maintainRefused("creating NodeMaintenance "+m.Name, err)
	}
	there, missing := observe.Maintenances{Client: objects}.Get(ctx, m.Name)
	switch {
	case missing != nil && apierrors.IsInternalError(err):
		return nil, observe.Explained("creating NodeMaintenance "+m.Name, err)
	case missing != nil:
		return nil, observe.Explained("reading NodeMaintenance "+m.Name, missing)
	case there.DeletionTimestamp != nil:
		return nil, fmt.Errorf("NodeMaintenance %s is being deleted; wait until its nodes are given back, or give another --name", m.Name)
	}
	if others := othersThan(there, m); len(others) > 0 {
		return nil, o.another(there, m, others)
	}
	fmt.Fprintf(o.Out, "NodeMaintenance %s is there already, and is followed\n", m.Name)
	return there, nil
}

// mayNotDelete knows by its words that Usher's admission refuses a maintenance for what it has the manager do.
var mayNotDelete = regexp.MustCompile(`denied the request: (.+) may not delete (pods|nodes) in all namespaces`)

// maintainRefused says which role a user lacks.
func maintainRefused(doing string, err error) error {
	if found := mayNotDelete.FindStringSubmatch(err.Error()); found != nil {
		user, resource := found[1], found[2]
		return fmt.Errorf("%w; %s", observe.Explained(doing, err), observe.GrantTo(user, "node-maintainer-"+resource, "--verb=delete --resource="+resource))
	}
	return observe.Refused(doing, err, "node-maintainer", "--verb=create,get,list,watch,patch,delete --resource=nodemaintenances.usher.sh")
}

// notServed says what brings the API, which the server does not have.
func (o *maintainOptions) notServed(err error) error {
	return fmt.Errorf("the cluster has no NodeMaintenances: %s brings them (%w)", o.commands.In("usher install --maintenance"), err)
}

// end deletes maintenances and waits until their nodes are given back.
func (o *maintainOptions) end(ctx, before context.Context, objects dynamic.Interface) error {
	all, err := o.named(before, objects)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := act.DeleteMaintenance(before, objects, m); err != nil && !apierrors.IsNotFound(err) {
			return maintainRefused("deleting NodeMaintenance "+m.Name, err)
		}
		fmt.Fprintf(o.Out, "NodeMaintenance %s is being ended\n", m.Name)
	}
	if !o.wait {
		return nil
	}
	for _, m := range all {
		if err := o.followEnd(ctx, objects, m); err != nil {
			return err
		}
	}
	return nil
}

// named reads the maintenances that the arguments name, all of them before any is deleted.
func (o *maintainOptions) named(before context.Context, objects dynamic.Interface) ([]*v1alpha1.NodeMaintenance, error) {
	var all []*v1alpha1.NodeMaintenance
	for _, name := range o.args {
		m, err := observe.Maintenances{Client: objects}.Get(before, name)
		switch {
		case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err):
			return nil, o.notServed(err)
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("there is no NodeMaintenance %s: kubectl get nodemaintenances lists them; nothing was deleted", name)
		case err != nil:
			return nil, maintainRefused("reading NodeMaintenance "+name, err)
		}
		all = append(all, m)
	}
	return all, nil
}
