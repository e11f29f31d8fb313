package policycache

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	// departedLife is how long a governed pod is remembered after it was seen gone, mostDeparted how many of a namespace.
	departedLife = 24 * time.Hour
	mostDeparted = 100
)

// Departed remembers governed and audited pods that were seen gone, so that something can be said of a member while it has no pod. A process
// that was restarted knows of none. It may be used by several goroutines at once.
type Departed struct {
	now func() time.Time

	mu   sync.Mutex
	pods map[string]map[string]departure // by namespace and name
}

type departure struct {
	pod *corev1.Pod
	at  time.Time
}

// NewDeparted returns one that is empty.
func NewDeparted(now func() time.Time) *Departed {
	return &Departed{now: now, pods: map[string]map[string]departure{}}
}

// Watch lets it see the pods of a cache.
func (d *Departed) Watch(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: d.arrived, DeleteFunc: d.deleted})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

func (d *Departed) deleted(object any) {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	_, labelled := pod.Labels[v1alpha1.PolicyLabel]
	_, audited := pod.Labels[v1alpha1.AuditLabel]
	if (labelled || audited) && !Reduced(pod) { // anyone may write the labels where no policy is
		d.note(pod)
	}
}

func (d *Departed) note(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	here := d.pods[pod.Namespace]
	if here == nil {
		here = map[string]departure{}
		d.pods[pod.Namespace] = here
	}
	here[pod.Name] = departure{pod, d.now()}
	for name, other := range here {
		if d.now().Sub(other.at) > departedLife {
			delete(here, name)
		}
	}
	if len(here) > mostDeparted {
		delete(here, oldest(here))
	}
}

func oldest(here map[string]departure) string {
	found := ""
	for name, d := range here {
		if found == "" || d.at.Before(here[found].at) {
			found = name
		}
	}
	return found
}

// arrived forgets the pod that had the name before.
func (d *Departed) arrived(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods[pod.Namespace], pod.Name)
	if len(d.pods[pod.Namespace]) == 0 {
		delete(d.pods, pod.Namespace)
	}
}

// named returns what was known last of a pod that was seen gone, nil if none of the name was.
func (d *Departed) named(key snapshot.Key) *corev1.Pod {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.pods[key.Namespace][key.Name]
	if !ok || d.now().Sub(found.at) > departedLife {
		return nil
	}
	return found.pod
}
