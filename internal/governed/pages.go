package governed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/sync/semaphore"

	"usher.sh/usher/internal/share"
)

const (
	// readTime bounds a read of all pods of a namespace.
	readTime = time.Minute
	// pagePods and pageBytes are the most that is read at once. A tenant can make pods of a megabyte.
	pagePods  = 500
	pageBytes = 8 << 20
	// pageSpare is for pods that the cache does not have yet.
	pageSpare = 10
)

// readOnce reads the pods of a namespace past the cache, once for all who ask meanwhile, and reports whether some of them had asked
// before. The read goes on when the one who began it has gone.
func (w *Whole) readOnce(ctx context.Context, namespace string) (joined bool, err error) {
	result := w.flights.DoChan(namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
		defer cancel()
		return nil, w.readAll(ctx, namespace)
	})
	select {
	case r := <-result:
		return r.Shared, r.Err
	case <-ctx.Done():
		return false, fmt.Errorf("reading the pods of namespace %s: %w", namespace, ctx.Err())
	}
}

func (w *Whole) readAll(ctx context.Context, namespace string) error {
	all := map[types.UID]*corev1.Pod{}
	err := pages{live: w.Live, cache: w.Reader}.read(ctx, namespace, labels.Everything(), func(pod *corev1.Pod) {
		pod = w.Keep(pod)
		all[pod.UID] = pod
	})
	if err == nil {
		w.keep(namespace, all)
	}
	return err
}

// pages reads pods from live, in pages that are bounded by what the cache knows of their sizes.
type pages struct {
	live, cache client.Reader
	room        *room // nil: the caller bounds how many are read at once
}

func (p pages) read(ctx context.Context, namespace string, which labels.Selector, each func(*corev1.Pod)) error {
	options := []client.ListOption{client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: which}}
	ahead, err := sizes(ctx, p.cache, options)
	if err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	for next := ""; ; {
		last := ""
		limits := []client.ListOption{client.Limit(pageLimit(ahead)), client.Continue(next)}
		next, err = p.page(ctx, namespace, slices.Concat(options, limits), func(pod *corev1.Pod) {
			last = pod.Name
			each(pod)
		})
		if err != nil {
			return fmt.Errorf("reading the pods of namespace %s: %w", namespace, err)
		}
		if next == "" {
			return nil
		}
		ahead = after(ahead, last)
	}
}

// page reads one page, and returns where the next one begins, "" for none.
func (p pages) page(ctx context.Context, namespace string, options []client.ListOption, each func(*corev1.Pod)) (next string, err error) {
	release, err := p.room.take(ctx, namespace)
	if err != nil {
		return "", err
	}
	defer release()
	var page corev1.PodList
	if err := p.live.List(ctx, &page, options...); err != nil {
		return "", err
	}
	for i := range page.Items {
		each(&page.Items[i])
	}
	return page.Continue, nil
}

// pagesAtOnce are of all namespaces: each may take three times pageBytes while it is decoded.
const pagesAtOnce = 3

// room bounds how many pages are in memory at once, one of each namespace. Those that wait have their turn in the order in which they
// came, one page each.
type room struct {
	each  *share.Shares
	total *semaphore.Weighted
}

func newRoom() *room { return &room{share.New(1), semaphore.NewWeighted(pagesAtOnce)} }

func (r *room) take(ctx context.Context, namespace string) (release func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	back, err := r.each.Take(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if err := r.total.Acquire(ctx, 1); err != nil {
		back()
		return nil, fmt.Errorf("%d pages of pods are being read already, as many as may be: %w", pagesAtOnce, err)
	}
	return func() { r.total.Release(1); back() }, nil
}

// sized is how much the apiserver sends for a pod.
type sized struct {
	name  string
	bytes int64
}

// sizes are those of a namespace's pods in the order in which the apiserver lists them.
func sizes(ctx context.Context, cache client.Reader, options []client.ListOption) ([]sized, error) {
	var cached corev1.PodList
	if err := cache.List(ctx, &cached, slices.Concat(options, []client.ListOption{client.UnsafeDisableDeepCopy})...); err != nil {
		return nil, err
	}
	sizes := make([]sized, len(cached.Items))
	for i := range cached.Items {
		sizes[i] = sized{cached.Items[i].Name, size(&cached.Items[i])}
	}
	slices.SortFunc(sizes, func(a, b sized) int { return cmp.Compare(a.name, b.name) })
	return sizes, nil
}

// size is what SetSize has noted; 0: nothing.
func size(pod *corev1.Pod) int64 { return max(pod.Generation, -pod.Generation) }

func after(ahead []sized, name string) []sized {
	at, found := slices.BinarySearchFunc(ahead, name, func(s sized, name string) int { return cmp.Compare(s.name, name) })
	if found {
		at++
	}
	return ahead[at:]
}

// pageLimit is how many of the pods ahead are read at once.
func pageLimit(ahead []sized) int64 {
	bytes := int64(0)
	for n := range ahead {
		bytes += ahead[n].bytes
		if n == pagePods || n > 0 && bytes > pageBytes {
			return int64(n)
		}
	}
	return int64(min(len(ahead)+pageSpare, pagePods))
}
