package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// recorder writes down the life of every pod of a namespace, so that a test can judge afterwards what was safe at
// every moment.
type recorder struct {
	l  *testlab.Lab
	ns string

	mu     sync.Mutex
	frames [][]pod
	more   chan struct{} // closed and renewed with every frame
}

// pod is a pod at one moment.
type pod struct {
	uid         types.UID
	name        string
	app         string
	node        string
	ready       bool
	terminating bool
	grace       int64 // seconds, of a terminating pod
}

// record starts a recorder. It returns once it has seen the present state.
func record(t *testing.T, l *testlab.Lab, ns string) *recorder {
	t.Helper()
	r := &recorder{l: l, ns: ns, more: make(chan struct{})}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = await.Until(ctx, l.Pods(ns), func(all []*corev1.Pod) bool { // ends with ctx only
			r.enter(all)
			return false
		})
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	r.until(t, func([]pod) bool { return true })
	return r
}

const barrier = "barrier"

func (r *recorder) enter(all []*corev1.Pod) {
	frame := make([]pod, 0, len(all))
	for _, p := range all {
		now := pod{
			uid: p.UID, name: p.Name, app: p.Labels["app"], node: p.Spec.NodeName,
			ready: testlab.PodReady(p), terminating: p.DeletionTimestamp != nil,
		}
		if now.terminating && p.DeletionGracePeriodSeconds != nil {
			now.grace = *p.DeletionGracePeriodSeconds
		}
		frame = append(frame, now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, frame)
	close(r.more)
	r.more = make(chan struct{})
}

func (r *recorder) until(t *testing.T, done func(latest []pod) bool) {
	t.Helper()
	for {
		r.mu.Lock()
		more, ok := r.more, len(r.frames) > 0 && done(r.frames[len(r.frames)-1])
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatal("the recorder waited in vain")
		}
	}
}

// seen returns all that happened until now. A pod that is made and removed is seen after all that came before.
func (r *recorder) seen(t *testing.T) [][]pod {
	t.Helper()
	marker := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: barrier},
		Spec:       corev1.PodSpec{NodeName: barrier, Containers: []corev1.Container{{Name: barrier, Image: barrier}}},
	}
	pods := r.l.Client().CoreV1().Pods(r.ns)
	marker, err := pods.Create(t.Context(), marker, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.until(t, func(latest []pod) bool {
		return slices.ContainsFunc(latest, func(p pod) bool { return p.uid == marker.UID })
	})
	if err := pods.Delete(t.Context(), marker.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames)
}

// lowestReady is the fewest ready pods that an app had at any moment.
func (r *recorder) lowestReady(t *testing.T, app string) int {
	t.Helper()
	lowest := -1
	for _, frame := range r.seen(t) {
		ready := 0
		for _, p := range frame {
			if p.app == app && p.ready {
				ready++
			}
		}
		if lowest < 0 || ready < lowest {
			lowest = ready
		}
	}
	return lowest
}

// mostPods is the most pods that an app had at any moment, terminating ones left out.
func (r *recorder) mostPods(t *testing.T, app string) int {
	t.Helper()
	most := 0
	for _, frame := range r.seen(t) {
		running := 0
		for _, p := range frame {
			if p.app == app && !p.terminating {
				running++
			}
		}
		most = max(most, running)
	}
	return most
}

// left returns the names of the pods that are on a node now, sorted.
func (r *recorder) left(t *testing.T, node string) []string {
	t.Helper()
	frames := r.seen(t)
	names := []string{}
	for _, p := range frames[len(frames)-1] {
		if p.node == node {
			names = append(names, p.name)
		}
	}
	return names
}

// ends returns the apps of the pods of a node in the order in which their deletion was asked for.
func (r *recorder) ends(t *testing.T, node string) []string {
	t.Helper()
	var order []string
	former := map[types.UID]pod{}
	over := map[types.UID]bool{}
	for _, frame := range r.seen(t) {
		now := map[types.UID]pod{}
		for _, p := range frame {
			now[p.uid] = p
		}
		for _, p := range sortedPods(former) {
			later, there := now[p.uid]
			if p.node == node && !over[p.uid] && (!there || later.terminating) {
				over[p.uid] = true
				order = append(order, p.app)
			}
		}
		former = now
	}
	return order
}

func sortedPods(pods map[types.UID]pod) []pod {
	list := make([]pod, 0, len(pods))
	for _, p := range pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b pod) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return list
}

// mostBusy counts, at every moment, the groups that have lost some of the pods that they had at first but not all,
// and returns the highest count. groupOf returns "" for a pod that does not matter.
func (r *recorder) mostBusy(t *testing.T, groupOf func(pod) string) int {
	t.Helper()
	frames := r.seen(t)
	first := map[types.UID]string{}
	for _, p := range frames[0] {
		if g := groupOf(p); g != "" {
			first[p.uid] = g
		}
	}
	most := 0
	for _, frame := range frames {
		whole, present := map[string]int{}, map[string]int{}
		for _, p := range frame {
			g, mine := first[p.uid]
			if !mine {
				continue
			}
			present[g]++
			if !p.terminating {
				whole[g]++
			}
		}
		busy := 0
		for g, n := range sizes(first) {
			if whole[g] < n && present[g] > 0 {
				busy++
			}
		}
		most = max(most, busy)
	}
	return most
}

func sizes(groups map[types.UID]string) map[string]int {
	n := map[string]int{}
	for _, g := range groups {
		n[g]++
	}
	return n
}
