package manager

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/policycache"
)

// slimmer keeps of each pod what is used: of one in a namespace without a policy that is little, and what pods of one
// controller have in common is kept once. The zero value knows of no policies.
type slimmer struct {
	policies policyCount
	kin      kin
}

// pod is the cache's transform of pods. It may get an object that it has returned before.
func (s *slimmer) pod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || policycache.Reduced(pod) {
		return object, nil
	}
	slim := slimPod(pod)
	if !s.policies.in(slim.Namespace) {
		policycache.Reduce(slim)
	}
	s.kin.share(slim)
	return slim, nil
}

// policyCount knows which namespaces have policies. It may be used by several goroutines at once.
type policyCount struct {
	mu  sync.RWMutex
	all map[string]map[types.UID]bool
}

func (c *policyCount) in(namespace string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.all[namespace]) > 0
}

func (c *policyCount) add(policy *v1alpha1.EvictionPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]map[types.UID]bool{}
	}
	if c.all[policy.Namespace] == nil {
		c.all[policy.Namespace] = map[types.UID]bool{}
	}
	c.all[policy.Namespace][policy.UID] = true
}

func (c *policyCount) remove(policy *v1alpha1.EvictionPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.all[policy.Namespace], policy.UID); len(c.all[policy.Namespace]) == 0 {
		delete(c.all, policy.Namespace)
	}
}

// kin finds what the pods of one controller have in common, so that it is in memory once; pods of a cache are never changed.
type kin struct {
	mu     sync.Mutex
	latest map[types.UID]*metav1.ObjectMeta // by the controller's UID
}

// mostKin is how many controllers are remembered. Few are enough: lists are sorted by name, so the pods of a controller come
// one after the other.
const mostKin = 1000

func (k *kin) share(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.latest[owner.UID]; other != nil {
		shareMeta(&pod.ObjectMeta, other)
	}
	if k.latest == nil || len(k.latest) >= mostKin {
		k.latest = map[types.UID]*metav1.ObjectMeta{}
	}
	k.latest[owner.UID] = &metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
	}
}

func shareMeta(meta, other *metav1.ObjectMeta) {
	if meta.Namespace == other.Namespace {
		meta.Namespace = other.Namespace
	}
	if maps.Equal(meta.Labels, other.Labels) {
		meta.Labels = other.Labels
	}
	if maps.Equal(meta.Annotations, other.Annotations) {
		meta.Annotations = other.Annotations
	}
	if apiequality.Semantic.DeepEqual(meta.OwnerReferences, other.OwnerReferences) {
		meta.OwnerReferences = other.OwnerReferences
	}
}
