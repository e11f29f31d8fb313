package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/internal/text"
)

const installLong = `Install Usher's manager into the cluster, or bring it to this version: custom
resources, roles, two replicas of the manager, and the webhooks. Nothing is governed
until an EvictionPolicy is created. What is there already is brought up to date;
running it again changes nothing.

The cluster must run Kubernetes 1.30 or later.

A release knows its image. Any other build does not: make image builds one, without
Docker, and --image names it.

With --dry-run=client the manifests are printed and the cluster is not asked (it is
taken not to serve the eviction request API); with --dry-run=server it checks them and
changes nothing.`

// releaseImage is the image of this release; the linker sets it together with stamped. No other build has an image in a
// registry.
var releaseImage string

// installOptions is what `usher install` was asked for.
type installOptions struct {
	genericiooptions.IOStreams

	config   *genericclioptions.ConfigFlags
	commands show.Commands
	image    string
	fdbcli   string
	// fdbcliGiven: it was named, if by nothing.
	fdbcliGiven bool
	url         string
	agent       bool
	maintain    bool
	notices     bool
	clusterAPI  bool
	nodeNotices []string
	replace     bool
	sets        bool
	plain       bool
	dryRun      string
	timeout     time.Duration
}

func newInstallCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &installOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the manager into the cluster, or upgrade it",
		Long:  installLong,
		Args:  noNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fdbcliGiven = cmd.Flags().Changed("fdbcli-image")
			o.commands = commandsOf(cmd)
			var err error
			if o.dryRun, err = dryRunOf(o.ErrOut, o.dryRun); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.image, "image", "", "The image of manager and agents; default: the release's. A build that is no release needs it.")
	cmd.Flags().BoolVar(&o.agent, "agent", false, "Install an agent on every node as well, which acts when the node runs short (usher agent --help).")
	cmd.Flags().BoolVar(&o.maintain, "maintenance", false, "Let the manager drain nodes for NodeMaintenances (usher maintain --help): it may evict and delete pods everywhere then.")
	cmd.Flags().BoolVar(&o.notices, "notices", false, "Let the manager take notices of nodes that go, as alerts (docs/notices.md), and drain them: this brings what --maintenance does.")
	cmd.Flags().BoolVar(&o.clusterAPI, "cluster-api", false, "Let the manager drain the nodes of Machines of Cluster API that wait for it before they are deleted (docs/notices.md): this brings what --notices does.")
	cmd.Flags().StringSliceVar(&o.nodeNotices, "node-notices", nil, "Install agents that ask these whether their node goes, and have it drained then: ec2, gce, azure, logind (docs/notices-nodes.md). This brings what --agent and --maintenance do.")
	cmd.Flags().BoolVar(&o.replace, "replacement", false, "Let the manager replace members for ReplacementRequests (usher replace --help): it may delete pods and claims everywhere then.")
	cmd.Flags().BoolVar(&o.sets, "member-sets", false, "Let the manager run the members of MemberSets itself, and replace members: it may create and delete pods, claims and Services everywhere then.")
	cmd.Flags().BoolVar(&o.plain, "workloads", false, "Give the manager the right to read and scale plain workloads as well, for policies of the system kubernetes.")
	cmd.Flags().StringVar(&o.fdbcli, "fdbcli-image", "", "An image with FoundationDB's fdbcli, its own of the cluster's minor version, say: the manager asks clusters of FoundationDB through that.")
	cmd.Flags().StringVar(&o.url, "webhook-url", "", "The manager runs outside of the cluster, and the apiserver reaches it at this URL (https).")
	addDryRun(cmd.Flags(), &o.dryRun, `"client": print the manifests. "server": let the server check them. "none": install.`)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long to wait until manager and agents are ready.")
	return cmd
}

// Validate checks the flags.
func (o *installOptions) Validate() error {
	if o.image != "" && !o.runsPods() {
		return fmt.Errorf("--image has no meaning with --webhook-url: nothing is run in the cluster then")
	}
	if o.runsPods() && o.podImage() == "" {
		return fmt.Errorf("--image is missing: this build (%s) is no release, so no registry has an image of it; "+
			"build one with make image, load it on the nodes or push it to a registry, and name it with --image "+
			"(docs/policies.md says how)", Version())
	}
	for _, named := range []struct{ flag, image string }{{"--image", o.image}, {"--fdbcli-image", o.fdbcli}} {
		if named.image != "" && !imageName.MatchString(named.image) {
			return fmt.Errorf("%s %q is not the name of an image: write [REGISTRY/]NAME[:TAG][@DIGEST], names in small letters", named.flag, named.image)
		}
	}
	if o.fdbcliGiven && o.fdbcli == "" {
		return fmt.Errorf("--fdbcli-image is empty: name an image with fdbcli, or leave it out")
	}
	if o.fdbcli != "" && o.url != "" {
		return fmt.Errorf("--fdbcli-image has no meaning with --webhook-url: give the manager that runs elsewhere --fdbcli PATH")
	}
	if _, err := nodeSources("--node-notices", o.nodeNotices); err != nil {
		return err
	}
	return checkURL(o.url)
}

// imageName is a reference to an image as container runtimes take it. A registry has a dot or a port: what begins with another word in capitals is a slip, which
// they would take for a registry of that name.
var imageName = regexp.MustCompile(`^((\[[0-9a-fA-F:]+\](:[0-9]+)?|[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+(:[0-9]+)?|[A-Za-z0-9][A-Za-z0-9-]*:[0-9]+)/)?` +
	`[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9+._-]+:[0-9a-fA-F]{32,})?$`)

// checkURL refuses what no apiserver takes as a webhook's address: it would be refused after half of the installation.
func checkURL(address string) error {
	if address == "" {
		return nil
	}
	at, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("--webhook-url is no URL: %w", err)
	case at.Scheme != "https" || at.Hostname() == "":
		return fmt.Errorf("--webhook-url %q: apiservers call webhooks at https://HOST[:PORT][/PATH] only", address)
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return fmt.Errorf("--webhook-url %q: apiservers take no user, query or fragment in it", at.Redacted())
	}
	return nil
}

// runsPods reports whether anything that is installed runs in the cluster.
func (o *installOptions) runsPods() bool { return o.url == "" || o.agent || len(o.nodeNotices) > 0 }

// podImage is the image of manager and agents; "" if none is known.
func (o *installOptions) podImage() string { return cmp.Or(o.image, releaseImage) }

// Run installs.
func (o *installOptions) Run(ctx context.Context) error {
	options := install.Options{Namespace: systemNamespace(o.config), Image: o.podImage(), URL: o.url, Agent: o.agent, Maintenance: o.maintain, Notices: o.notices || o.clusterAPI, ClusterAPI: o.clusterAPI, NodeNotices: o.nodeNotices, Replacement: o.replace, MemberSets: o.sets, FDBCLIImage: o.fdbcli, Workloads: o.plain}
	if o.dryRun == dryRunClient {
		return o.print(options)
	}
	cluster, asked, err := connectInstall(o.config, o.IOStreams, o.timeout)
	if err != nil {
		return err
	}
	if err := install.CheckVersion(asked); err != nil {
		return err
	}
	if options.LifecycleServed, err = install.LifecycleServed(asked); err != nil {
		return err
	}
	objects, err := install.Objects(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not within %s", o.timeout))
	defer cancel()
	out := &written{Writer: outlasting(cluster.Out)}
	cluster.Out = out
	err = cluster.Apply(ctx, objects, o.dryRun == dryRunServer)
	switch {
	case o.dryRun == dryRunServer:
		return err
	case err != nil && out.something:
		return fmt.Errorf("%w; the installation is not complete: %s removes what is there of it, or install again once that is mended", err, o.removal())
	case err != nil:
		return err
	}
	if err := cluster.WaitReady(ctx, objects); err != nil {
		return err
	}
	fmt.Fprintln(o.Out, "installed; next: write an EvictionPolicy (usher roles lists what there is for which system)")
	return nil
}

// removal is what to type to remove what was installed.
func (o *installOptions) removal() string {
	words := o.commands.In("usher uninstall")
	if *o.config.Namespace != "" {
		words += " -n " + text.ShellWord(*o.config.Namespace)
	}
	return words
}

func (o *installOptions) print(options install.Options) error {
	objects, err := install.Objects(options)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := o.printOne(object); err != nil {
			return err
		}
	}
	return nil
}

func (o *installOptions) printOne(object *unstructured.Unstructured) error {
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("printing %s: %w", install.Ref(object), err)
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s", text)
	return err
}

// systemNamespace is the namespace that the flag names, or the manifests': never that of the kubeconfig's context, which
// is meant for something else.
func systemNamespace(config *genericclioptions.ConfigFlags) string {
	if *config.Namespace != "" {
		return *config.Namespace
	}
	return install.DefaultNamespace
}

// connectInstall connects for writing, and for asking what the cluster is; each question has an answer within the timeout.
func connectInstall(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, timeout time.Duration) (install.Cluster, discovery.DiscoveryInterface, error) {
	access, err := restConfig(config)
	if err != nil {
		return install.Cluster{}, nil, err
	}
	access = rest.CopyConfig(access)
	access.ContentType, access.AcceptContentTypes = "", "" // custom resources speak JSON
	asking := rest.CopyConfig(access)
	asking.Timeout = timeout
	asked, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return install.Cluster{}, nil, fmt.Errorf("making a client for %s: %w", access.Host, err)
	}
	c, err := client.NewWithWatch(access, client.Options{})
	if err != nil {
		return install.Cluster{}, nil, fmt.Errorf("making a client for %s: %w", access.Host, err)
	}
	return install.Cluster{Client: c, Out: streams.Out}, asked, nil
}
