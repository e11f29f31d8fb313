package policycache

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"usher.sh/usher/api/v1alpha1"
)

// PolicyEvents passes on to controllers whose system says something new. It may be used by several goroutines at once.
type PolicyEvents struct {
	mu      sync.Mutex
	readers []func(*v1alpha1.EvictionPolicy)
}

// Notify wakes the controllers that run. It does not block.
func (n *PolicyEvents) Notify(policy *v1alpha1.EvictionPolicy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, read := range n.readers {
		read(policy)
	}
}

// Source wakes a controller, from when it starts, for the keys to which a policy matters.
func (n *PolicyEvents) Source(keys func(context.Context, client.Object) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.readers = append(n.readers, func(policy *v1alpha1.EvictionPolicy) {
			if ctx.Err() != nil {
				return
			}
			for _, key := range keys(ctx, policy) {
				queue.Add(key)
			}
		})
		return nil
	})
}
