package manager

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// pageSize is how many pods are read at once.
const pageSize = 500

// newInformer makes the cache's informers. Apiservers that cannot stream the pods that there are (before 1.32, and where it is
// off) send them in one list, which takes ten times the memory of what is kept of them: from these it is read in pages, and
// slimmed page by page. Pods are kept compact.
func (s *slimmer) newInformer(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	_, pods := of.(*corev1.Pod)
	if pods {
		from := toolscache.ToListerWatcherWithContext(lw)
		lw = &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return s.list(ctx, from, o)
			},
			WatchFuncWithContext: from.WatchWithContext,
		}
	}
	informer := toolscache.NewSharedIndexInformer(lw, of, resync, indexers)
	if pods {
		return podInformer{informer}
	}
	return informer
}

// list reads all pods in pages, at one version: an apiserver ignores the limit of a list that may be of any version.
func (s *slimmer) list(ctx context.Context, from toolscache.ListerWithContext, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit = "", "", pageSize
	all := &corev1.PodList{}
	for {
		page, err := from.ListWithContext(ctx, o)
		if err != nil {
			return nil, err
		}
		pods, ok := page.(*corev1.PodList)
		if !ok {
			return nil, fmt.Errorf("listing pods: got a %T", page)
		}
		for i := range pods.Items {
			slim, err := s.pod(&pods.Items[i])
			if err != nil {
				return nil, err
			}
			if pod, ok := slim.(*corev1.Pod); ok {
				all.Items = append(all.Items, *pod)
			}
		}
		all.ListMeta = pods.ListMeta
		if o.Continue = pods.Continue; o.Continue == "" {
			return all, nil
		}
	}
}
