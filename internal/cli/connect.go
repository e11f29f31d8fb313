package cli

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/observe"
)

// connect makes a client from the kubeconfig flags, and a clock that goes by the answers
// which the client gets. It asks the cluster nothing.
func connect(flags *genericclioptions.ConfigFlags) (kubernetes.Interface, *observe.Clock, error) {
	config, err := restConfig(flags)
	if err != nil {
		return nil, nil, err
	}
	clock := &observe.Clock{}
	config.Wrap(clock.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return client, clock, nil
}

func restConfig(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if len(raw.Clusters) == 0 && *flags.APIServer == "" && !inCluster {
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
