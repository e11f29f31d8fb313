package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/text"
)

// resident is what is kept of a pod of this node.
type resident struct {
	pod nodepressure.Pod
	// labels are kept of governed pods only: their policies select by them.
	labels map[string]string
	// cgroup is the UID under which the kubelet made the pod's cgroup; a static pod's is not that of its mirror.
	cgroup types.UID
	// glass is the value of the annotation that breaks the glass where an agent of this node wrote it.
	glass string
	// blank: the annotation is there, with a value that lets nothing through.
	blank bool
	// containers are IDs by name, as the runtime knows them.
	containers map[string]string
}

// podCache holds the pods of this node as the apiserver reports them. Of what it sends only what is used is kept.
type podCache struct {
	mu      sync.Mutex
	byUID   map[types.UID]*resident
	sorted  *podList      // nil after a change
	synced  bool          // all were listed once
	changed chan struct{} // has room for one
}

// podList holds the pods that were here at one moment; it is not changed.
type podList struct {
	all   []*resident // in the order of their names
	byUID map[types.UID]*resident
}

func newResidents() *podCache {
	return &podCache{byUID: map[types.UID]*resident{}, changed: make(chan struct{}, 1)}
}

// configHash is the annotation of a mirror pod that names the static pod's own UID.
const configHash = "kubernetes.io/config.hash"

// residentOf returns nil for a pod that has ended: it holds nothing that an eviction would give back.
func residentOf(p *corev1.Pod) *resident {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	r := &resident{pod: nodepressure.PodOf(p), cgroup: p.UID, containers: map[string]string{}}
	if r.pod.Governed {
		r.labels = p.Labels
	}
	value, annotated := p.Annotations[v1alpha1.BreakGlassAnnotation]
	if r.blank = annotated && text.Line(value) == ""; nodepressure.IsGlassOf(p.Spec.NodeName, value) {
		r.glass = value
	}
	// Any user can write it on a pod of their own; what is marked as a mirror pod is not run from the API, nor ever killed.
	if hash := p.Annotations[configHash]; hash != "" && r.pod.Exempt == nodepressure.ExemptMirror {
		r.cgroup = types.UID(hash)
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.ContainerID != "" {
				r.containers[s.Name] = s.ContainerID
			}
		}
	}
	return r
}

func (r *podCache) set(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watching pods: got a %T", object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := residentOf(pod); kept != nil {
		r.byUID[pod.UID] = kept
	} else {
		delete(r.byUID, pod.UID)
	}
	r.stir()
	return nil
}

// Add, Update, Delete, Replace and Resync make it a store that a watch fills.
func (r *podCache) Add(object any) error { return r.set(object) }

// Update is like Add.
func (r *podCache) Update(object any) error { return r.set(object) }

// Delete forgets a pod that is gone.
func (r *podCache) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watching pods: got a %T", object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byUID, pod.UID)
	r.stir()
	return nil
}

// Replace takes what a list brought for all there is.
func (r *podCache) Replace(objects []any, _ string) error {
	all := map[types.UID]*resident{}
	for _, object := range objects {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("listing pods: got a %T", object)
		}
		if kept := residentOf(pod); kept != nil {
			all[pod.UID] = kept
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byUID, r.synced = all, true
	r.stir()
	return nil
}

// Resync does nothing: nothing is missed.
func (r *podCache) Resync() error { return nil }

// stir notifies the loop; the lock is held.
func (r *podCache) stir() {
	r.sorted = nil
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// list returns all of them, and whether they were listed. It is the same one until something changes.
func (r *podCache) list() (*podList, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sorted == nil {
		r.sorted = &podList{all: slices.Collect(maps.Values(r.byUID)), byUID: maps.Clone(r.byUID)}
		slices.SortFunc(r.sorted.all, func(a, b *resident) int {
			return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
		})
	}
	return r.sorted, r.synced
}

// watch follows the pods of a node until ctx ends. It calls record with the end of every request: nil if it was answered.
func (r *podCache) watch(ctx context.Context, client kubernetes.Interface, node string, record func(error)) {
	silent := logr.Discard()
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	only := fields.OneTermEqualSelector("spec.nodeName", node).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			list, err := pods.List(ctx, o)
			record(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			events, err := pods.Watch(ctx, o)
			record(err)
			return events, err
		},
	}
	reflector := cache.NewReflectorWithOptions(source, &corev1.Pod{}, r, cache.ReflectorOptions{
		Name: "pods", Logger: &silent,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5},
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}

// cgroup returns the UID under which a pod's cgroup was made.
func (r *podCache) cgroup(uid types.UID) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byUID[uid]; known != nil {
		return known.cgroup
	}
	return uid
}

// blank reports whether a pod has the annotation that breaks the glass with a value that lets nothing through, as admission
// sees it.
func (r *podCache) blank(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byUID[uid]
	return known != nil && known.blank
}
