package observe

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/snapshot"
)

// workloadKind reads workloads of one kind.
type workloadKind struct {
	resource resource
	get      func(l *Look, namespace, name string, selector func(*metav1.LabelSelector)) request // selector may be nil
	list     func(l *Look, namespace string) request
}

// workloadKinds are those whose pods decisions tell apart, by kind in small letters. Of a CronJob only its Jobs are of use.
var workloadKinds = map[string]workloadKind{
	"replicaset": workloads(replicaSets, replicaSetFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*appsv1.ReplicaSetList] {
			return c.AppsV1().ReplicaSets(namespace)
		},
		func(r *appsv1.ReplicaSet) *metav1.LabelSelector { return r.Spec.Selector }),
	"deployment": workloads(deployments, DeploymentFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*appsv1.DeploymentList] {
			return c.AppsV1().Deployments(namespace)
		},
		func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }),
	"statefulset": workloads(statefulSets, statefulSetFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*appsv1.StatefulSetList] {
			return c.AppsV1().StatefulSets(namespace)
		},
		func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector }),
	"daemonset": workloads(daemonSets, daemonSetFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*appsv1.DaemonSetList] {
			return c.AppsV1().DaemonSets(namespace)
		},
		func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector }),
	"job": workloads(jobs, jobFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*batchv1.JobList] {
			return c.BatchV1().Jobs(namespace)
		},
		func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }),
	"replicationcontroller": workloads(controllers, replicationControllerFacts,
		func(c kubernetes.Interface, namespace string) workloadAPI[*corev1.ReplicationControllerList] {
			return c.CoreV1().ReplicationControllers(namespace)
		},
		func(r *corev1.ReplicationController) *metav1.LabelSelector {
			return &metav1.LabelSelector{MatchLabels: r.Spec.Selector}
		}),
}

// workloadAPI is the part of a typed client that reads workloads.
type workloadAPI[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
}

func workloads[O, L runtime.Object](
	r resource, facts func(O) *snapshot.Workload, api func(kubernetes.Interface, string) workloadAPI[L], selectorOf func(O) *metav1.LabelSelector,
) workloadKind {
	return workloadKind{
		resource: r,
		get: func(l *Look, namespace, name string, selector func(*metav1.LabelSelector)) request {
			return named(l, api(l.client, namespace).List, name, func(object O) {
				l.cluster.SetWorkload(facts(object))
				if selector != nil {
					selector(selectorOf(object))
				}
			})
		},
		list: func(l *Look, namespace string) request {
			return list(l, api(l.client, namespace).List, metav1.ListOptions{}, func(object O) { l.cluster.SetWorkload(facts(object)) })
		},
	}
}

// owners reads the owners of pods, and what those of ReplicaSets and Jobs belong to.
func (l *Look) owners(ctx context.Context, namespace string, subjects []*snapshot.Pod) error {
	owned := make([]snapshot.Owner, 0, len(subjects))
	for _, p := range subjects {
		owned = append(owned, p.Owner)
	}
	if err := l.workloads(ctx, namespace, owned); err != nil {
		return err
	}
	owned = owned[:0]
	for _, p := range subjects {
		if w := l.cluster.WorkloadOf(p.OwnerKey()); w != nil {
			owned = append(owned, w.Owner)
		}
	}
	return l.workloads(ctx, namespace, owned)
}

// workloads reads the workloads that are owners.
func (l *Look) workloads(ctx context.Context, namespace string, owners []snapshot.Owner) error {
	names := map[string][]string{}
	for _, o := range owners {
		kind := strings.ToLower(o.Kind)
		if of, known := workloadKinds[kind]; known && of.resource.group == o.GroupKind().Group {
			names[kind] = append(names[kind], o.Name)
		}
	}
	for kind, of := range workloadKinds {
		err := l.namedOrAll(ctx, of.resource, namespace, names[kind], func(name string) request { return of.get(l, namespace, name, nil) }, of.list(l, namespace))
		if err != nil {
			return err
		}
	}
	return nil
}
