package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// A budget that comes again under its name counts anew: what it counts may have become unready while there was none.
func TestABudgetThatComesAgainIsCountedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b", UID: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		}
		peer := podOwnedBy("q", "b", "batch/v1", "Job")
		peer.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "o"}}
		client := fake.NewClientset(podOwnedBy("p", "a", "", ""), peer, job, budget)
		o, err := Start(t.Context(), client, Options{Nodes: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Stop()
		const node = "nodes metadata.name=b"
		if asked := questions(o); slices.Contains(asked, node) {
			t.Fatalf("the node of a ready pod is read: %v", asked)
		}
		budgets, pods := client.PolicyV1().PodDisruptionBudgets("shop"), client.CoreV1().Pods("shop")
		steps := []func() error{
			func() error { return budgets.Delete(t.Context(), "b", metav1.DeleteOptions{}) },
			func() error {
				unready := peer.DeepCopy()
				unready.Status.Conditions[0].Status = corev1.ConditionFalse
				_, err := pods.Update(t.Context(), unready, metav1.UpdateOptions{})
				return err
			},
			func() error {
				again := budget.DeepCopy()
				again.UID = "b2"
				_, err := budgets.Create(t.Context(), again, metav1.CreateOptions{})
				return err
			},
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if asked := questions(o); !slices.Contains(asked, node) {
			t.Errorf("the node of a pod that is not ready is not read: %v", asked)
		}
	})
}

// TestManyBudgetsOfOnePodHaveFewFeeds: who may write a pod and the budgets that count it decides how often all that is written on it comes.
func TestManyBudgetsOfOnePodHaveFewFeeds(t *testing.T) {
	budget := func(i int) *policyv1.PodDisruptionBudget {
		name := fmt.Sprintf("b-%02d", i)
		selects := []metav1.LabelSelectorRequirement{{Key: "not-on-" + name, Operator: metav1.LabelSelectorOpDoesNotExist}}
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: selects}},
		}
	}
	const budgets = 20
	counting := func(o *Observer) (feeds int, all bool) {
		for _, q := range questions(o) {
			if strings.HasPrefix(q, "pods shop/") {
				feeds, all = feeds+1, all || q == "pods shop/"
			}
		}
		return feeds, all
	}
	for name, before := range map[string]int{"one after the other": 0, "as many as have feeds of their own at once": maxNamed, "all at once": budgets} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(podOwnedBy("p", "a", "", ""))
				create := func(i int) {
					if _, err := client.PolicyV1().PodDisruptionBudgets("shop").Create(t.Context(), budget(i), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				for i := range before {
					create(i)
				}
				o, err := Start(t.Context(), client, Options{Nodes: []string{"a"}})
				if err != nil {
					t.Fatal(err)
				}
				defer o.Stop()
				if feeds, all := counting(o); before == maxNamed && (feeds != maxNamed || all) {
					t.Errorf("%d feeds for %d budgets, everything %t: want one each", feeds, before, all)
				}
				for i := before; i < budgets; i++ {
					create(i)
					synctest.Wait()
				}
				if feeds, all := counting(o); feeds != 1 || !all {
					t.Errorf("%d feeds for %d budgets, everything %t: want one, of everything", feeds, budgets, all)
				}
			})
		})
	}
}
