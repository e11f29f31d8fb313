package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/nodes"
	"usher.sh/usher/lab/throwaway"
)

const (
	deployments = 10
	replicas    = 10
	others      = 19 // nodes that the pods can go to
	grace       = 5  // seconds
	appLabel    = "app"
	runLabel    = "bench.usher.sh/run"
)

// setup is what is drained: pods of ten Deployments, ten each, on the targets, and nodes for them to go to.
type setup struct {
	name    string
	targets int
	budget  policyv1.PodDisruptionBudgetSpec // without selector
}

func setups() []setup {
	return []setup{
		{name: "1 node, maxUnavailable 1", targets: 1, budget: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}},
		{name: "1 node, minAvailable 9", targets: 1, budget: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(replicas - 1))}},
		{name: "10 nodes at once, maxUnavailable 1", targets: 10, budget: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}},
	}
}

// stage is a set-up that stands in the lab, for one run, with nodes and a namespace of its own.
type stage struct {
	lab     *throwaway.Lab
	run     string // also the namespace
	targets []string
	others  []string
}

// build makes the set-up. The other nodes come last, so that all pods start on the targets.
func build(ctx context.Context, lab *throwaway.Lab, s setup, run string) (*stage, error) {
	st, err := newStage(ctx, lab, run, s.targets)
	if err != nil {
		return nil, err
	}
	for i := range deployments {
		if err := st.addDeployment(ctx, fmt.Sprintf("app-%d", i), replicas, s.budget); err != nil {
			return nil, err
		}
	}
	if err := st.awaitSettled(ctx); err != nil {
		return nil, err
	}
	st.others, err = st.addNodes(ctx, "other", others)
	return st, err
}

// newStage makes the targets and the namespace of a run.
func newStage(ctx context.Context, lab *throwaway.Lab, run string, targets int) (*stage, error) {
	st := &stage{lab: lab, run: run}
	var err error
	if st.targets, err = st.addNodes(ctx, "target", targets); err != nil {
		return nil, err
	}
	return st, st.addNamespace(ctx)
}

func (st *stage) addNodes(ctx context.Context, kind string, n int) ([]string, error) {
	list := nodes.Objects(st.run+"-"+kind, n)
	names := make([]string, n)
	for i, node := range list {
		names[i] = node.Name
		node.Labels[runLabel] = st.run
	}
	return names, st.lab.Nodes.Create(ctx, st.lab.Client, list)
}

func (st *stage) addNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: st.run}}
	if _, err := st.lab.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace: %w", err)
	}
	return nil
}

func (st *stage) deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{appLabel: name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: st.podSpec()},
		},
	}
}

func (st *stage) addDeployment(ctx context.Context, name string, replicas int32, budget policyv1.PodDisruptionBudgetSpec) error {
	d := st.deployment(name, replicas)
	if _, err := st.lab.Client.AppsV1().Deployments(st.run).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating deployment: %w", err)
	}
	budget.Selector = d.Spec.Selector
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: budget}
	if _, err := st.lab.Client.PolicyV1().PodDisruptionBudgets(st.run).Create(ctx, pdb, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating budget: %w", err)
	}
	return nil
}

func (st *stage) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:                  map[string]string{runLabel: st.run},
		TerminationGracePeriodSeconds: new(int64(grace)),
		Containers: []corev1.Container{{
			Name:  "app",
			Image: "app",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}},
	}
}

// awaitSettled waits until all pods are ready and all budgets know it.
func (st *stage) awaitSettled(ctx context.Context) error {
	return st.awaitBudgets(ctx, deployments, replicas)
}

// awaitBudgets waits until so many budgets know that all of their pods are ready.
func (st *stage) awaitBudgets(ctx context.Context, budgets int, pods int32) error {
	source := await.Source[*policyv1.PodDisruptionBudget]{Client: st.lab.Client.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: st.run}
	err := await.Until(ctx, source, func(all []*policyv1.PodDisruptionBudget) bool {
		settled := 0
		for _, b := range all {
			if b.Status.CurrentHealthy == pods && b.Status.ExpectedPods == pods {
				settled++
			}
		}
		return settled == budgets
	})
	if err != nil {
		return fmt.Errorf("waiting until the budgets know their pods: %w", err)
	}
	return nil
}

func (st *stage) pods() await.Source[*corev1.Pod] {
	return await.Source[*corev1.Pod]{Client: st.lab.Client.CoreV1().RESTClient(), Resource: "pods", Namespace: st.run}
}

// remove takes everything of the run away, so that the next one has the machine for itself.
func (st *stage) remove(ctx context.Context) error {
	client, now := st.lab.Client, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := client.CoreV1().Namespaces().Delete(ctx, st.run, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace: %w", err)
	}
	deploymentsOf := client.AppsV1().Deployments(st.run)
	orphans := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := deploymentsOf.DeleteCollection(ctx, orphans, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting deployments: %w", err)
	}
	err := await.Until(ctx, st.pods(), func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds > 0 {
				// A failure shows as a pod that stays, and ends the wait with what is left.
				_ = client.CoreV1().Pods(st.run).Delete(ctx, p.Name, now)
			}
		}
		return len(all) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting until the pods are gone: %w", err)
	}
	return client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: runLabel + "=" + st.run})
}
