package observe

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/snapshot"
)

// change is one that the apiserver carries out: a pod as it is after it, or that is gone.
type change struct {
	pod  *corev1.Pod
	gone bool
}

// server is pods, with what happened to them in that order.
type server struct {
	changes []change
}

// state is what a watch shows of which the position is known.
func (s *server) state(upTo int, selects func(*corev1.Pod) bool) map[types.UID]*corev1.Pod {
	all := map[types.UID]*corev1.Pod{}
	for _, c := range s.changes[:upTo] {
		delete(all, c.pod.UID)
		if !c.gone && selects(c.pod) {
			all[c.pod.UID] = c.pod
		}
	}
	return all
}

// view is one watch: what it selects, how far it is, and the store that it fills.
type view struct {
	selects func(*corev1.Pod) bool
	at      int
	store   *store[*corev1.Pod, snapshot.Pod]
}

func newViews(o *Observer) []*view {
	of := func(q question, selects func(*corev1.Pod) bool) *view {
		f := &feed{question: q}
		s := &store[*corev1.Pod, snapshot.Pod]{observer: o, feed: f, kind: o.podKind(), known: map[string]*snapshot.Pod{}}
		f.shows = s.shows
		o.feeds[q] = f
		o.byResource[pods] = append(o.byResource[pods], f)
		return &view{selects: selects, store: s}
	}
	labelled := func(key string) *view {
		return of(question{resource: pods, namespace: "db", labels: key}, func(p *corev1.Pod) bool { return p.Labels[key] != "" })
	}
	return []*view{
		of(question{resource: pods, fields: "spec.nodeName=a"}, func(p *corev1.Pod) bool { return p.Spec.NodeName == "a" }),
		labelled("app"), labelled("tier"),
	}
}

// deliver brings the next change, as a watch does: an object that is selected no longer is deleted, as it was before, in the version
// of the change.
func (v *view) deliver(s *server) error {
	next := s.changes[v.at]
	before := s.state(v.at, v.selects)[next.pod.UID]
	v.at++
	switch selected := v.selects(next.pod) && !next.gone; {
	case selected:
		return v.store.Add(next.pod.DeepCopy())
	case before != nil:
		last := before.DeepCopy()
		last.ResourceVersion = next.pod.ResourceVersion
		return v.store.Delete(last)
	}
	return nil
}

// relist brings what is true at some time that is not before what was brought.
func (v *view) relist(s *server, at int) error {
	v.at = max(at, v.at)
	var objects []any
	for _, pod := range s.state(v.at, v.selects) {
		objects = append(objects, pod.DeepCopy())
	}
	return v.store.Replace(objects, "")
}

// Whatever order watches of the same pods are in, what they bring is merged into what is true once all of it has come, and before that
// a pod of the node that was seen gone stays gone, and none is shown in an older state than before. Each state of a pod is kept once.
func TestPropertyWatchesAreMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newObserver(Options{})
		s, views := &server{changes: drawChanges(t)}, newViews(o)
		o.scope.wide = true                                         // nothing is read besides
		onNode, newest := map[types.UID]bool{}, map[types.UID]int{} // whether it is there still, of those that its watch has shown
		for pending := views; len(pending) > 0; pending = slices.DeleteFunc(slices.Clone(views), func(v *view) bool { return v.at == len(s.changes) }) {
			v := rapid.SampledFrom(pending).Draw(t, "watch")
			var err error
			if rapid.IntRange(0, 4).Draw(t, "relists") == 0 {
				err = v.relist(s, rapid.IntRange(v.at, len(s.changes)).Draw(t, "at"))
			} else {
				err = v.deliver(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			for uid := range onNode {
				onNode[uid] = false
			}
			for uid := range views[0].store.known {
				onNode[types.UID(uid)] = true
			}
			o.cluster.EachPod(func(p *snapshot.Pod) {
				version, _ := strconv.Atoi(p.ResourceVersion)
				if there, known := onNode[p.UID]; known && !there || version < newest[p.UID] {
					t.Fatalf("pod %s is shown at version %d: gone from its node %t, was shown at %d", p.UID, version, known && !there, newest[p.UID])
				}
				newest[p.UID] = version
			})
			if err := keptTwice(views); err != nil {
				t.Fatal(err)
			}
			for uid := range newest {
				if o.cluster.Pod(uid) == nil {
					delete(newest, uid) // no feed shows it
				}
			}
		}
		want, got := map[types.UID]*snapshot.Pod{}, map[types.UID]*snapshot.Pod{}
		for _, v := range views {
			for uid, pod := range s.state(len(s.changes), v.selects) {
				want[uid] = PodFacts(pod)
			}
		}
		o.cluster.EachPod(func(p *snapshot.Pod) { got[p.UID] = p })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("what is shown in the end (-want +got):\n%s", diff)
		}
	})
}

// keptTwice returns which state of a pod is kept more than once.
func keptTwice(views []*view) error {
	kept := map[podState]*snapshot.Pod{}
	for _, v := range views {
		for _, p := range v.store.known {
			state := podState{p.UID, p.ResourceVersion}
			if other := kept[state]; other != nil && other != p {
				return fmt.Errorf("pod %s is kept twice at version %s", p.UID, p.ResourceVersion)
			}
			kept[state] = p
		}
	}
	return nil
}

// drawChanges draws lives of two names: pods come, get other labels, and go; another comes under the name.
func drawChanges(t *rapid.T) []change {
	var changes []change
	present := map[string]*corev1.Pod{}
	for i := range rapid.IntRange(1, 14).Draw(t, "changes") {
		name := rapid.SampledFrom([]string{"db-0", "db-1"}).Draw(t, "name")
		version := strconv.Itoa(i + 1)
		before := present[name]
		if before != nil && rapid.IntRange(0, 2).Draw(t, "goes") == 0 {
			last := before.DeepCopy()
			last.ResourceVersion = version
			changes = append(changes, change{last, true})
			delete(present, name)
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, i))}}
		pod.Spec.NodeName = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node")
		if before != nil {
			pod = before.DeepCopy()
		}
		pod.ResourceVersion, pod.Labels = version, map[string]string{}
		for _, key := range []string{"app", "tier"} {
			if rapid.Bool().Draw(t, key) {
				pod.Labels[key] = "x"
			}
		}
		present[name] = pod
		changes = append(changes, change{pod: pod})
	}
	return changes
}
