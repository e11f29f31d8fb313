// Package cluster answers: how does a real Kubernetes control plane come up on loopback, and go away without a trace?
//
// It starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler itself: envtest has no
// controller-manager and scheduler and ends with its parent, kwokctl downloads what it starts and owns its
// certificates and flags, and a lab needs the audit log, the feature gate and several labs side by side.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/port"
	"usher.sh/usher/lab/process"
)

// Config says what control plane is wanted.
type Config struct {
	Name  string // for people; shown by Labs
	Dir   string // state folder, made by Start; must not hold another lab
	Cache binaries.Cache

	// EvictionRequestAPI turns the gate of lifecycle.k8s.io/v1alpha1 on.
	EvictionRequestAPI bool
	// Still starts neither controller-manager nor scheduler: objects stay as they are written.
	Still bool
	// NodeGrace is how long a node may be silent until it is unreachable; 0: 5m.
	NodeGrace time.Duration
	// EndWithParent makes the kernel kill every process when the starting program ends, however it ends.
	EndWithParent bool
}

// Cluster is a running control plane.
type Cluster struct {
	Config
	ports     ports
	kept      []*port.Port // those of ports, if this program has started the lab
	apiserver *process.Process
}

// description is what Open needs to know about a lab that another program started.
type description struct {
	Name               string `json:"name"`
	EvictionRequestAPI bool   `json:"evictionRequestAPI"`
	Cache              string `json:"cache"`
	Ports              ports  `json:"ports"`
}

// Open returns the lab whose state folder is dir, started earlier by this or another program.
func Open(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return nil, fmt.Errorf("opening lab: %w", err)
	}
	var d description
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("opening lab: reading lab.json: %w", err)
	}
	c := Config{Name: d.Name, Dir: dir, Cache: binaries.Cache{Dir: d.Cache}, EvictionRequestAPI: d.EvictionRequestAPI}
	return &Cluster{Config: c, ports: d.Ports}, nil
}

func (c *Cluster) describe() error {
	d := description{Name: c.Name, EvictionRequestAPI: c.EvictionRequestAPI, Cache: c.Cache.Dir, Ports: c.ports}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("describing lab: %w", err)
	}
	return os.WriteFile(c.path("lab.json"), data, 0o644)
}

// URL is the address of the apiserver.
func (c *Cluster) URL() string { return "https://" + c.Address() }

// Address is where the apiserver listens, as host:port.
func (c *Cluster) Address() string { return fmt.Sprintf("127.0.0.1:%d", c.ports.APIServer) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// AuditLog is the path of the apiserver's audit log: one JSON object a line, level Metadata, written when a response
// is complete (a watch is written when it ends).
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// ClientCA is the path of the certificate of the authority that signs all client certificates of the lab.
func (c *Cluster) ClientCA() string { return c.path("ca.crt") }

// RealNodes is the folder that holds the state folder of every real node.
func (c *Cluster) RealNodes() string { return c.path(realNodes) }

const realNodes = "realnodes"

// Processes is the folder with the records and logs of the lab's processes.
func (c *Cluster) Processes() string { return c.path("processes") }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// Run starts one of the lab's programs as a process of this lab: it is recorded in Processes, and ends with the lab.
// name names the process, program what is run.
func (c *Cluster) Run(name, program string, args ...string) (*process.Process, error) {
	path, err := c.Cache.Path(program)
	if err != nil {
		return nil, err
	}
	return process.Start(process.Spec{Name: name, Path: path, Args: args, Env: garbage(), Dir: c.Processes(), EndWithParent: c.EndWithParent})
}

// garbage has the lab's programs collect their garbage less often, unless the environment says how often: a quarter of what labs take of the
// processors, for some hundred MB of memory.
func garbage() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{"GOGC=400"}
}

// Start starts a control plane and returns when it serves. When that fails, or ctx ends first, everything that was
// started is ended and the state folder removed.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if _, err := os.Stat(filepath.Join(config.Dir, "lab.json")); err == nil {
		return nil, fmt.Errorf("starting lab: %s already holds a lab; end it first", config.Dir)
	}
	for _, b := range binaries.ControlPlane() {
		if _, err := config.Cache.Path(b.Name); err != nil {
			return nil, fmt.Errorf("starting lab: %w", err)
		}
	}
	c := &Cluster{Config: config}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting lab: %w", err), c.Kill())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.Processes(), 0o755); err != nil {
		return err
	}
	if err := c.keepPorts(); err != nil {
		return err
	}
	if err := c.describe(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if c.Still {
		return nil
	}
	if _, err := c.Run("kube-controller-manager", "kube-controller-manager", c.controllerManagerArgs()...); err != nil {
		return err
	}
	_, err := c.Run("kube-scheduler", "kube-scheduler", c.schedulerArgs()...)
	return err
}
