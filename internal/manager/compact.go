package manager

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"usher.sh/usher/internal/policycache"
)

// compactPod is what Reduce leaves of a pod. A corev1.Pod takes 1240 bytes whatever is in it, and in a large cluster almost all pods of
// the cache are reduced.
type compactPod struct {
	metav1.ObjectMeta

	nodeName, hostname string
	phase              corev1.PodPhase
	priority           *int32
	grace              *int64
	group              *corev1.PodSchedulingGroup
	responders         []corev1.EvictionResponder
}

// compact returns a compactPod for a reduced pod, and everything else as it is.
func compact(object any) any {
	pod, ok := object.(*corev1.Pod)
	if !ok || !policycache.Reduced(pod) {
		return object
	}
	return &compactPod{
		ObjectMeta: pod.ObjectMeta,
		nodeName:   pod.Spec.NodeName, hostname: pod.Spec.Hostname, phase: pod.Status.Phase,
		priority: pod.Spec.Priority, grace: pod.Spec.TerminationGracePeriodSeconds,
		group: pod.Spec.SchedulingGroup, responders: pod.Spec.EvictionResponders,
	}
}

// expand returns the pod that compact was given, also where it is in a tombstone, and everything else as it is.
func expand(object any) any {
	switch o := object.(type) {
	case *compactPod:
		return &corev1.Pod{
			ObjectMeta: o.ObjectMeta,
			Spec: corev1.PodSpec{
				NodeName: o.nodeName, Hostname: o.hostname, Priority: o.priority, TerminationGracePeriodSeconds: o.grace,
				SchedulingGroup: o.group, EvictionResponders: o.responders,
			},
			Status: corev1.PodStatus{Phase: o.phase},
		}
	case toolscache.DeletedFinalStateUnknown:
		o.Obj = expand(o.Obj)
		return o
	}
	return object
}

// podInformer keeps reduced pods compact. Its users get every pod as a *corev1.Pod.
type podInformer struct {
	toolscache.SharedIndexInformer
}

// SetTransform implements toolscache.SharedInformer.
func (i podInformer) SetTransform(transform toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(object any) (any, error) {
		slim, err := transform(object)
		return compact(slim), err
	})
}

// AddEventHandler implements toolscache.SharedInformer.
func (i podInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer.
func (i podInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, every time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &every})
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer.
func (i podInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(podHandler{h}, o)
}

// AddIndexers implements toolscache.SharedIndexInformer.
func (i podInformer) AddIndexers(all toolscache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(ofPods(all))
}

// GetStore implements toolscache.SharedInformer.
func (i podInformer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i podInformer) GetIndexer() toolscache.Indexer {
	return podIndexer{i.SharedIndexInformer.GetIndexer()}
}

// podHandler hands events of a podInformer on.
type podHandler struct {
	toolscache.ResourceEventHandler
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h podHandler) OnAdd(object any, initial bool) {
	h.ResourceEventHandler.OnAdd(expand(object), initial)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h podHandler) OnUpdate(before, after any) {
	h.ResourceEventHandler.OnUpdate(expand(before), expand(after))
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h podHandler) OnDelete(object any) { h.ResourceEventHandler.OnDelete(expand(object)) }

// podIndexer reads what a podInformer keeps.
type podIndexer struct {
	toolscache.Indexer
}

// List implements toolscache.Store.
func (p podIndexer) List() []any { return expandAll(p.Indexer.List()) }

// Get implements toolscache.Store.
func (p podIndexer) Get(object any) (any, bool, error) {
	found, ok, err := p.Indexer.Get(object)
	return expand(found), ok, err
}

// GetByKey implements toolscache.Store.
func (p podIndexer) GetByKey(key string) (any, bool, error) {
	found, ok, err := p.Indexer.GetByKey(key)
	return expand(found), ok, err
}

// Index implements toolscache.Indexer.
func (p podIndexer) Index(name string, object any) ([]any, error) {
	found, err := p.Indexer.Index(name, object)
	return expandAll(found), err
}

// ByIndex implements toolscache.Indexer.
func (p podIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := p.Indexer.ByIndex(name, value)
	return expandAll(found), err
}

// AddIndexers implements toolscache.Indexer.
func (p podIndexer) AddIndexers(all toolscache.Indexers) error {
	return p.Indexer.AddIndexers(ofPods(all))
}

func expandAll(objects []any) []any {
	for i := range objects {
		objects[i] = expand(objects[i])
	}
	return objects
}

// ofPods has index functions see pods only.
func ofPods(all toolscache.Indexers) toolscache.Indexers {
	wrapped := make(toolscache.Indexers, len(all))
	for name, of := range all {
		wrapped[name] = func(object any) ([]string, error) { return of(expand(object)) }
	}
	return wrapped
}
