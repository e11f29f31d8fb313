package policycache

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

// readOnce reads the pods of a namespace past the cache, once for all calls that come meanwhile, and reports whether some of them had come
// before. The read goes on when the call that began it has ended.
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
	from, everything := pages{live: w.live, cache: w.Reader, room: w.room}, []labels.Selector{labels.Everything()}
	err := from.read(ctx, namespace, everything, func(pod *corev1.Pod) {
		pod = w.slim(pod)
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
	room        *room
}

// read reads what each selector selects, one after the other in one turn of the namespace. The sizes are asked for before: a cache that
// is Whole may have to read pages of its own first.
func (p pages) read(ctx context.Context, namespace string, selectors []labels.Selector, each func(*corev1.Pod)) error {
	ahead, err := sizes(ctx, p.cache, namespace, selectors)
	if err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	release, err := p.room.turn(ctx, namespace)
	if err != nil {
		return fmt.Errorf("reading the pods of namespace %s: %w", namespace, err)
	}
	defer release()
	for i, which := range selectors {
		if err := p.readWhich(ctx, namespace, which, ahead[i], each); err != nil {
			return fmt.Errorf("reading the pods of namespace %s: %w", namespace, err)
		}
	}
	return nil
}

func (p pages) readWhich(ctx context.Context, namespace string, which labels.Selector, ahead []sized, each func(*corev1.Pod)) error {
	for at := ""; ; {
		last := ""
		options := []client.ListOption{
			client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: which}, client.Limit(pageLimit(ahead)), client.Continue(at),
		}
		next, err := p.page(ctx, options, func(pod *corev1.Pod) {
			last = pod.Name
			each(pod)
		})
		if err != nil || next == "" {
			return err
		}
		ahead, at = after(ahead, last), next
	}
}

// page reads one page, and returns where the next one begins, "" for none.
func (p pages) page(ctx context.Context, options []client.ListOption, each func(*corev1.Pod)) (next string, err error) {
	release, err := p.room.page(ctx)
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

// room bounds how many pages are in memory at once. A namespace has one turn at a time, for all pages of a read: reads that go on side by
// side all end late, too late for any of their callers. Among the namespaces that have a turn the pages go in the order in which they are
// asked for, so that a large namespace leaves the others theirs.
type room struct {
	turns *share.Shares
	pages *semaphore.Weighted
}

func newRoom() *room { return &room{share.New(1), semaphore.NewWeighted(pagesAtOnce)} }

// roomOf is the room for what reads past a cache: what Whole reads by itself has its place in the same.
func roomOf(cache client.Reader) *room {
	if whole, ok := cache.(*Whole); ok {
		return whole.room
	}
	return newRoom()
}

// turn waits for the namespace's turn. Who has it must not wait for another of the same namespace.
func (r *room) turn(ctx context.Context, namespace string) (release func(), err error) {
	return r.turns.Take(ctx, namespace)
}

func (r *room) page(ctx context.Context) (release func(), err error) {
	if err := r.pages.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%d pages of pods are being read already, as many as may be: %w", pagesAtOnce, err)
	}
	return func() { r.pages.Release(1) }, nil
}

// sized is how much the apiserver sends for a pod.
type sized struct {
	name  string
	bytes int64
}

// sizes are those of a namespace's pods that each selector selects, in the order in which the apiserver lists them. The cache is asked for
// all pods: it would miss those that it has reduced, whose labels only Whole knows.
func sizes(ctx context.Context, cache client.Reader, namespace string, selectors []labels.Selector) ([][]sized, error) {
	var cached corev1.PodList
	if err := cache.List(ctx, &cached, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	all := make([][]sized, len(selectors))
	for i, which := range selectors {
		for n := range cached.Items {
			if pod := &cached.Items[n]; which.Matches(labels.Set(pod.Labels)) {
				all[i] = append(all[i], sized{pod.Name, Size(pod)})
			}
		}
		slices.SortFunc(all[i], func(a, b sized) int { return cmp.Compare(a.name, b.name) })
	}
	return all, nil
}

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
