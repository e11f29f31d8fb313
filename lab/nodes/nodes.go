// Package nodes answers: what are the simulated nodes of a lab, and how long do their pods take to start and stop?
//
// One kwok process plays the kubelet of every simulated node. Its stages (stages/) are derived from kwok's own
// "general" ones; what differs is that times come from a seed, and that annotations can make pods and nodes misbehave.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/process"
)

const (
	// simulated marks the nodes that kwok looks after, so that real nodes can be in the same lab.
	simulated = "kwok.x-k8s.io/node"

	// Ready set to "false" on a pod or a node makes it unready until the annotation is removed or changed.
	Ready = "lab.usher.sh/ready"
	// Stuck set to "true" on a pod keeps it Terminating after it was deleted, as when its node is gone.
	Stuck = "lab.usher.sh/stuck"
)

// Simulator plays the kubelets of a lab's simulated nodes.
type Simulator struct {
	kwok *process.Process
}

// Start starts the simulator of the lab. Pods take times of the profile, drawn with the seed.
func Start(c *cluster.Cluster, p Profile, seed uint64) (*Simulator, error) {
	stages, err := Stages(p, seed)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.Dir, "kwok.yaml")
	if err := os.WriteFile(path, stages, 0o644); err != nil {
		return nil, fmt.Errorf("starting simulated nodes: %w", err)
	}
	kwok, err := c.Run("kwok", "kwok",
		"--config="+path,
		"--kubeconfig="+filepath.Join(c.Dir, "kwok.kubeconfig"),
		"--manage-nodes-with-annotation-selector="+simulated+"=fake",
		"--cidr=10.128.0.0/9",
		"--node-lease-duration-seconds=40",
	)
	if err != nil {
		return nil, err
	}
	return &Simulator{kwok: kwok}, nil
}

// Create makes the nodes and returns when all are ready for pods.
func (s *Simulator) Create(ctx context.Context, client kubernetes.Interface, list []*corev1.Node) error {
	if err := create(ctx, client, list); err != nil {
		return fmt.Errorf("creating nodes: %w", err)
	}
	names := map[string]bool{}
	for _, n := range list {
		names[n.Name] = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.kwok.Ended():
			cancel(s.kwok.Failure())
		case <-ctx.Done():
		}
	}()
	return AwaitUsable(ctx, client, names)
}

// AwaitUsable returns when pods can run on all nodes of these names.
func AwaitUsable(ctx context.Context, client kubernetes.Interface, names map[string]bool) error {
	source := await.Source[*corev1.Node]{Client: client.CoreV1().RESTClient(), Resource: "nodes"}
	err := await.Until(ctx, source, func(all []*corev1.Node) bool {
		usable := 0
		for _, n := range all {
			if names[n.Name] && Usable(n) {
				usable++
			}
		}
		return usable == len(names)
	})
	if err != nil {
		return fmt.Errorf("waiting until nodes are ready: %w", err)
	}
	return nil
}

// create sends a few requests at once; one after the other, a thousand nodes would take seconds.
func create(ctx context.Context, client kubernetes.Interface, list []*corev1.Node) error {
	const parallel = 16
	work := make(chan *corev1.Node)
	errs := make([]error, parallel)
	var wg sync.WaitGroup
	for i := range parallel {
		wg.Go(func() {
			for n := range work {
				_, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	for _, n := range list {
		work <- n
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// Usable reports whether a node is Ready and its taints for being new are gone.
func Usable(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
