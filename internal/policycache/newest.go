package policycache

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

const (
	// newestTime bounds a read of all policies of a namespace.
	newestTime = 20 * time.Second
	// pagePolicies is how many are read at once: mostly all there are.
	pagePolicies = 20
)

// Newest returns the policies of a namespace that are in mode Enforce by a read past the cache. A cache whose watch hangs lacks a policy that was created
// meanwhile, so it is not believed that a pod is governed by none.
func (g *Gatherer) Newest(ctx context.Context, namespace string) ([]eviction.Declared, error) {
	ctx, cancel := context.WithTimeout(ctx, newestTime)
	defer cancel()
	var all []eviction.Declared
	for next := ""; ; {
		var page v1alpha1.EvictionPolicyList
		if err := g.Live.List(ctx, &page, client.InNamespace(namespace), client.Limit(pagePolicies), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing the policies of namespace %s: %w", namespace, err)
		}
		for i := range page.Items {
			if policy := &page.Items[i]; !policy.Spec.Audited() {
				all = append(all, g.Policies.Declared(policy))
			}
		}
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}
