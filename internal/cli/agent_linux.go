package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent"
	"usher.sh/usher/internal/agent/notices"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/observe"
)

const agentLong = `Run the agent: look after this node, and when it runs short of memory, disk, inodes or
pids, let pods go one at a time, in the right order, before the kubelet or the kernel
takes them in an order of its own. usher install --agent runs one on every node.

At a soft threshold it asks the eviction API: budgets and verdicts are respected. At a
hard one it removes pods that no policy governs, then those that may go, and the others
only if their policy says LastResort. Where the apiserver does not answer, or not in
time, it kills the pod's processes on the node.

It says first what it sees of this machine and what this machine does not offer; then
it logs to stderr, as JSON. It needs to be root.`

// podUID is the variable from which the agent learns which pod it runs in, where its cgroup does not show it.
const podUID = "POD_UID"

// agentOptions is what `usher agent` was asked for.
type agentOptions struct {
	genericiooptions.IOStreams

	flags   *genericclioptions.ConfigFlags
	config  string
	notices []string
	agent   agent.Options
}

func newAgentCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &agentOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Look after the node that it runs on when that runs short",
		Long:  agentLong,
		Args:  noNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Complete(); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	set := cmd.Flags()
	set.StringVar(&o.agent.Node, "node", os.Getenv("NODE_NAME"), "This node's name; default: $NODE_NAME, or the host's name.")
	set.StringVar(&o.config, "config", "", "A file with thresholds, named as in KubeletConfiguration, and the order; default: "+agent.ConfigFile+" if it is there, and thresholds above the kubelet's defaults.")
	set.StringVar(&o.agent.CgroupRoot, "cgroup-root", "", "The kubelet's cgroupRoot; default: the one around the agent's own pod, or /.")
	set.StringVar(&o.agent.StateDir, "state-dir", "", "Where to keep the last 20 records of what was decided, for usher pressure -f; default: nowhere.")
	set.StringSliceVar(&o.notices, "notices", nil, "Ask these whether the node's machine goes, and have it drained then: ec2, gce, azure, logind (docs/notices-nodes.md); default: none.")
	set.StringVar(&o.agent.Bus, "dbus-address", notices.SystemBus, "Where the host's D-Bus is, for --notices=logind.")
	set.StringVar(&o.agent.MetricsAddress, "metrics-address", ":9754", "Where to serve /metrics and /healthz; 0: nowhere.")
	return cmd
}

// Complete reads the configuration and makes clients.
func (o *agentOptions) Complete() error {
	var err error
	if o.agent.Config, err = agent.LoadConfig(o.config); err != nil {
		return err
	}
	if o.agent.Node == "" {
		if o.agent.Node, err = os.Hostname(); err != nil {
			return errors.Join(errors.New("--node is needed: the name of the host cannot be read"), err)
		}
	}
	config, err := restConfig(o.flags)
	if err != nil {
		return err
	}
	config.UserAgent = "usher-agent/" + Version()
	clock := &observe.Clock{}
	config.Wrap(clock.Wrap)
	o.agent.Now = clock.Now
	if o.agent.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	o.agent.Cluster = &act.Pressure{
		Writer: &act.Writer{Client: o.agent.Client, Evictions: client.New(config), OwnRequests: true},
		Node:   o.agent.Node,
	}
	if err := o.completeNotices(config); err != nil {
		return err
	}
	o.agent.Self = types.UID(os.Getenv(podUID))
	o.agent.Out = o.Out
	o.agent.Log = slog.New(slog.NewJSONHandler(o.ErrOut, nil))
	return nil
}

// completeNotices makes what stores notices, where they are looked for.
func (o *agentOptions) completeNotices(config *rest.Config) error {
	var err error
	if o.agent.Notices, err = nodeSources("--notices", o.notices); err != nil {
		return err
	}
	if len(o.agent.Notices) == 0 {
		return nil
	}
	dynamic, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	mapper := meta.NewDefaultRESTMapper(nil) // what is written, so that nothing has to be discovered first
	mapper.Add(v1alpha1.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeRoot)
	mapper.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources speak JSON
	writer, err := crclient.New(config, crclient.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	o.agent.NoticeReader = &observe.NodeNotices{Client: o.agent.Client, Dynamic: dynamic, Node: o.agent.Node, Namespace: systemNamespace(o.flags)}
	o.agent.NoticeWriter = &act.Notices{Client: writer, Instance: "usher-agent-" + o.agent.Node, Now: o.agent.Now}
	return nil
}

// Run runs until it is asked to end.
func (o *agentOptions) Run(ctx context.Context) error {
	ctx, stop := interruptible(ctx, func() { o.agent.Log.Info("received a signal, shutting down") }, func() {})
	defer stop()
	return agent.Run(ctx, o.agent)
}
