package policycache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// leavingIndex finds the terminating pods of a namespace without looking at all of them.
const leavingIndex = "usher.leaving"

// SetupIndex adds the index that Gatherers need to a cache. To be called before the cache starts.
func SetupIndex(ctx context.Context, cache client.FieldIndexer) error {
	if err := cache.IndexField(ctx, &corev1.Pod{}, leavingIndex, IndexLeaving); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	return nil
}

// LeavingIndex is the index's name, for caches of tests.
const LeavingIndex = leavingIndex

// IndexLeaving is the index's function.
func IndexLeaving(object client.Object) []string {
	if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return []string{"true"}
}

// Pods returns what is known of all pods of a namespace.
func (b *Cache) Pods(ctx context.Context, namespace string) ([]*snapshot.Pod, error) {
	return b.pods(ctx, client.InNamespace(namespace))
}

func (b *Cache) pods(ctx context.Context, options ...client.ListOption) ([]*snapshot.Pod, error) {
	var list corev1.PodList
	if err := b.cache.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	pods := make([]*snapshot.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = Facts(&list.Items[i])
	}
	return pods, nil
}

// cachedRoster lists a policy's members by the cache.
func (g *Gatherer) cachedRoster(ctx context.Context, policy eviction.Declared) (*eviction.Roster, error) {
	pods, err := g.Policies.Pods(ctx, policy.Key.Namespace)
	if err != nil {
		return nil, err
	}
	return eviction.NewRoster(policy, pods), nil
}

// freshRoster lists them past the cache, one entry of the policy after the other. It holds one page of pods at a time: unlike those of the
// cache they are as large as their owner has made them.
func (g *Gatherer) freshRoster(ctx context.Context, policy eviction.Declared) (*eviction.Roster, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	roster := eviction.NewRoster(policy, nil)
	from := pages{live: g.Live, cache: g.Policies.cache, room: g.Policies.room}
	err := from.read(ctx, policy.Key.Namespace, policy.Policy.Selectors(), func(pod *corev1.Pod) { roster.Add(policy, Facts(pod)) })
	if err != nil {
		return nil, err
	}
	return roster, nil
}

// members returns the policy's pods as its system knows them, those that are on their way included. Pods whose id cannot
// be determined are left out: there is nothing to ask the system about.
func (b *Cache) members(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]system.Member, error) {
	pods, err := b.Pods(ctx, policy.Namespace)
	if err != nil {
		return nil, err
	}
	compiled := b.Compiled(policy)
	var members []system.Member
	for _, pod := range pods {
		claim, ok := compiled.Claim(pod)
		if !ok || claim.Role == nil || claim.Error != "" {
			continue
		}
		members = append(members, system.Member{MemberRef: claim.Ref(pod), Pod: pod})
	}
	return members, nil
}
