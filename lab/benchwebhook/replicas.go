package main

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
	"usher.sh/usher/lab/process"
	"usher.sh/usher/lab/throwaway"
)

const (
	replicas        = 2
	systemNamespace = "usher-system"
	account         = "system:serviceaccount:" + systemNamespace + ":usher-manager"
)

// replica is one process of `usher manager`, with its addresses on loopback.
type replica struct {
	name                     string
	webhook, health, metrics string
	process                  *process.Process
}

// managers are the replicas, behind one address.
type managers struct {
	lab        *throwaway.Lab
	usher      string
	kubeconfig string
	env        []string // of each replica
	door       *door
	replicas   []*replica
}

// startManagers installs usher into the lab and starts its managers, with the rights that usher install gives them.
func startManagers(ctx context.Context, lab *throwaway.Lab, usher string) (*managers, error) {
	m := &managers{lab: lab, usher: usher, kubeconfig: filepath.Join(lab.Dir, "usher-manager.kubeconfig")}
	var err error
	if m.env, err = environment(); err != nil {
		return nil, err
	}
	addresses := make([]string, replicas)
	for i := range replicas {
		r := &replica{name: fmt.Sprintf("usher-manager-%d", i)}
		for _, address := range []*string{&r.webhook, &r.health, &r.metrics} {
			if *address, err = freeAddress(ctx); err != nil {
				return nil, err
			}
		}
		addresses[i] = r.webhook
		m.replicas = append(m.replicas, r)
	}
	if m.door, err = openDoor(ctx, addresses); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, usher, "install", "--kubeconfig", lab.Kubeconfig(), "--webhook-url", m.door.url()).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("installing usher: %w\n%s", err, out)
	}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace}
	if err := lab.WriteKubeconfig(m.kubeconfig, account, groups...); err != nil {
		return nil, err
	}
	return m, m.start(ctx)
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

// start starts all replicas and returns when they are ready.
func (m *managers) start(ctx context.Context) error {
	for _, r := range m.replicas {
		var err error
		r.process, err = process.Start(process.Spec{
			Name: r.name, Path: m.usher, Dir: m.lab.Processes(), EndWithParent: true, Env: m.env,
			Args: []string{
				"manager", "--kubeconfig", m.kubeconfig, "--namespace", systemNamespace,
				"--webhook-address", r.webhook, "--health-address", r.health, "--metrics-address", r.metrics,
			},
		})
		if err != nil {
			return err
		}
	}
	for _, r := range m.replicas {
		if err := r.awaitReady(ctx); err != nil {
			return fmt.Errorf("waiting until %s is ready: %w", r.name, err)
		}
	}
	return nil
}

func (m *managers) stop() error {
	for _, r := range m.replicas {
		if err := r.process.Stop(m.lab.Processes(), cluster.StopGrace); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady asks /readyz; there is nothing to watch.
func (r *replica) awaitReady(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.process.Ended():
			return false, r.process.Failure()
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.health+"/readyz", nil)
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
