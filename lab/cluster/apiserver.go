package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/lab/process"
)

// readyTimeout bounds how long an etcd or an apiserver may take until it is ready: it ends only what hangs.
const readyTimeout = 5 * time.Minute

// StopGrace is what a process gets between SIGTERM and SIGKILL.
const StopGrace = 10 * time.Second

// StartAPIServer starts the apiserver, on the lab's port and data, and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	p, err := c.Run("kube-apiserver", "kube-apiserver", c.apiserverArgs()...)
	if err != nil {
		return err
	}
	c.apiserver = p
	client, err := c.Client()
	if err != nil {
		return err
	}
	return awaitReady(ctx, p, func(ctx context.Context) bool {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

// StopAPIServer ends the apiserver as its supervisor would (SIGTERM). Everything else of the lab goes on running.
func (c *Cluster) StopAPIServer() error {
	if c.apiserver == nil {
		return errors.New("stopping kube-apiserver: it was not started here")
	}
	return c.apiserver.Stop(c.Processes(), StopGrace)
}

// APIServerRuns reports whether the apiserver that StartAPIServer started has not ended.
func (c *Cluster) APIServerRuns() bool { return c.apiserver != nil && c.apiserver.Alive() }

// startEtcd returns when etcd serves: an apiserver gives up when it cannot reach it for 20 s.
func (c *Cluster) startEtcd(ctx context.Context) error {
	p, err := c.Run("etcd", "etcd", c.etcdArgs()...)
	if err != nil {
		return err
	}
	return awaitReady(ctx, p, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.EtcdURL()+"/readyz", nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// awaitReady asks until p is ready; there is nothing to watch before there is an apiserver.
func awaitReady(ctx context.Context, p *process.Process, ready func(context.Context) bool) error {
	ask := func(ctx context.Context) (bool, error) {
		select {
		case <-p.Ended():
			return false, p.Failure()
		default:
			return ready(ctx), nil
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, ask)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s not ready after %s; see %s", p.Name, readyTimeout, p.Log)
	}
	return err
}
