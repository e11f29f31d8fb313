package manager

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/policycache"
)

// TestCompactPodsLoseNothing: whatever slimPod and Reduce keep comes back.
func TestCompactPodsLoseNothing(t *testing.T) {
	for seed := range int64(50) {
		pod := &corev1.Pod{}
		randfill.NewWithSeed(seed).NilChance(0.1).NumElements(1, 3).MaxDepth(6).Fill(pod)
		pod.TypeMeta = metav1.TypeMeta{}
		slim := slimPod(pod)
		if got := expand(compact(slim)); got != any(slim) {
			t.Fatal("a whole pod is not kept as it is")
		}
		policycache.Reduce(slim)
		if _, ok := compact(slim).(*compactPod); !ok {
			t.Fatal("a reduced pod is not compact")
		}
		if diff := cmp.Diff(slim, expand(compact(slim))); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// TestPodInformer: a client that watches, reads or indexes pods sees no difference between reduced and whole ones.
func TestPodInformer(t *testing.T) {
	s := &slimmer{}
	s.policies.add(&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd-1", UID: "p"}})
	reduced, whole := crowdPod(t, 0), crowdPod(t, 20)
	stream := watch.NewFakeWithChanSize(10, false)
	stream.Add(reduced.DeepCopy())
	stream.Add(whole)
	stream.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	apiserver := &toolscache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return stream, nil }}
	informer := s.newInformer(apiserver, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	must(t, informer.SetTransform(s.pod))
	must(t, informer.AddIndexers(toolscache.Indexers{"node": func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil }}))
	seen := make(chan string, 10)
	note := func(what string, o any) { seen <- what + " " + o.(*corev1.Pod).Spec.NodeName }
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note("add", o) },
		UpdateFunc: func(before, after any) { note("from", before); note("to", after) },
		DeleteFunc: func(o any) { note("delete", o) },
	})
	must(t, err)
	go informer.RunWithContext(t.Context())
	got := []string{<-seen, <-seen}
	slices.Sort(got)

	want := s.slim(t, crowdPod(t, 0))
	checkStore(t, informer.GetIndexer().(podIndexer), want)
	changed := reduced.DeepCopy()
	changed.Spec.NodeName, changed.ResourceVersion = "node-7", "8"
	stream.Modify(changed)
	stream.Delete(changed)
	for range 3 {
		got = append(got, <-seen)
	}
	if diff := cmp.Diff([]string{"add node-0", "add node-20", "from node-0", "to node-7", "delete node-7"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// checkStore compares what a store with a reduced pod and a whole one keeps and hands out.
func checkStore(t *testing.T, store podIndexer, reduced *corev1.Pod) {
	t.Helper()
	compacted := map[bool]int{}
	for _, kept := range store.Indexer.List() {
		_, small := kept.(*compactPod)
		compacted[small]++
	}
	if diff := cmp.Diff(map[bool]int{true: 1, false: 1}, compacted); diff != "" {
		t.Errorf("pods that are compact (-want +got):\n%s", diff)
	}
	got, _, err := store.GetByKey(reduced.Namespace + "/" + reduced.Name)
	must(t, err)
	if diff := cmp.Diff(any(reduced), got); diff != "" {
		t.Errorf("by key (-want +got):\n%s", diff)
	}
	for index, value := range map[string]string{"node": reduced.Spec.NodeName, toolscache.NamespaceIndex: reduced.Namespace} {
		found, err := store.ByIndex(index, value)
		must(t, err)
		if diff := cmp.Diff([]any{reduced}, found); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", index, diff)
		}
	}
	if all := store.List(); len(all) != 2 || all[0].(*corev1.Pod).Name == all[1].(*corev1.Pod).Name {
		t.Errorf("all: %v", all)
	}
}

// TestTombstonesOfCompactPods: what the watch has missed comes as a pod, too.
func TestTombstonesOfCompactPods(t *testing.T) {
	slim := (&slimmer{}).slim(t, crowdPod(t, 0))
	missed := toolscache.DeletedFinalStateUnknown{Key: "k", Obj: compact(slim)}
	want := toolscache.DeletedFinalStateUnknown{Key: "k", Obj: slim}
	if diff := cmp.Diff(any(want), expand(missed)); diff != "" {
		t.Errorf("tombstone (-want +got):\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
