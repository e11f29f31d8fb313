package observe

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// largePod is a pod with as many labels as the apiserver takes, as a client gets it: 850 kB.
func largePod(t testing.TB, version string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "large", UID: "large", ResourceVersion: version, Labels: map[string]string{"version": version}},
		Spec:       corev1.PodSpec{NodeName: "a"},
	}
	for i := range 9500 {
		pod.Labels[fmt.Sprintf("label-of-a-pod-that-is-large-%04d", i)] = fmt.Sprintf("%045d", i)
	}
	wire, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := got.Unmarshal(wire); err != nil {
		t.Fatal(err)
	}
	return got
}

// ownedBy gives the pod an owner of which nothing is read, as who may write it can at any time.
func ownedBy(pod *corev1.Pod, uid string) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: types.UID(uid), Controller: new(true)}}
	return pod
}

// feedsOfBudgets are stores of so many feeds, each for the pods of a budget.
func feedsOfBudgets(o *Observer, many int) []*store[*corev1.Pod, snapshot.Pod] {
	var all []*store[*corev1.Pod, snapshot.Pod]
	for i := range many {
		q := question{resource: pods, namespace: "tenant", labels: fmt.Sprintf("label-of-a-pod-that-is-large-%04d", i)}
		f := &feed{question: q}
		s := &store[*corev1.Pod, snapshot.Pod]{observer: o, feed: f, kind: o.podKind(), known: map[string]*snapshot.Pod{}}
		f.shows = s.shows
		o.feeds[q] = f
		o.byResource[pods] = append(o.byResource[pods], f)
		all = append(all, s)
	}
	return all
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what weak pointers led to is gone after the first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// mostOfALargePod is what an observer may keep for a pod of 850 kB, in bytes, however many feeds show it.
const mostOfALargePod = 4 << 20

// TestALargePodIsKeptOnce: who may write a pod and the budgets that count it decides how many feeds show it.
func TestALargePodIsKeptOnce(t *testing.T) {
	const feeds = 20
	tests := map[string]func(version int) *corev1.Pod{
		"bare":              func(v int) *corev1.Pod { return largePod(t, fmt.Sprint(v)) },
		"of an owner":       func(v int) *corev1.Pod { return ownedBy(largePod(t, fmt.Sprint(v)), "one") },
		"of another always": func(v int) *corev1.Pod { return ownedBy(largePod(t, fmt.Sprint(v)), fmt.Sprint(v)) },
	}
	for name, pod := range tests {
		t.Run(name, func(t *testing.T) {
			o := newObserver(Options{Nodes: []string{"a"}})
			stores := feedsOfBudgets(o, feeds)
			o.scope.wide = true // nothing is read besides
			before, version := heap(), 0
			for i, s := range stores {
				if i%5 == 0 {
					version++ // as the feeds that are there show it next, and those that are started then show it first
					for _, earlier := range stores[:i] {
						if err := earlier.Update(pod(version)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := s.Replace([]any{pod(version)}, ""); err != nil {
					t.Fatal(err)
				}
			}
			kept := heap() - before
			t.Logf("%d feeds keep %d kB", feeds, kept>>10)
			if kept > mostOfALargePod {
				t.Errorf("%d feeds keep %d kB, want %d at most", feeds, kept>>10, mostOfALargePod>>10)
			}
			runtime.KeepAlive(stores)
		})
	}
}

// TestFactsOfADeletionAreNotShared: where a selector selects a pod no longer, a watch brings what it was before in the version in which
// another watch shows what it has become.
func TestFactsOfADeletionAreNotShared(t *testing.T) {
	o := newObserver(Options{Nodes: []string{"a"}})
	stores := feedsOfBudgets(o, 2)
	o.scope.wide = true
	pod := func(version, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "p", UID: "p", ResourceVersion: version, Labels: map[string]string{"app": app}}}
	}
	for _, s := range stores {
		if err := s.Add(pod("1", "web")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stores[0].Delete(pod("2", "web")); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].Update(pod("2", "db")); err != nil {
		t.Fatal(err)
	}
	if got := o.cluster.Pod("p").Labels["app"]; got != "db" {
		t.Errorf("the pod is shown with label %q, want that of its newest state", got)
	}
}

// TestHeldForgetsGarbage: what was found once takes no memory for ever.
func TestHeldForgetsGarbage(t *testing.T) {
	var all held[int]
	for i := range 10 * leastCrowd {
		all.put(i, &snapshot.Pod{Name: "web"})
		if i%leastCrowd == 0 {
			runtime.GC()
		}
	}
	if len(all.facts) > 3*leastCrowd {
		t.Errorf("%d facts are known of which none is held", len(all.facts))
	}
	kept := &snapshot.Pod{Name: "db"}
	all.put(-1, kept)
	runtime.GC()
	if all.get(-1) != kept {
		t.Error("facts that are held are not found")
	}
	runtime.KeepAlive(kept)
}

// TestPlacesKeepNoPods: who may write a pod gives it another owner at any time, and each is asked a place for.
func TestPlacesKeepNoPods(t *testing.T) {
	o := newObserver(Options{Nodes: []string{"a"}})
	asked := snapshot.Pod{
		NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{{Key: "gpu"}},
		NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}},
	}
	p := asked
	p.Name, p.Labels, p.Finalizers = "p", map[string]string{"app": "web"}, []string{"example.com/f"}
	p.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "of-web"}
	o.needPlace(&p)
	for _, of := range o.scope.places {
		for _, kept := range of.pods[p.OwnerKey()] {
			if diff := cmp.Diff(&asked, kept.pod); diff != "" {
				t.Errorf("what is kept of the pod (-want +got):\n%s", diff)
			}
		}
		if kept := len(of.pods[p.OwnerKey()]); kept != 1 {
			t.Errorf("of the pod %d are kept", kept)
		}
	}
	if len(o.scope.places) != 1 {
		t.Errorf("places are kept for %d selectors, want one", len(o.scope.places))
	}
}
