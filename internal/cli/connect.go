package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/observe"
)

// connection is what a command talks to one cluster with.
type connection struct {
	client    kubernetes.Interface
	metadata  metadata.Interface // reads objects without what they say of themselves
	evictions *client.Client
	clock     *observe.Clock // goes by the answers that the clients get
}

// writer carries out what was decided.
func (c *connection) writer() *act.Writer {
	return &act.Writer{Client: c.client, Evictions: c.evictions}
}

// recorder carries out what was decided, and makes events on nodes. Its Wait is to be called.
func (c *connection) recorder() *act.Recorder {
	return &act.Recorder{Writer: c.writer(), Now: c.clock.Now, By: thisHost().self(c.clock.Now()).By}
}

// connect makes clients from the kubeconfig flags. It asks the cluster nothing. That the first answer is waited for is written to progress.
func connect(flags *genericclioptions.ConfigFlags, progress io.Writer) (*connection, error) {
	config, err := restConfig(flags)
	if err != nil {
		return nil, err
	}
	c := &connection{clock: &observe.Clock{}}
	awaitFirstAnswer(config, c.clock, progress)
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	c.evictions = client.New(config)
	return c, nil
}

func restConfig(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(raw.Clusters) == 0 && *flags.APIServer == "" && !inPod() {
		return nil, errors.New("no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG, or an apiserver with --server")
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "usher/" + Version()
	// The drain has its own budget of requests; a limit in the client would only delay
	// evictions that are already allowed.
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil
}

// inPod goes by what every kubelet sets in every container, whatever kubeconfig is named there.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }
