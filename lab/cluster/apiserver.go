package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/process"
)

// readyTimeout bounds how long an apiserver may take until it is ready.
const readyTimeout = 2 * time.Minute

// StopGrace is what a process gets between SIGTERM and SIGKILL.
const StopGrace = 10 * time.Second

// StartAPIServer starts the apiserver, on the lab's port and data, and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	p, err := c.Run("kube-apiserver", "kube-apiserver", c.apiserverArgs()...)
	if err != nil {
		return err
	}
	c.apiserver = p
	return c.awaitReady(ctx, p)
}

// StopAPIServer ends the apiserver as its supervisor would (SIGTERM). Everything else of the lab goes on running.
func (c *Cluster) StopAPIServer() error {
	if c.apiserver == nil {
		return errors.New("stopping kube-apiserver: it was not started here")
	}
	return c.apiserver.Stop(c.Processes(), StopGrace)
}

// APIServerRuns tells whether the apiserver that StartAPIServer started has not ended.
func (c *Cluster) APIServerRuns() bool { return c.apiserver != nil && c.apiserver.Alive() }

// awaitReady asks /readyz; there is nothing to watch before there is an apiserver.
func (c *Cluster) awaitReady(ctx context.Context, p *process.Process) error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) (bool, error) {
		select {
		case <-p.Ended():
			return false, p.Failure()
		default:
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, ready)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("kube-apiserver not ready after %s; see %s", readyTimeout, p.Log)
	}
	return err
}
