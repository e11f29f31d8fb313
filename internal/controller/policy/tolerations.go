package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// tolerate has the pods of a namespace that exist tolerate what their roles say, those that admission could not mark and those whose role has
// changed since. One pod that is refused keeps no other from it. It returns when to look again at those that have changed meanwhile, 0
// if there are none.
func (s *reconciler) tolerate(ctx context.Context, namespace string, policies []eviction.Declared) (next time.Duration, err error) {
	if len(policies) == 0 {
		s.tolerations.keep(namespace, nil)
		return 0, nil
	}
	pods, err := s.Gatherer.Policies.Pods(ctx, namespace)
	if err != nil {
		return 0, err
	}
	there := map[types.UID]bool{}
	var failed []error
	for _, pod := range pods {
		there[pod.UID] = true
		change, wanted := eviction.LiveTolerations(policies, pod)
		if len(change.Edits) == 0 || s.tolerations.seen(pod, wanted) {
			continue
		}
		wait, err := s.toleratePod(ctx, pod, policies)
		failed, next = append(failed, err), sooner(next, wait)
	}
	s.tolerations.keep(namespace, there)
	return next, errors.Join(failed...)
}

// toleratePod decides once more on the pod as the apiserver has it: of its tolerations the cache has only some.
func (s *reconciler) toleratePod(ctx context.Context, cached *snapshot.Pod, policies []eviction.Declared) (wait time.Duration, err error) {
	var pod corev1.Pod
	if err := s.live.Get(ctx, cached.Key(), &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("reading pod %s: %w", cached.Name, err)
	}
	facts := policycache.Facts(&pod)
	change, wanted := eviction.LiveTolerations(policies, facts)
	if len(change.Edits) > 0 && !s.tolerations.seen(facts, wanted) {
		switch answer := s.Act.Tolerate(ctx, facts, change); answer.Code {
		case answers.Conflict:
			return replaceGrace, nil
		default:
			if err := accepted(answer, "changing the tolerations of pod", pod.Name); err != nil {
				return 0, err
			}
		}
	}
	s.tolerations.note(facts, wanted)
	return 0, nil
}

// tolerated remembers what the tolerations of each pod were last decided for. A client that sets them back and takes the record of them off the
// pod is contradicted once by each process that leads, and no more.
type tolerated struct {
	mu   sync.Mutex
	last map[string]map[types.UID]string // by namespace
}

func newTolerated() *tolerated { return &tolerated{last: map[string]map[types.UID]string{}} }

func (t *tolerated) seen(pod *snapshot.Pod, wanted string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[pod.Namespace][pod.UID] == wanted
}

func (t *tolerated) note(pod *snapshot.Pod, wanted string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[pod.Namespace] == nil {
		t.last[pod.Namespace] = map[types.UID]string{}
	}
	t.last[pod.Namespace][pod.UID] = wanted
}

// keep forgets all pods of a namespace but those that are there.
func (t *tolerated) keep(namespace string, there map[types.UID]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid := range t.last[namespace] {
		if !there[uid] {
			delete(t.last[namespace], uid)
		}
	}
	if len(t.last[namespace]) == 0 {
		delete(t.last, namespace)
	}
}
