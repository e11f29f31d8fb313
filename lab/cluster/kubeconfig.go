package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig for a user of that name and groups to path. The user may do what RBAC gives to
// the name and the groups.
func (c *Cluster) WriteKubeconfig(path, user string, groups ...string) error {
	ca, err := os.ReadFile(c.path("ca.crt"))
	if err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	pair, err := c.ClientCert(user, groups...)
	if err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	name := "usher-lab-" + c.Name
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

// RESTConfig returns the administrator's access, without a client-side rate limit, so that tests measure the
// apiserver and not the client.
func (c *Cluster) RESTConfig() (*rest.Config, error) { return LoadRESTConfig(c.Kubeconfig()) }

// Client returns a client with that access.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// LoadRESTConfig reads a kubeconfig, without a client-side rate limit.
func LoadRESTConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
