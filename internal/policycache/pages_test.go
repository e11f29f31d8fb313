package policycache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// paged is an apiserver that takes a second for each page of its pods.
type paged struct {
	client.Reader

	mu     sync.Mutex
	pods   []corev1.Pod
	limits []int64
}

func (p *paged) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	p.mu.Lock()
	p.limits = append(p.limits, o.Limit)
	p.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	from, _ := strconv.Atoi(o.Continue)
	to := min(len(p.pods), from+int(o.Limit))
	page := list.(*corev1.PodList)
	page.Items = p.pods[from:to]
	if to < len(p.pods) {
		page.Continue = strconv.Itoa(to)
	}
	return nil
}

// namespaceOf is a namespace with a policy whose pods were cached before it, each of so many bytes.
func namespaceOf(t *testing.T, sizes ...int) (*Whole, *paged) {
	t.Helper()
	cached, live := []client.Object{newPolicy("p", "a", rule)}, &paged{}
	for i, bytes := range sizes {
		name := fmt.Sprintf("a-%04d", i)
		live.pods = append(live.pods, *newPod(name, "a", annotated))
		cached = append(cached, newPod(name, "a", annotated, func(p *corev1.Pod) {
			SetSize(p, bytes)
			Reduce(p)
		}))
	}
	r := newReading(t, cached)
	r.whole.live = live
	return r.whole, live
}

func repeat(n, bytes int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = bytes
	}
	return sizes
}

// TestPodsOfANamespaceAreReadOnceInPages: however many ask for them, the pods of a namespace are read once, in pages that are bounded in
// number and in size, and a caller that goes does not end the read.
func TestPodsOfANamespaceAreReadOnceInPages(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
		want  []int64
	}{
		{"many", repeat(1200, 4<<10), []int64{500, 500, 210}},
		{"large ones", append(repeat(20, 1<<20), 4<<10), []int64{8, 8, 15}},
		{"larger than a page", []int{20 << 20, 20 << 20, 4 << 10}, []int64{1, 1, 11}},
	} {
		synctest.Test(t, func(t *testing.T) {
			whole, live := namespaceOf(t, c.sizes...)
			first, leave := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				var pods corev1.PodList
				if err := whole.List(first, &pods, client.InNamespace("db")); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: who has gone got %v", c.name, err)
				}
			})
			synctest.Wait()
			for range 20 {
				all.Go(func() {
					var pods corev1.PodList
					if err := whole.List(t.Context(), &pods, client.InNamespace("db")); err != nil {
						t.Errorf("%s: %v", c.name, err)
					}
					for i := range pods.Items {
						if Reduced(&pods.Items[i]) || pods.Items[i].Annotations["id"] == "" {
							t.Fatalf("%s: pod %d is reduced", c.name, i)
						}
					}
				})
			}
			synctest.Wait()
			leave()
			all.Wait()
			if diff := cmp.Diff(c.want, live.limits); diff != "" {
				t.Errorf("%s: the pages (-want +got):\n%s", c.name, diff)
			}
		})
	}
}

// Of members that were cached before the first policy the cache knows no labels, and yet how large they are.
func TestLivePagesOfReducedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 1500 << 10
		whole, live := namespaceOf(t, repeat(12, each)...)
		whole.slim = func(p *corev1.Pod) *corev1.Pod { SetSize(p, each); return p }
		s := newSetting(t)
		s.gatherer.Policies, s.gatherer.Live = New(whole, s.gatherer.Policies.kind, nil), live
		if _, err := s.gatherer.freshRoster(t.Context(), s.gatherer.Policies.Declared(newPolicy("p", "a", rule))); err != nil {
			t.Fatal(err)
		}
		ofAll, ofMembers := []int64{5, 5, 12}, []int64{5, 5, 12}
		if diff := cmp.Diff(slices.Concat(ofAll, ofMembers), live.limits); diff != "" {
			t.Errorf("the pages (-want +got):\n%s", diff)
		}
	})
}

// TestReadThatBeganEarlierIsNotEnough: who joins a read that does not have its pod, because the pod is younger, gets another.
func TestReadThatBeganEarlierIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, live := namespaceOf(t, 1, 1)
		younger := live.pods[1]
		live.pods = live.pods[:1]
		get := func(name string) error {
			return whole.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: name}, &corev1.Pod{})
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := get("a-0000"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := get("a-0001"); err != nil {
				t.Errorf("the younger pod: %v", err)
			}
		})
		<-time.After(time.Second + time.Millisecond)
		live.mu.Lock()
		live.pods = append(live.pods, younger)
		live.mu.Unlock()
		all.Wait()
	})
}

// TestReadOfANamespaceEnds: an apiserver that does not answer keeps callers for a bounded time.
func TestReadOfANamespaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, _ := namespaceOf(t, repeat(200, 20<<20)...)
		began := time.Now()
		err := whole.List(t.Context(), &corev1.PodList{}, client.InNamespace("db"))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*readTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// crowded is an apiserver that notes how many pages it is asked for at once, of all namespaces and of each.
type crowded struct {
	*paged

	now, most map[string]int
}

func (c *crowded) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	defer c.add(o.Namespace, -1)
	c.add(o.Namespace, 1)
	return c.paged.List(ctx, list, options...)
}

func (c *crowded) add(namespace string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range []string{namespace, ""} {
		c.now[of] += n
		c.most[of] = max(c.most[of], c.now[of])
	}
}

// Eight verdicts of each of many namespaces would have as many pages in memory, of 8 MiB each, and so would the first policies of many.
func TestFewPagesAreReadAtOnce(t *testing.T) {
	const tenants, verdicts = 5, 8
	namespace := func(n int) string { return fmt.Sprint("tenant-", n%tenants) }
	synctest.Test(t, func(t *testing.T) {
		live := &paged{pods: make([]corev1.Pod, 600)}
		c := &crowded{paged: live, now: map[string]int{}, most: map[string]int{}}
		var cached []client.Object
		for n := range tenants {
			policy := newPolicy("p", "a", rule)
			policy.Namespace = namespace(n)
			cached = append(cached, policy, newPod("a-0", "a", reduced, func(p *corev1.Pod) { p.Namespace = namespace(n) }))
		}
		whole := NewWhole(newReading(t, cached).cache, c, func(p *corev1.Pod) *corev1.Pod { return p })
		from := pages{live: c, cache: fake.NewClientBuilder().Build(), room: New(whole, nil, nil).room}
		var reads sync.WaitGroup
		for n := range tenants * verdicts {
			reads.Go(func() {
				if err := from.read(t.Context(), namespace(n), []labels.Selector{labels.Everything()}, func(*corev1.Pod) {}); err != nil {
					t.Error(err)
				}
			})
		}
		for n := range tenants {
			reads.Go(func() { _ = whole.List(t.Context(), &corev1.PodList{}, client.InNamespace(namespace(n))) }) // the apiserver has others
		}
		reads.Wait()
		want := map[string]int{"": pagesAtOnce}
		for n := range tenants {
			want[namespace(n)] = 1
		}
		if diff := cmp.Diff(want, c.most); diff != "" {
			t.Errorf("pages at once (-want +got):\n%s", diff)
		}
	})
}

// Many verdicts of one namespace take turns: of reads that go on side by side, and have time for three of them, none would end.
func TestReadsOfANamespaceEndOneByOne(t *testing.T) {
	everything := labels.Everything()
	for name, selectors := range map[string][]labels.Selector{
		"one entry": {everything}, "three entries": {everything, everything, everything},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := &paged{pods: make([]corev1.Pod, 30/len(selectors))}
				from := pages{live: live, cache: fake.NewClientBuilder().Build(), room: newRoom()}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var reads sync.WaitGroup
				var ended atomic.Int32
				for range 8 {
					reads.Go(func() {
						if from.read(ctx, "shop", selectors, func(*corev1.Pod) {}) == nil {
							ended.Add(1)
						}
					})
				}
				reads.Wait()
				if ended.Load() != 3 {
					t.Errorf("%d of 8 reads of three seconds end in ten, want 3", ended.Load())
				}
			})
		})
	}
}
