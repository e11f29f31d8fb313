package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/manager"
	"usher.sh/usher/internal/observe"
)

const managerLong = `Run the manager: answer admission for governed pods, keep what their systems say, make
members safe to leave and evict them. usher install runs two of it in the cluster;
they agree by a lease which runs the controllers, and both answer admission.

It logs to stderr, as JSON. It ends without an error on SIGTERM (it stops taking work,
finishes its answers and gives the lease back), and when the cluster begins to serve
eviction requests in another way; then it is to be started again.`

// managerOptions is what `usher manager` was asked for.
type managerOptions struct {
	genericiooptions.IOStreams

	config  *genericclioptions.ConfigFlags
	manager manager.Options
	memory  string // as --evidence-memory has it
}

func newManagerCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &managerOptions{IOStreams: streams, config: config}
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the manager that usher install installs",
		Long:  managerLong,
		Args:  noNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Complete(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.manager.LeaderElection, "leader-election", true, "Run the controllers only while holding the lease; without it, one process must be the only one.")
	flags.StringVar(&o.manager.WebhookAddress, "webhook-address", ":9443", "Where to answer admission.")
	flags.BoolVar(&o.manager.ClusterAPI, "cluster-api", false, "With --notices-address: drain the nodes of Machines of Cluster API that are being deleted, as usher install --cluster-api has it.")
	flags.StringVar(&o.manager.NoticesAddress, "notices-address", "", "Where to take alerts, as usher install --notices has it (:9444); without it, notices are neither taken nor followed.")
	flags.StringVar(&o.manager.MetricsAddress, "metrics-address", ":8080", "Where to serve /metrics; 0: nowhere.")
	flags.StringVar(&o.manager.HealthAddress, "health-address", ":8081", "Where to serve /healthz and /readyz; 0: nowhere.")
	flags.StringVar(&o.manager.Certificates, "certificates", manager.CertificatesFromSecret, "Where the webhook's certificate comes from: secret (made and renewed by the manager), or a directory with tls.crt and tls.key.")
	flags.StringVar(&o.memory, "evidence-memory", "160Mi", "How much memory the answers of all policies' systems may take together; namespaces share it fairly. Raise the memory limit and GOMEMLIMIT with it.")
	flags.StringVar(&o.manager.FDBCLI, "fdbcli", "", "The path of FoundationDB's fdbcli, by which policies with system foundationdb ask their clusters.")
	flags.StringVar(&o.manager.EvictionController, "eviction-controller", manager.EvictionControllerAuto, "When to turn EvictionRequests into Evictions: auto (not while another controller does), or always.")
	return cmd
}

// Complete connects to the cluster's configuration.
func (o *managerOptions) Complete() error {
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if namespace == "" || o.manager.Certificates == "" {
		return errors.New("--namespace and --certificates must not be empty")
	}
	if c := o.manager.EvictionController; c != manager.EvictionControllerAuto && c != manager.EvictionControllerAlways {
		return fmt.Errorf("--eviction-controller must be auto or always, not %q", c)
	}
	memory, err := resource.ParseQuantity(o.memory)
	if err != nil || memory.Sign() <= 0 {
		return fmt.Errorf("--evidence-memory %q: give bytes, as 160Mi", o.memory)
	}
	if path := o.manager.FDBCLI; path != "" && !filepath.IsAbs(path) {
		return fmt.Errorf("--fdbcli %q: give an absolute path", path)
	}
	config, err := restConfig(o.config)
	if err != nil {
		return err
	}
	clock := &observe.Clock{}
	config.Wrap(clock.Wrap)
	// Custom resources have no protobuf; the manager's client chooses for each kind.
	config.ContentType, config.AcceptContentTypes = "", ""
	o.manager.Config, o.manager.Clock, o.manager.Namespace = config, clock, namespace
	o.manager.Loopback, o.manager.EvidenceMemory = !inPod(), memory.Value()
	o.manager.Log = slog.New(slog.NewJSONHandler(o.ErrOut, nil))
	return nil
}

// Run runs until it is asked to end.
func (o *managerOptions) Run(ctx context.Context) error {
	ctx, stop := interruptible(ctx, func() { o.manager.Log.Info("received a signal, shutting down") }, func() {})
	defer stop()
	return manager.Run(ctx, o.manager)
}
