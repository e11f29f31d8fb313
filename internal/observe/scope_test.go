package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/internal/snapshot"
)

// What is read is what pods on the nodes need, and what drains may have left anywhere.
func TestOnlyWhatPodsNeedIsRead(t *testing.T) {
	basic := []string{
		"nodes metadata.name=a", "nodes usher.sh/drain", "pods spec.nodeName=a", "pods usher.sh/surge",
		"deployments.apps usher.sh/surge", "horizontalpodautoscalers.autoscaling usher.sh/surge", "leases.coordination.k8s.io kube-public/ usher.sh/drain",
	}
	beside := func(more ...string) []string {
		all := slices.Concat(basic, []string{"poddisruptionbudgets.policy shop/"}, more)
		return slices.DeleteFunc(all, func(q string) bool { // what all nodes show needs no other feed
			return strings.HasPrefix(q, "nodes ") && slices.Contains(more, "nodes")
		})
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	named := metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "o"}
	deployment := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d", Controller: new(true)}
	labelled := podOwnedBy("p", "a", "apps/v1", "ReplicaSet")
	labelled.Labels = map[string]string{"app": "web"}
	elsewhere := podOwnedBy("p", "b", "apps/v1", "ReplicaSet", "data")
	elsewhere.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	noPlace := []string{"nodes"}
	ofReplicaSet := slices.Concat(noPlace, []string{"horizontalpodautoscalers.autoscaling shop/", "replicasets.apps shop/ metadata.name=o"})
	many := []runtime.Object{}
	for i := range 9 {
		pod := podOwnedBy(fmt.Sprintf("p-%d", i), "a", "batch/v1", "Job")
		pod.OwnerReferences[0].Name = pod.Name
		many = append(many, pod)
	}
	cases := map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"no pod":     {nil, basic},
		"a bare pod": {[]runtime.Object{podOwnedBy("p", "a", "", "")}, beside()},
		"a ReplicaSet that is gone": {
			[]runtime.Object{podOwnedBy("p", "a", "apps/v1", "ReplicaSet")}, beside(ofReplicaSet...),
		},
		"a Deployment, and a budget": {
			[]runtime.Object{
				labelled, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "o", OwnerReferences: []metav1.OwnerReference{deployment}}},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d", UID: "d"}, Spec: appsv1.DeploymentSpec{Selector: selector}},
				&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b", UID: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
					Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
				}},
			},
			beside(slices.Concat(ofReplicaSet, []string{"deployments.apps shop/ metadata.name=d", "pods shop/ app=web", "pods shop/ app"})...),
		},
		"a StatefulSet with a claim": {
			[]runtime.Object{podOwnedBy("p", "a", "apps/v1", "StatefulSet", "data"), &appsv1.StatefulSet{ObjectMeta: named, Spec: appsv1.StatefulSetSpec{Selector: selector}}},
			beside(slices.Concat(noPlace, []string{
				"statefulsets.apps shop/ metadata.name=o", "pods shop/ app=web", "persistentvolumeclaims shop/ metadata.name=data", "volumeattachments.storage.k8s.io",
			})...),
		},
		"a DaemonSet": {
			[]runtime.Object{podOwnedBy("p", "a", "apps/v1", "DaemonSet"), &appsv1.DaemonSet{ObjectMeta: named, Spec: appsv1.DaemonSetSpec{Selector: selector}}},
			beside("daemonsets.apps shop/ metadata.name=o"),
		},
		"a ReplicationController": {
			[]runtime.Object{podOwnedBy("p", "a", "v1", "ReplicationController"), &corev1.ReplicationController{ObjectMeta: named, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels}}},
			beside(slices.Concat(noPlace, []string{"replicationcontrollers shop/ metadata.name=o", "pods shop/ app=web"})...),
		},
		"a Job": {
			[]runtime.Object{podOwnedBy("p", "a", "batch/v1", "Job"), &batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Selector: selector}}},
			beside("jobs.batch shop/ metadata.name=o", "pods shop/ app=web"),
		},
		"a selector that is too long to be sent": {
			[]runtime.Object{podOwnedBy("p", "a", "batch/v1", "Job"), &batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: strings.Split(strings.Repeat("some-value,", 1000)+"x", ",")}},
			}}}},
			beside("jobs.batch shop/ metadata.name=o", "pods shop/"),
		},
		"many Jobs of one namespace": {many, beside("jobs.batch shop/")},
		"a kind of another API":      {[]runtime.Object{podOwnedBy("p", "a", "example.com/v1", "ReplicaSet")}, beside()},
		"under the budget of a pod, not ready": {
			[]runtime.Object{
				podOwnedBy("p", "a", "", ""), podOwnedBy("q", "b", "batch/v1", "Job"),
				&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b", UID: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}},
			},
			beside("pods shop/", "nodes metadata.name=b", "jobs.batch shop/ metadata.name=o"),
		},
		"none, beside an autoscaler whose minimum a drain has raised": {
			[]runtime.Object{
				&autoscalingv2.HorizontalPodAutoscaler{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "shop", Name: "h", UID: "h", Labels: map[string]string{snapshot.SurgeLabel: "x"},
						Annotations: map[string]string{snapshot.SurgeAnnotation: `{"id":"x","by":"x@host","was":1,"to":2}`},
					},
					Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}},
				},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d", UID: "d"}, Spec: appsv1.DeploymentSpec{Selector: selector}},
			},
			beside("deployments.apps shop/ metadata.name=d", "horizontalpodautoscalers.autoscaling shop/", "pods shop/ app=web"),
		},
		"on another node":            {[]runtime.Object{elsewhere}, basic},
		"on another node, not ready": {[]runtime.Object{podOwnedBy("p", "b", "apps/v1", "ReplicaSet", "data")}, basic},
		"on no node yet":             {[]runtime.Object{podOwnedBy("p", "", "apps/v1", "ReplicaSet", "data")}, basic},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := Start(t.Context(), fake.NewClientset(c.objects...), Options{Nodes: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			o.Stop()
			want := slices.Sorted(slices.Values(c.want))
			if diff := cmp.Diff(want, questions(o)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// questions are what an observer's feeds read.
func questions(o *Observer) []string {
	var all []string
	for q := range o.feeds {
		text := q.resource.String()
		if q.sample > 0 {
			text += fmt.Sprintf(" sample %d", q.sample)
		}
		if q.namespace != "" {
			text += " " + q.namespace + "/"
		}
		for _, selector := range []string{q.fields, q.labels} {
			if selector != "" {
				text += " " + selector
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}
