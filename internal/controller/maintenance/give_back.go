package maintenance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// giveBackApart has a node given back apart from the reconciler, unless that is under way: while one node's answer is awaited, the drains of
// others can be stopped. No drain of the node begins meanwhile. What fails is tried again after a while.
func (d *Drains) giveBackApart(node string, giveBack func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, underWay := d.givenBack[node]; underWay || d.ctx == nil || d.ctx.Err() != nil {
		return
	}
	d.givenBack[node] = false
	d.running.Go(func() {
		err := giveBack(d.ctx)
		if err != nil {
			d.Log.Warn("a node is not given back yet", "node", node, "err", err)
			select {
			case <-time.After(afterFailure):
			case <-d.ctx.Done():
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil || d.givenBack[node] {
			d.notify()
		}
		delete(d.givenBack, node)
	})
}

// giveBack uncordons a node on which no drain works, if Usher cordoned it, and before that withdraws what was requested for its deletion. The node is
// read anew: the cache has not whose its cordon is.
func (r *reconciler) giveBack(ctx context.Context, name string) error {
	node := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	facts := observe.NodeFacts(node)
	if !maintenance.Owned(facts) {
		return nil
	}
	if err := r.withdrawRequests(ctx, node.UID); err != nil {
		return fmt.Errorf("giving node %s back: %w", name, err)
	}
	cluster := snapshot.NewCluster()
	cluster.SetNode(facts)
	action, why := drain.Release(snapshot.View{Now: r.Now(), Cluster: cluster}, facts, map[string]bool{facts.Drain.ID: true})
	if why != "" {
		return fmt.Errorf("giving node %s back: %s", name, why)
	}
	answer := r.drains.writer.Do(ctx, action)
	switch answer.Code {
	case answers.Accepted, answers.Gone:
		return nil
	case answers.Conflict:
		return r.giveBack(ctx, name)
	default:
	}
	return fmt.Errorf("giving node %s back: %s: %s", name, answer.Code, answer.Message)
}
