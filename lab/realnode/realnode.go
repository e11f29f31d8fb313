// Package realnode answers: how does a node that really runs pods, with a kubelet and a containerd, come up beside
// others on one machine, and go away without a trace?
//
// Each node lives in a process and a mount namespace of its own, with its own /run, /var/lib and /var/log. When the
// first process of the node ends, for whatever reason, the kernel ends everything in it (kubelet, containerd, shims,
// pods) and drops its mounts. Only a bridge (or a link) and a cgroup are outside; Down removes them. Nodes share the host's
// network unless they are to have one of their own.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/process"
)

const (
	// Label is on every real node; pods that need a process select it.
	Label = "lab.usher.sh/node"
	// LabelValue is what Label says.
	LabelValue = "real"
	// Taint keeps pods whose images cannot be had off a node that Config.Tainted says it for. Its effect is NoSchedule.
	Taint = "lab.usher.sh/real"
)

// Config says what node is wanted, and how it reaches its control plane.
type Config struct {
	Name string // of the node, and of its process record

	// Labels that the node registers with, besides Label.
	Labels map[string]string
	// Tainted nodes take only pods that tolerate Taint.
	Tainted bool

	Dir        string // state folder of the node, made by Start and removed by Down
	Processes  string // folder for the process record and its log; must exist
	Kubeconfig string // the node's own credentials: user system:node:<Name>, group system:nodes
	ClientCA   string // certificate file of the authority that signs the apiserver's client certificate
	Cache      binaries.Cache

	// Memory is what pods may use together; the rest of the machine counts as reserved. Zero is all of it.
	Memory resource.Quantity
	// Disk is the node's own, if it is to have one. Its kubelet then evicts below a tenth of it.
	Disk Disk
	// PodPIDs is how many threads each pod may have; zero is no limit.
	PodPIDs int64
	// OwnNetwork gives the node a network namespace of its own, as a machine has one. Without it, pods on the network of their node are on the
	// host's, and what one listens at no pod of another node can.
	OwnNetwork bool
	// APIServer is the address on the host that Kubeconfig has, for nodes with a network of their own.
	APIServer string
	// Images are archives, as package image writes them, that pods find present. Further ones cannot be pulled.
	Images []string

	// EndWithParent makes the kernel end the node when the starting program ends, however it ends.
	EndWithParent bool
}

// Node is a running node.
type Node struct {
	Config
	slot    Slot
	process *process.Process
}

// stopGrace is for the node's first process only: pods are not asked, as in a power cut.
const stopGrace = 5 * time.Second

// Start starts a node and returns when its container runtime serves and its kubelet runs; when the node is Ready is
// for the caller to watch. When Start fails, nothing is left of the node.
func Start(ctx context.Context, config Config) (*Node, error) {
	tools, err := findTools(config.Cache)
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("starting real node %s: %w", config.Name, err)
	}
	node := &Node{Config: config}
	if err := node.start(ctx, tools); err != nil {
		return nil, errors.Join(fmt.Errorf("starting real node %s: %w", config.Name, err), Down(config.Dir))
	}
	return node, nil
}

// hidden are the folders that a node has its own of.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// check refuses folders that the node could not see.
func (c Config) check() error {
	for _, folder := range append([]string{c.Dir, c.Processes, c.Kubeconfig, c.ClientCA, c.Cache.Dir}, c.Images...) {
		for _, h := range hidden {
			if strings.HasPrefix(filepath.Clean(folder)+"/", h+"/") {
				return fmt.Errorf("%s is under %s, which every real node has its own of; choose another folder", folder, h)
			}
		}
	}
	return nil
}

// Ended is closed when the node has ended.
func (n *Node) Ended() <-chan struct{} { return n.process.Ended() }

// Failure says why the node ended by itself. To be called after Ended was closed.
func (n *Node) Failure() error { return n.process.Failure() }

// Restart starts a node that has ended, by SIGKILL to its first process say, with what it had on its disk: its images, and what its pods have left there. It is
// where it was in the cluster, with a network of its own that may be another one. When Restart fails, the node has ended, and Stop removes what is left of it.
func (n *Node) Restart(ctx context.Context) error {
	<-n.Ended()
	tools, err := findTools(n.Cache)
	if err != nil {
		return err
	}
	if err := n.boot(ctx, tools, nil); err != nil {
		return fmt.Errorf("restarting real node %s: %w", n.Name, err)
	}
	return nil
}

// PID is the host's id of the node's first process. Everything in the node is in that process's namespaces.
func (n *Node) PID() int { return n.process.PID }

// Stop ends the node with all its pods, and removes all that it made. Its Node object stays in the cluster, as after
// a power cut. Stopping twice is no error.
func (n *Node) Stop() error { return Down(n.Dir) }

// Slot is the node's place among all real nodes of the machine.
func (n *Node) Slot() Slot { return n.slot }
