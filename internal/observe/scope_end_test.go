package observe

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/internal/snapshot"
)

// entries are how many entries a scope has of owners, and of what their pods ask of nodes.
func (s *scope) entries() int {
	all := len(s.owners) + len(s.raised)
	for _, of := range s.ruled {
		all += len(of)
	}
	for _, of := range s.places {
		all++
		for _, pods := range of.pods {
			all += len(pods)
		}
	}
	return all
}

// Whatever its authors change again and again, of what an object was nothing is kept.
func TestWhatObjectsWereIsForgotten(t *testing.T) {
	named := func(kind string, i int) snapshot.Owner {
		return snapshot.Owner{APIVersion: "apps/v1", Kind: kind, Name: fmt.Sprint("o-", i), UID: types.UID(fmt.Sprint("of-o-", i))}
	}
	pod := func(i int) *snapshot.Pod {
		return &snapshot.Pod{Namespace: "shop", Name: "p", UID: "p", Node: "a", Owner: named("StatefulSet", i)}
	}
	replicaSet := func(i int) *snapshot.Workload {
		return &snapshot.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "o-0", UID: "of-o-0", Owner: named("Deployment", i+1), Selector: "app=web"}
	}
	setPod := func(o *Observer, p *snapshot.Pod) {
		o.setPod(o.cluster, p)
		o.seePod(p)
	}
	setWorkload := func(o *Observer, w *snapshot.Workload) {
		o.setWorkload(o.cluster, w)
		o.seeWorkload(w)
	}
	tests := map[string]struct {
		change func(*Observer, int)
		want   int
	}{
		"a pod's owner": {func(o *Observer, i int) { setPod(o, pod(i)) }, 3},
		"the owner of one that goes": {func(o *Observer, i int) {
			setPod(o, pod(i))
			o.dropPod(o.cluster, pod(i))
		}, 0},
		"what a pod tolerates": {func(o *Observer, i int) {
			p := pod(0)
			p.Tolerations = []corev1.Toleration{{Key: fmt.Sprint(i)}}
			setPod(o, p)
		}, 3},
		"the labels that it asks for": {func(o *Observer, i int) {
			p := pod(0)
			p.NodeSelector = map[string]string{"disk": fmt.Sprint(i)}
			setPod(o, p)
		}, 3},
		"the owner of a ReplicaSet": {func(o *Observer, i int) {
			p := pod(0)
			p.Owner.Kind = "ReplicaSet"
			setPod(o, p)
			setWorkload(o, replicaSet(i))
		}, 4},
		"its Deployment": {func(o *Observer, i int) {
			p := pod(0)
			p.Owner.Kind = "ReplicaSet"
			setPod(o, p)
			setWorkload(o, replicaSet(i))
			of := named("Deployment", i+1)
			deployment := &snapshot.Workload{Kind: "Deployment", Namespace: "shop", Name: of.Name, UID: of.UID, Selector: fmt.Sprint("app=", i)}
			setWorkload(o, deployment)
			o.dropWorkload(o.cluster, deployment)
		}, 5}, // its selector as long as the ReplicaSet says that it has it
		"the target of an autoscaler": {func(o *Observer, i int) {
			a := &snapshot.Autoscaler{Namespace: "shop", Name: "h", UID: "h", TargetKind: "Deployment", TargetName: fmt.Sprint(i), SurgeError: "x"}
			o.cluster.SetAutoscaler(a)
			o.seeAutoscaler(a)
		}, 1},
		"an autoscaler that goes": {func(o *Observer, i int) {
			a := &snapshot.Autoscaler{Namespace: "shop", Name: fmt.Sprint(i), UID: "h", TargetKind: "Deployment", TargetName: "d", SurgeError: "x"}
			o.cluster.SetAutoscaler(a)
			o.seeAutoscaler(a)
			o.dropAutoscaler(o.cluster, a)
		}, 0},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			o := newObserver(Options{Nodes: []string{"a"}})
			for i := range 20 {
				c.change(o, i)
			}
			if kept := o.scope.entries(); kept != c.want {
				t.Errorf("%d entries are kept, want %d: %+v", kept, c.want, o.scope)
			}
		})
	}
}

// The client that creates a pod writes its owner, whose name and UID have no limit of their own.
func TestOwnersThatAreRewritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(v int) *corev1.Pod {
			p := podOwnedBy("p", "a", "apps/v1", "StatefulSet")
			p.ResourceVersion = fmt.Sprint(v + 1)
			p.OwnerReferences[0].UID = types.UID(fmt.Sprintf("%06d", v) + strings.Repeat("u", 800_000))
			return p
		}
		client := fake.NewClientset(pod(0))
		o := startOnA(t, client)
		client.ClearActions()
		before := heap()
		const changes = 20
		for v := range changes {
			if _, err := client.CoreV1().Pods("shop").Update(t.Context(), pod(v+1), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			client.ClearActions()
		}
		if kept := heap() - before; kept > mostOfALargePod {
			t.Errorf("after %d owners %d kB are kept", changes, kept>>10)
		}
		if len(o.scope.owners) != 1 {
			t.Errorf("%d owners are known, want the present one", len(o.scope.owners))
		}
	})
}

// A number is kept of each owner whose pods are garbage, and not its name.
func TestNamesOfOwnersWithoutPodsAreNotKept(t *testing.T) {
	all := &siblings{}
	var others []*snapshot.Pod // of as many owners, so that garbage is looked for late
	for i := range 1000 {
		p := &snapshot.Pod{UID: types.UID(fmt.Sprint("q-", i)), Owner: snapshot.Owner{UID: types.UID(fmt.Sprint("of-q-", i))}}
		others = append(others, all.share(p))
	}
	before := heap()
	const changes = 100
	for v := range changes {
		all.share(&snapshot.Pod{UID: "p", Owner: snapshot.Owner{UID: types.UID(fmt.Sprintf("%06d", v) + strings.Repeat("u", 800_000))}})
	}
	if kept := heap() - before; kept > mostOfALargePod {
		t.Errorf("after %d owners %d kB are kept, beside %d pods", changes, kept>>10, len(others))
	}
	runtime.KeepAlive(others)
}
