package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

func silent(int) {}

// What a Look reads is what an Observer does.
func TestLookAtAllSeesWhatAnObserverSees(t *testing.T) {
	objects := append(shop(3, nil), podOwnedBy("db-0", "node-1", "apps/v1", "StatefulSet", "data"))
	look := NewLook(serving(objects...), &Clock{})
	if err := look.All(t.Context(), nil, silent); err != nil {
		t.Fatal(err)
	}
	o, err := Start(t.Context(), fake.NewClientset(objects...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	o.Read(func(v snapshot.View) {
		if diff := cmp.Diff(summaryOf(v.Cluster), summaryOf(look.View().Cluster)); diff != "" {
			t.Errorf("(-observer +look)\n%s", diff)
		}
	})
}

// summaryOf names what a cluster has.
func summaryOf(c *snapshot.Cluster) map[string][]string {
	found := map[string][]string{}
	note := func(kind, name string) { found[kind] = append(found[kind], name) }
	c.EachPod(func(p *snapshot.Pod) { note("pods", p.Key().String()+" on "+p.Node) })
	for _, n := range c.Nodes() {
		note("nodes", n.Name)
	}
	for _, b := range c.Budgets() {
		note("budgets", b.Key().String())
	}
	for _, w := range c.Workloads() {
		note("workloads", w.Kind+" "+w.Key().String())
	}
	for _, gap := range c.Gaps() {
		note("gaps", gap.Resource+": "+gap.Reason)
	}
	if c.Partial("nodes") {
		note("gaps", "nodes")
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

func TestLookAtAllReadsInParts(t *testing.T) {
	client := fake.NewClientset(shop(1, nil)...)
	most := map[string]int64{}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if options, ok := action.(clienttesting.ListActionImpl); ok {
			most[action.GetResource().Resource] = options.ListOptions.Limit
		}
		return false, nil, nil
	})
	var counts []int
	look := NewLook(client, &Clock{})
	if err := look.All(t.Context(), nil, func(pods int) { counts = append(counts, pods) }); err != nil {
		t.Fatal(err)
	}
	want := []string{"deployments", "horizontalpodautoscalers", "nodes", "poddisruptionbudgets", "pods", "replicasets"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(most))); diff != "" {
		t.Errorf("read:\n%s", diff)
	}
	for resource, limit := range most {
		if limit != 500 {
			t.Errorf("%s are listed by %d", resource, limit)
		}
	}
	if diff := cmp.Diff([]int{1, 2}, counts); diff != "" {
		t.Errorf("progress:\n%s", diff)
	}
}

func TestLookAtAllThatCannotBeRead(t *testing.T) {
	t.Run("an owner is a gap", func(t *testing.T) {
		client := fake.NewClientset(shop(1, nil)...)
		refuse(client, "deployments", forbidden("bob", "deployments"))
		look := NewLook(client, &Clock{})
		if err := look.All(t.Context(), nil, silent); err != nil {
			t.Fatal(err)
		}
		if gap, ok := look.View().Cluster.Gap("deployments"); !ok || !gap.Final {
			t.Errorf("gap: %+v", gap)
		}
	})
	t.Run("a budget is an error", func(t *testing.T) {
		client := fake.NewClientset(shop(1, nil)...)
		refuse(client, "poddisruptionbudgets", forbidden("bob", "poddisruptionbudgets"))
		err := NewLook(client, &Clock{}).All(t.Context(), nil, silent)
		if err == nil || !strings.Contains(err.Error(), "--user=bob") {
			t.Errorf("said: %v", err)
		}
	})
	t.Run("requests without a client are a gap", func(t *testing.T) {
		pod := podOwnedBy("db-0", "a", "", "")
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "usher.sh/policy", "db")
		look := NewLook(fake.NewClientset(pod), &Clock{})
		if err := look.All(t.Context(), nil, silent); err != nil {
			t.Fatal(err)
		}
		if _, ok := look.View().Cluster.Gap("evictionrequests"); !ok {
			t.Error("no gap")
		}
	})
}

func TestLookAtAllBounds(t *testing.T) {
	blocks := func(client *fake.Clientset, resource string) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			<-time.After(10 * time.Minute) // the fake client knows no context
			return true, nil, errors.New("connection reset by peer")
		})
	}
	for resource, want := range map[string]string{"nodes": "no answer from", "pods": "pods have not all come"} {
		t.Run(resource+" do not come", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(shop(1, nil)...)
				blocks(client, resource)
				err := NewLook(client, &Clock{}).All(context.WithoutCancel(t.Context()), nil, silent)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("said: %v", err)
				}
			})
		})
	}
}
