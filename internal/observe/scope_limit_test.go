package observe

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// podFeeds are how many feeds read pods of the namespace shop, and whether one reads all pods of the cluster.
func podFeeds(o *Observer) (feeds int, cluster bool) {
	for _, q := range questions(o) {
		if strings.HasPrefix(q, "pods shop/") {
			feeds++
		}
		cluster = cluster || q == "pods"
	}
	return feeds, cluster
}

// startOnA starts an observer of node a, and returns once all has come.
func startOnA(t *testing.T, client *fake.Clientset) *Observer {
	t.Helper()
	o, err := Start(t.Context(), client, Options{Nodes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Stop)
	synctest.Wait()
	return o
}

// add puts objects into a cluster.
func add(t *testing.T, client *fake.Clientset, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		if err := client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

// budgetOn is a budget of the pods that a selector selects.
func budgetOn(name string, selector metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &selector},
	}
}

// The author of a budget changes its selector again and again: what a feed was made for is not needed any more.
func TestBudgetWithAnotherSelectorAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := func(i int) *policyv1.PodDisruptionBudget {
			b := budgetOn("b", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: fmt.Sprintf("not-on-%03d", i), Operator: metav1.LabelSelectorOpDoesNotExist},
			}})
			b.ResourceVersion = fmt.Sprint(i + 1)
			return b
		}
		client := fake.NewClientset(podOwnedBy("p", "a", "", ""), budget(0))
		o := startOnA(t, client)
		const changes = 600
		for i := range changes {
			if _, err := client.PolicyV1().PodDisruptionBudgets("shop").Update(t.Context(), budget(i+1), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if feeds, cluster := podFeeds(o); feeds != 1 || cluster {
			t.Errorf("after %d selectors: %d feeds of pods of the namespace, all pods of the cluster %t; want one, and not these", changes, feeds, cluster)
		}
	})
}

// A large pod elsewhere has all labels of small ones on the node, each of which is selected by a few budgets, or by its controller.
func TestLargePodBesideManySmall(t *testing.T) {
	selecting := map[string]func(name string, labels map[string]string) []runtime.Object{
		"under budgets": func(name string, labels map[string]string) []runtime.Object {
			var all []runtime.Object
			for key, value := range labels {
				all = append(all, budgetOn(name+key, metav1.LabelSelector{MatchLabels: map[string]string{key: value}}))
			}
			return all
		},
		"of controllers": func(name string, labels map[string]string) []runtime.Object {
			return []runtime.Object{statefulSet(name, metav1.LabelSelector{MatchLabels: labels})}
		},
	}
	for of, selectedBy := range selecting {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, large := fake.NewClientset(), podOwnedBy("large", "b", "", "")
				large.Labels = map[string]string{}
				for i := range 60 {
					name := fmt.Sprintf("p-%02d", i)
					p := podOwnedBy(name, "a", "apps/v1", "StatefulSet")
					p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = name, types.UID(name)
					p.Labels = map[string]string{name + "-0": "x", name + "-1": "x", name + "-2": "x"}
					maps.Copy(large.Labels, p.Labels)
					add(t, client, append(selectedBy(name, p.Labels), p)...)
				}
				add(t, client, large)
				o := startOnA(t, client)
				shows := 0
				for _, f := range o.byResource[pods] {
					if f.question.namespace == "shop" && f.shows("uid-large") {
						shows++
					}
				}
				if shows > 1 {
					t.Errorf("%d feeds bring the large pod, want one", shows)
				}
			})
		})
	}
}

func statefulSet(name string, selector metav1.LabelSelector) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: &selector},
	}
}

// One budget counts pods of many workloads, one of which has one on the node. What the others have besides is needed only where they may
// have more than they are to keep.
func TestBudgetOverManyWorkloads(t *testing.T) {
	tests := map[string]struct {
		workloads int
		settled   bool
		want      int // feeds of pods of the namespace
	}{
		"a few that are settled": {5, true, 2}, // the budget's, and that of the workload with a pod on the node
		"many that are settled":  {520, true, 2},
		"a few that are not":     {5, false, 6},
		"many that are not":      {520, false, 1},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(budgetOn("b", metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}))
				for i := range c.workloads {
					name := fmt.Sprintf("w-%03d", i)
					set := statefulSet(name, metav1.LabelSelector{MatchLabels: map[string]string{"app": name}})
					if c.settled {
						set.Status.Replicas = 1
					}
					p := podOwnedBy("p-"+name, "b", "apps/v1", "StatefulSet")
					if i == 0 {
						p.Spec.NodeName = "a"
					}
					p.Labels, p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = map[string]string{"tier": "x", "app": name}, name, types.UID(name)
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
					add(t, client, set, p)
				}
				o := startOnA(t, client)
				if feeds, cluster := podFeeds(o); feeds != c.want || cluster {
					t.Errorf("%d feeds of pods of the namespace, all pods of the cluster %t; want %d, and not these", feeds, cluster, c.want)
				}
			})
		})
	}
}
