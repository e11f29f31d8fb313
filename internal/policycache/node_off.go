package policycache

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
)

// Off reports whether a fence proves that a node is off.
func (g *Gatherer) Off(ctx context.Context, name string) (bool, error) { return g.off(ctx, name, nil) }

// off reports whether a fence proves that a node is off. The node is read past the cache, or was (nil: it was not): one that answers again is not.
func (g *Gatherer) off(ctx context.Context, name string, read *corev1.Node) (bool, error) {
	if name == "" {
		return false, nil
	}
	var list v1alpha1.NodeFenceList
	if err := g.Policies.cache.List(ctx, &list); err != nil {
		return false, fmt.Errorf("listing fences: %w", err)
	}
	var fences []*v1alpha1.NodeFence
	for i := range list.Items {
		if f := &list.Items[i]; f.Spec.NodeName == name && f.Status.ProvenTime != nil && !f.Status.Over() {
			fences = append(fences, f)
		}
	}
	if len(fences) == 0 {
		return false, nil
	}
	if read == nil {
		var err error
		if read, err = g.readNode(ctx, name); err != nil || read == nil {
			return false, err
		}
	}
	facts := observe.LostNodeFacts(read)
	return lostnode.ProvenOff(&facts, fences), nil
}

// nodeLife is how long a node that was read past the cache is not read again: all pods of a lost node are removed at once, and each removal is decided about
// twice, with an answer of the system in between. It is shorter than a machine takes to boot.
const nodeLife = 5 * time.Second

// readNodes are nodes as they were read past the cache a moment ago.
type readNodes struct {
	mu    sync.Mutex
	nodes map[string]readNode
}

type readNode struct {
	node *corev1.Node
	at   time.Time
}

// readNode reads a node past the cache, once in its life; nil: it is not there.
func (g *Gatherer) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	if known := g.read.get(name, g.Now()); known != nil {
		return known, nil
	}
	at, node := g.Now(), &corev1.Node{}
	err := g.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	g.read.put(node, at)
	return node, nil
}

func (r *readNodes) get(name string, now time.Time) *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.nodes[name]; ok && now.Sub(known.at) < nodeLife && !now.Before(known.at) {
		return known.node
	}
	return nil
}

// put keeps a node, and none of those whose time is over.
func (r *readNodes) put(node *corev1.Node, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string]readNode{}
	}
	maps.DeleteFunc(r.nodes, func(_ string, known readNode) bool { return at.Sub(known.at) >= nodeLife })
	r.nodes[node.Name] = readNode{node, at}
}
