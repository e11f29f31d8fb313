package policy

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/governed"
)

// graves remembers by policy which pods were seen gone. A UID never comes back, so nobody has to look twice.
type graves struct {
	mu   sync.Mutex
	seen map[types.UID]map[types.UID]bool
}

func newGraves() *graves { return &graves{seen: map[types.UID]map[types.UID]bool{}} }

func (g *graves) of(policy types.UID) map[types.UID]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[policy]
}

func (g *graves) set(policy types.UID, gone map[types.UID]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[policy] = gone
	if len(gone) == 0 {
		delete(g.seen, policy)
	}
}

// sights looks at pods past the cache, which may show a pod as gone that was only not delivered yet, or as Ready that no longer is.
func (s *shell) sights(ctx context.Context, policy types.UID, pods []eviction.Doubt) (map[types.UID]eviction.Sight, error) {
	sights, known, gone := map[types.UID]eviction.Sight{}, s.graves.of(policy), map[types.UID]bool{}
	for _, asked := range pods {
		sight := eviction.SeenGone
		if !known[asked.UID] {
			var err error
			if sight, err = s.sight(ctx, asked); err != nil {
				return nil, fmt.Errorf("looking whether pod %s is gone: %w", asked.Pod, err)
			}
		}
		sights[asked.UID] = sight
		if sight == eviction.SeenGone {
			gone[asked.UID] = true
		}
	}
	s.graves.set(policy, gone)
	return sights, nil
}

func (s *shell) sight(ctx context.Context, asked eviction.Doubt) (eviction.Sight, error) {
	var pod corev1.Pod
	err := s.live.Get(ctx, asked.Pod, &pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != asked.UID:
		return eviction.SeenGone, nil
	case err != nil:
		return "", err
	case pod.DeletionTimestamp != nil:
		return eviction.SeenTerminating, nil
	case governed.Facts(&pod).Ready:
		return eviction.SeenReady, nil
	}
	return eviction.SeenStaying, nil
}
