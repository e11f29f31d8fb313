package testlab

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// All helpers below label pods app=<name> and keep them on the test's own nodes; mutators change the object before it
// is sent. None waits: use WaitReady.

// Labels are those that the helpers put on the pods of a workload of that name.
func Labels(name string) map[string]string { return map[string]string{"app": name} }

// Deployment creates a Deployment.
func (l *Lab) Deployment(tb testing.TB, ns, name string, replicas int32, mutate ...func(*appsv1.Deployment)) *appsv1.Deployment {
	tb.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels(name)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: Labels(name)},
			Template: template(tb, name),
		},
	}
	apply(d, mutate)
	d, err := l.client.AppsV1().Deployments(ns).Create(tb.Context(), d, metav1.CreateOptions{})
	check(tb, "creating deployment", err)
	return d
}

// StatefulSet creates a StatefulSet without volumes. Its service name is its own; no service is made.
func (l *Lab) StatefulSet(tb testing.TB, ns, name string, replicas int32, mutate ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	tb.Helper()
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels(name)},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: Labels(name)},
			Template:    template(tb, name),
		},
	}
	apply(s, mutate)
	s, err := l.client.AppsV1().StatefulSets(ns).Create(tb.Context(), s, metav1.CreateOptions{})
	check(tb, "creating statefulset", err)
	return s
}

// MemberService gives a pod of a StatefulSet an address that stays when its pod moves, also before it is ready: members have to find each other to become that.
func (l *Lab) MemberService(tb testing.TB, ns, pod string, ports ...corev1.ServicePort) (address string) {
	tb.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{appsv1.StatefulSetPodNameLabel: pod}, Ports: ports, PublishNotReadyAddresses: true,
		},
	}
	service, err := l.client.CoreV1().Services(ns).Create(tb.Context(), service, metav1.CreateOptions{})
	check(tb, "creating Service", err)
	return service.Spec.ClusterIP
}

// DaemonSet creates a DaemonSet, which runs on the test's own nodes, unlike a real one also only on those.
func (l *Lab) DaemonSet(tb testing.TB, ns, name string, mutate ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	tb.Helper()
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels(name)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: Labels(name)},
			Template: template(tb, name),
		},
	}
	apply(d, mutate)
	d, err := l.client.AppsV1().DaemonSets(ns).Create(tb.Context(), d, metav1.CreateOptions{})
	check(tb, "creating daemonset", err)
	return d
}

// Pod creates a bare pod.
func (l *Lab) Pod(tb testing.TB, ns, name string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	tb.Helper()
	from := template(tb, name)
	p := &corev1.Pod{ObjectMeta: from.ObjectMeta, Spec: from.Spec}
	p.Name = name
	apply(p, mutate)
	p, err := l.client.CoreV1().Pods(ns).Create(tb.Context(), p, metav1.CreateOptions{})
	check(tb, "creating pod", err)
	return p
}

// MaxUnavailable makes a budget for the pods of the workload of that name, by count ("1") or percentage ("25%").
func (l *Lab) MaxUnavailable(tb testing.TB, ns, name, most string, mutate ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	tb.Helper()
	amount := intstr.Parse(most)
	return l.budget(tb, ns, name, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &amount}, mutate)
}

// MinAvailable makes a budget for the pods of the workload of that name, by count ("1") or percentage ("25%").
func (l *Lab) MinAvailable(tb testing.TB, ns, name, least string, mutate ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	tb.Helper()
	amount := intstr.Parse(least)
	return l.budget(tb, ns, name, policyv1.PodDisruptionBudgetSpec{MinAvailable: &amount}, mutate)
}

func (l *Lab) budget(tb testing.TB, ns, name string, spec policyv1.PodDisruptionBudgetSpec, mutate []func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	tb.Helper()
	spec.Selector = &metav1.LabelSelector{MatchLabels: Labels(name)}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	apply(b, mutate)
	b, err := l.client.PolicyV1().PodDisruptionBudgets(ns).Create(tb.Context(), b, metav1.CreateOptions{})
	check(tb, "creating budget", err)
	return b
}

// WaitBudget waits until the disruption controller has counted at least healthy pods for the budget.
func (l *Lab) WaitBudget(tb testing.TB, ns, name string, healthy int32) {
	tb.Helper()
	WaitFor(tb, l.Budgets(ns), "budget "+name+" to count its healthy pods", func(all []*policyv1.PodDisruptionBudget) bool {
		for _, b := range all {
			if b.Name == name {
				return b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy >= healthy
			}
		}
		return false
	})
}

func template(tb testing.TB, name string) corev1.PodTemplateSpec {
	tb.Helper()
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(name)},
		Spec: corev1.PodSpec{
			NodeSelector: NodeSelector(tb),
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "lab.usher.sh/none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("10m"),
					corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
		},
	}
}

func apply[T any](object *T, mutate []func(*T)) {
	for _, m := range mutate {
		m(object)
	}
}

func check(tb testing.TB, doing string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", doing, err)
	}
}
