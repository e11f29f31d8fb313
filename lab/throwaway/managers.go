package throwaway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/internal/install"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/door"
	"usher.sh/usher/lab/process"
)

const (
	replicas        = 2
	systemNamespace = "usher-system"
	// ManagerAccount is the user that the managers are.
	ManagerAccount = "system:serviceaccount:" + systemNamespace + ":usher-manager"
)

// Replica is one process of `usher manager`, with its addresses on loopback.
type Replica struct {
	Name                     string
	Webhook, Health, Metrics string
	Process                  *process.Process
}

// Managers are the replicas, behind one address.
type Managers struct {
	Replicas []*Replica

	lab        *Lab
	usher      string
	kubeconfig string
	env        []string // of each replica
	door       *door.Door
}

// StartManagers installs usher into the lab, with the flags that are given, and starts its managers with the rights that this gives them.
func StartManagers(ctx context.Context, lab *Lab, usher string, flags ...string) (*Managers, error) {
	m := &Managers{lab: lab, usher: usher, kubeconfig: filepath.Join(lab.Dir, "usher-manager.kubeconfig")}
	var err error
	if m.env, err = environment(); err != nil {
		return nil, err
	}
	if m.door, err = door.Open(ctx); err != nil {
		return nil, err
	}
	for i := range replicas {
		r := &Replica{Name: fmt.Sprintf("usher-manager-%d", i)}
		for _, address := range []*string{&r.Webhook, &r.Health, &r.Metrics} {
			if *address, err = freeAddress(ctx); err != nil {
				return nil, err
			}
		}
		m.door.Add(r.Webhook)
		m.Replicas = append(m.Replicas, r)
	}
	args := append([]string{"install", "--kubeconfig", lab.Kubeconfig(), "--webhook-url", m.door.URL()}, flags...)
	out, err := exec.CommandContext(ctx, usher, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("installing usher: %w\n%s", err, out)
	}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace}
	if err := lab.WriteKubeconfig(m.kubeconfig, ManagerAccount, groups...); err != nil {
		return nil, err
	}
	return m, m.Start(ctx)
}

// environment is what the manager's Deployment gives its container, the soft limit of its memory among it.
func environment() ([]string, error) {
	objects, err := install.Objects(install.Options{})
	if err != nil {
		return nil, err
	}
	var env []string
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		var manager appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &manager); err != nil {
			return nil, fmt.Errorf("reading %s: %w", install.Ref(object), err)
		}
		for _, variable := range manager.Spec.Template.Spec.Containers[0].Env {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	return env, nil
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// Start starts all replicas and returns when they are ready.
func (m *Managers) Start(ctx context.Context) error {
	for _, r := range m.Replicas {
		var err error
		r.Process, err = process.Start(process.Spec{
			Name: r.Name, Path: m.usher, Dir: m.lab.Processes(), EndWithParent: true, Env: m.env,
			Args: []string{
				"manager", "--kubeconfig", m.kubeconfig, "--namespace", systemNamespace,
				"--webhook-address", r.Webhook, "--health-address", r.Health, "--metrics-address", r.Metrics,
			},
		})
		if err != nil {
			return err
		}
	}
	for _, r := range m.Replicas {
		if err := r.awaitReady(ctx); err != nil {
			return fmt.Errorf("waiting until %s is ready: %w", r.Name, err)
		}
	}
	return nil
}

// Close closes the replicas' common address.
func (m *Managers) Close() { m.door.Close() }

// Ended returns why a replica has ended that was not stopped, nil while all run.
func (m *Managers) Ended() error {
	for _, r := range m.Replicas {
		select {
		case <-r.Process.Ended():
			return r.Process.Failure()
		default:
		}
	}
	return nil
}

// Stop ends all replicas.
func (m *Managers) Stop() error {
	for _, r := range m.Replicas {
		if err := r.Process.Stop(m.lab.Processes(), cluster.StopGrace); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady asks /readyz; there is nothing to watch.
func (r *Replica) awaitReady(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.Process.Ended():
			return false, r.Process.Failure()
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Health+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}
