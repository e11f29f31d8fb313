package maintenance

import (
	"context"
	"time"

	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

// limited is what the drain of a node sees, with how long the namespaces of the pods there may hold it. It implements runner.Source.
type limited struct {
	runner.Source

	drains *Drains
	node   string
}

// Read implements runner.Source.
func (l limited) Read(look func(snapshot.View)) {
	limits := l.drains.limits(l.namespaces())
	l.Source.Read(func(view snapshot.View) {
		view.HoldLimits = limits
		look(view)
	})
}

// namespaces returns those of the pods on the node.
func (l limited) namespaces() map[string]bool {
	found := map[string]bool{}
	l.Source.Read(func(view snapshot.View) {
		for _, p := range view.Cluster.PodsOn(l.node) {
			found[p.Namespace] = true
		}
	})
	return found
}

// holdsPatience is how long the limits of all namespaces are waited for: they come from a cache, which has them at once or not yet.
const holdsPatience = time.Second

// limits returns how long namespaces may hold a drain: the shortest limit of each. Where that cannot be read they may for ever.
func (d *Drains) limits(namespaces map[string]bool) map[string]snapshot.HoldLimit {
	ctx, cancel := context.WithTimeout(d.ctx, holdsPatience)
	defer cancel()
	least := map[string]snapshot.HoldLimit{}
	for namespace := range namespaces {
		all, err := d.Holds.Limits(ctx, namespace)
		if err != nil {
			d.Log.Debug("how long a namespace may hold drains is not known", "namespace", namespace, "why", err)
			continue
		}
		if limit, some := snapshot.ShortestHold(all); some {
			least[namespace] = limit
		}
	}
	return least
}
