package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// gonePods remembers by policy since when pods were seen gone. A UID never comes back, so none is read twice.
type gonePods struct {
	mu    sync.Mutex
	since map[types.UID]map[types.UID]time.Time
}

func newGonePods() *gonePods { return &gonePods{since: map[types.UID]map[types.UID]time.Time{}} }

func (g *gonePods) of(policy types.UID) map[types.UID]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.since[policy]
}

func (g *gonePods) set(policy types.UID, gone map[types.UID]time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since[policy] = gone
	if len(gone) == 0 {
		delete(g.since, policy)
	}
}

// ranMembers remembers by policy which members ran when what was found had been written.
type ranMembers struct {
	mu  sync.Mutex
	ran map[snapshot.Key]map[types.UID]v1alpha1.MemberRef
}

func newRanMembers() *ranMembers {
	return &ranMembers{ran: map[snapshot.Key]map[types.UID]v1alpha1.MemberRef{}}
}

func (r *ranMembers) of(policy snapshot.Key) map[types.UID]v1alpha1.MemberRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[policy]
}

func (r *ranMembers) set(policy snapshot.Key, members map[types.UID]v1alpha1.MemberRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[policy] = members
	if len(members) == 0 {
		delete(r.ran, policy)
	}
}

// presences looks at pods past the cache, which may show a pod as gone that was only not delivered yet, or as Ready that no longer is.
// Of those that are gone it returns since when that was seen.
func (s *reconciler) presences(ctx context.Context, f *facts, pods []eviction.Unconfirmed) (map[types.UID]eviction.PodPresence, map[types.UID]time.Time, error) {
	sights, before, gone := map[types.UID]eviction.PodPresence{}, s.gone.of(f.policy.UID), map[types.UID]time.Time{}
	for _, asked := range pods {
		since, known := before[asked.UID]
		sight := eviction.SeenGone
		if !known {
			var err error
			if sight, err = s.presence(ctx, asked); err != nil {
				return nil, nil, fmt.Errorf("looking whether pod %s is gone: %w", asked.Pod, err)
			}
			since = f.now
		}
		sights[asked.UID] = sight
		if sight == eviction.SeenGone {
			gone[asked.UID] = since
		}
	}
	s.gone.set(f.policy.UID, gone)
	return sights, gone, nil
}

func (s *reconciler) presence(ctx context.Context, asked eviction.Unconfirmed) (eviction.PodPresence, error) {
	var pod corev1.Pod
	err := s.live.Get(ctx, asked.Pod, &pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != asked.UID:
		return eviction.SeenGone, nil
	case err != nil:
		return "", err
	case pod.DeletionTimestamp != nil:
		return eviction.SeenTerminating, nil
	case policycache.Facts(&pod).Ready:
		return eviction.SeenReady, nil
	}
	return eviction.SeenStaying, nil
}
