package main

import (
	"context"
	"fmt"
	"strings"

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
	namespaces  = 40
	crowdPrefix = "crowd-" // of their names
	deployments = 10       // of a stage, with two pods each on the node that is drained
	replicas    = 2
	spare       = 4 // nodes to which they may go
	appLabel    = "app"
	stageLabel  = "bench.usher.sh/stage"
)

// grow adds nodes, and running pods on them that nothing looks after.
func (b *bencher) grow(ctx context.Context, to size) error {
	if b.made.nodes == 0 {
		for i := range namespaces {
			if err := b.addNamespace(ctx, fmt.Sprintf("%s%d", crowdPrefix, i)); err != nil {
				return err
			}
		}
		if err := b.awaitAccounts(ctx); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("crowd-%d", to.nodes)
	if err := b.lab.Nodes.Create(ctx, b.lab.Client, nodes.Objects(name, to.nodes-b.made.nodes, nodes.Zones(3)...)); err != nil {
		return err
	}
	added := to.nodes - b.made.nodes
	err := throwaway.InParallel(ctx, to.pods-b.made.pods, func(ctx context.Context, i int) error {
		return b.lab.CreateRunning(ctx, crowdPod(b.made.pods+i, fmt.Sprintf("%s-%d", name, i%added+1)))
	})
	b.made = to
	return err
}

// awaitAccounts waits for the service accounts of the crowd's namespaces, without which the apiserver takes no pod.
func (b *bencher) awaitAccounts(ctx context.Context) error {
	accounts := await.Source[*corev1.ServiceAccount]{Client: b.lab.Client.CoreV1().RESTClient(), Resource: "serviceaccounts"}
	err := await.Until(ctx, accounts, func(all []*corev1.ServiceAccount) bool {
		there := 0
		for _, account := range all {
			if strings.HasPrefix(account.Namespace, crowdPrefix) && account.Name == "default" {
				there++
			}
		}
		return there == namespaces
	})
	if err != nil {
		return fmt.Errorf("waiting for service accounts: %w", err)
	}
	return nil
}

func (b *bencher) addNamespace(ctx context.Context, name string) error {
	_, err := b.lab.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// crowdPod has as much in it as pods commonly have. Its status is not the simulator's.
func crowdPod(i int, node string) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/20)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("%s%d", crowdPrefix, i%namespaces), Name: fmt.Sprintf("%s-6d5f7c9b8d-%05d", app, i),
			Labels:      map[string]string{appLabel: app, "app.kubernetes.io/part-of": "crowd", "pod-template-hash": "6d5f7c9b8d"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "pod-create.stage.kwok.x-k8s.io/delay": "24h"},
		},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(30))},
	}
	for _, name := range []string{"app", "proxy"} {
		c := container(name)
		for n := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: "https://service.example.com:8443/path"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

func container(name string) corev1.Container {
	return corev1.Container{
		Name: name, Image: "registry.example.com/team/" + name + ":1.2.3",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
	}
}

// stage is a node with twenty pods of ten Deployments, each under a budget, and nodes for them to go to.
type stage struct {
	name   string // of the namespace, too
	target string
	pod    string // one of the pods
}

func (b *bencher) stage(ctx context.Context) (*stage, error) {
	b.stages++
	st := &stage{name: fmt.Sprintf("stage-%d", b.stages)}
	if err := b.addNamespace(ctx, st.name); err != nil {
		return nil, err
	}
	target, err := b.addNodes(ctx, st.name, "target", 1)
	if err != nil {
		return nil, err
	}
	st.target = target
	for i := range deployments {
		if err := b.addDeployment(ctx, st.name, fmt.Sprintf("app-%d", i)); err != nil {
			return nil, err
		}
	}
	pods := await.Source[*corev1.Pod]{Client: b.lab.Client.CoreV1().RESTClient(), Resource: "pods", Namespace: st.name}
	budgets := await.Source[*policyv1.PodDisruptionBudget]{Client: b.lab.Client.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: st.name}
	if err := await.Until(ctx, budgets, allHealthy); err != nil {
		return nil, fmt.Errorf("waiting until the budgets count their pods: %w", err)
	}
	if err := await.Until(ctx, pods, func(all []*corev1.Pod) bool {
		if len(all) > 0 {
			st.pod = all[0].Name
		}
		return len(all) == deployments*replicas
	}); err != nil {
		return nil, fmt.Errorf("waiting for pods: %w", err)
	}
	_, err = b.addNodes(ctx, st.name, "spare", spare)
	return st, err
}

func allHealthy(all []*policyv1.PodDisruptionBudget) bool {
	for _, budget := range all {
		if budget.Status.CurrentHealthy != replicas {
			return false
		}
	}
	return len(all) == deployments
}

// addNodes returns the name of the first.
func (b *bencher) addNodes(ctx context.Context, stage, kind string, n int) (string, error) {
	list := nodes.Objects(stage+"-"+kind, n)
	for _, node := range list {
		node.Labels[stageLabel] = stage
	}
	return list[0].Name, b.lab.Nodes.Create(ctx, b.lab.Client, list)
}

func (b *bencher) addDeployment(ctx context.Context, namespace, name string) error {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
	_, err := b.lab.Client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{stageLabel: namespace}, Containers: []corev1.Container{container("app")},
					TerminationGracePeriodSeconds: new(int64(5)),
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a Deployment: %w", err)
	}
	_, err = b.lab.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: selector},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a budget: %w", err)
	}
	return nil
}
