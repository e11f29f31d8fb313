// Package throwaway answers: how does a program get a lab of its own that ends with it?
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/nodes"
)

// Lab is a control plane with simulated nodes whose pods take seconds to start and stop.
type Lab struct {
	*cluster.Cluster
	Nodes  *nodes.Simulator
	Client kubernetes.Interface
}

// seed makes pods with the same names take the same times in every run.
const seed = 1

// Start starts a lab. The kernel ends it when the program ends, however it ends; Kill also removes its files.
func Start(ctx context.Context, name string) (*Lab, error) {
	cache, err := binaries.DefaultCache()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "usher-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a state folder: %w", err)
	}
	c, err := cluster.Start(ctx, cluster.Config{Name: name, Dir: dir, Cache: cache, EndWithParent: true})
	if err != nil {
		return nil, err
	}
	lab := &Lab{Cluster: c}
	if err := lab.attach(); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return lab, nil
}

func (l *Lab) attach() error {
	client, err := l.Cluster.Client()
	if err != nil {
		return err
	}
	l.Client = client
	l.Nodes, err = nodes.Start(l.Cluster, nodes.General, seed)
	return err
}
