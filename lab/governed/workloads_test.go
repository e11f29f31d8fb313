package governed

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/install"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/testlab"
)

// Plain workloads under plain kubectl drain, with exactly the rights of usher install --workloads.
func TestPlainWorkloads(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 2)
	t.Run("without the rights it says so", h.saysWhichRightsAreMissing)
	h.grantWorkloads(t)
	for name, test := range map[string]func(*testing.T){
		"a single replica, with a policy and without": h.surgesASingleReplica,
		"a withdrawn drain":                           h.takesASurgeBack,
		"an autoscaler at its bounds":                 h.staysWithinAnAutoscaler,
		"a StatefulSet":                               h.surgesAStatefulSet,
		"no room for a replacement":                   h.saysThatNoNodeTakesAReplacement,
		"a kind of its own, as a ServiceAccount":      h.surgesACustomKindAsAServiceAccount,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// grantWorkloads applies what usher install --workloads has beside usher install.
func (h *house) grantWorkloads(t *testing.T) {
	t.Helper()
	store, err := client.NewWithWatch(h.lab.RESTConfig(), client.Options{Scheme: runtime.NewScheme()})
	must(t, err)
	all, err := install.Objects(install.Options{Workloads: true})
	must(t, err)
	without, err := install.Objects(install.Options{})
	must(t, err)
	added := slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(without, func(other *unstructured.Unstructured) bool { return install.Ref(other) == install.Ref(o) })
	})
	must(t, install.Cluster{Client: store, Out: io.Discard}.Apply(t.Context(), added, false))
}

// plain makes a policy over the pods of the workload web.
func (h *house) plain(t *testing.T, namespace string, n int, change ...func(*v1alpha1.EvictionPolicy)) {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain"},
		Spec: v1alpha1.EvictionPolicySpec{
			System:   v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: 2 * time.Second}, Timeout: metav1.Duration{Duration: 20 * time.Second}},
			Members: []v1alpha1.MemberSelector{{
				Role: "workload", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("web")},
				Deletes: v1alpha1.DeleteAllow, OwnerDeletes: v1alpha1.DeleteAllow,
			}},
		},
	}
	for _, f := range change {
		f(policy)
	}
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	if n > 0 {
		h.waitGoverned(t, namespace, "plain", n)
	}
}

// onNodes keeps pods on nodes of a test's own.
func onNodes(names []string) corev1.Affinity {
	own := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}
	return corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{own}}},
	}}}
}

// lone starts a Deployment of one replica under a budget that never lets it go, with as many nodes to be on, and returns its node.
func (h *house) lone(t *testing.T, namespace string, nodes int) (node string) {
	t.Helper()
	affinity := onNodes(h.lab.Nodes(t, nodes))
	h.lab.Deployment(t, namespace, "web", 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Affinity = &affinity
		d.Spec.Template.Annotations = map[string]string{"pod-ready.stage.kwok.x-k8s.io/delay": "500ms"}
	})
	h.lab.MinAvailable(t, namespace, "web", "1")
	pods := h.lab.WaitReady(t, namespace, testlab.Labels("web"), 1)
	h.lab.WaitBudget(t, namespace, "web", 1)
	return pods[0].Spec.NodeName
}

func (h *house) saysWhichRightsAreMissing(t *testing.T) {
	t.Helper()
	namespace := h.lab.Namespace(t)
	h.lone(t, namespace, 1)
	h.plain(t, namespace, 0)
	h.waitPolicy(t, namespace, "plain", "the policy to say which rights are missing", func(p *v1alpha1.EvictionPolicy) bool {
		return strings.Contains(p.Status.System.Error, "usher install --workloads")
	})
}

// With the policy the drain ends, and the Deployment never has less than its replica; without it the same drain never ends.
func (h *house) surgesASingleReplica(t *testing.T) {
	t.Helper()
	with, without := h.lab.Namespace(t), h.lab.Namespace(t)
	node, other := h.lone(t, with, 2), h.lone(t, without, 2)
	h.plain(t, with, 1)
	least := h.leastReady(t, with)

	plainly := h.kubectl(t, "drain", other, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=20s")
	began := time.Now()
	h.drain(t, node).succeed(t)
	took := time.Since(began)
	h.waitReplicas(t, with, 1)
	h.waitPolicy(t, with, "plain", "everything to be settled", settled)
	pods := h.lab.WaitReady(t, with, testlab.Labels("web"), 1)
	if pods[0].Spec.NodeName == node {
		t.Errorf("the replica is still on node %s", node)
	}
	if n := least(); n != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", n)
	}
	if out := plainly.fail(t); !strings.Contains(out, "disruption budget") {
		t.Errorf("without a policy kubectl says\n%s", out)
	}
	t.Logf("kubectl drain, single replicas: policy %.1f s, without: never (20 s)", took.Seconds())
}

// Who gives the drain up leaves nothing: the request expires, or is deleted, and the Deployment is scaled back.
func (h *house) takesASurgeBack(t *testing.T) {
	t.Helper()
	namespace := h.lab.Namespace(t)
	node := h.lone(t, namespace, 1)
	h.plain(t, namespace, 1)
	drain := h.drain(t, node)
	h.waitReplicas(t, namespace, 2)
	drain.abort(t)
	h.kubectl(t, "uncordon", node).succeed(t)
	h.kubectl(t, "delete", "evictionrequests", "--all", "-n", namespace).succeed(t)
	h.waitPolicy(t, namespace, "plain", "everything to be settled", settled)
	h.waitReplicas(t, namespace, 1)
}

// At its maximum an autoscaler's word stands, and the drain says so; with room it is raised for the surge and put back.
func (h *house) staysWithinAnAutoscaler(t *testing.T) {
	t.Helper()
	namespace := h.lab.Namespace(t)
	node := h.lone(t, namespace, 2)
	least := int32(1)
	scalers := h.lab.Client().AutoscalingV2().HorizontalPodAutoscalers(namespace)
	_, err := scalers.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: &least, MaxReplicas: 1,
		},
	}, metav1.CreateOptions{})
	must(t, err)
	h.plain(t, namespace, 1)
	out := h.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=15s").fail(t)
	if !strings.Contains(out, "raise maxReplicas of autoscaler web to 2") && !strings.Contains(out, "autoscaler web allows 1 replicas at most") {
		t.Errorf("kubectl says\n%s", out)
	}
	h.waitReplicas(t, namespace, 1)
	h.kubectl(t, "patch", "hpa", "web", "-n", namespace, "--type=merge", "-p", `{"spec":{"maxReplicas":3}}`).succeed(t)
	h.drain(t, node).succeed(t)
	h.waitPolicy(t, namespace, "plain", "everything to be settled", settled)
	scaler, err := scalers.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	if *scaler.Spec.MinReplicas != 1 || scaler.Annotations[snapshot.SurgeAnnotation] != "" {
		t.Errorf("the autoscaler is left with minReplicas %d and annotations %v", *scaler.Spec.MinReplicas, scaler.Annotations)
	}
	h.waitReplicas(t, namespace, 1)
}

// Where its owner allows it a StatefulSet is scaled up, and back when its first pod is ready again.
func (h *house) surgesAStatefulSet(t *testing.T) {
	t.Helper()
	namespace := h.lab.Namespace(t)
	affinity := onNodes(h.lab.Nodes(t, 2))
	h.lab.StatefulSet(t, namespace, "web", 1, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Affinity = &affinity
		s.Spec.Template.Annotations = map[string]string{"pod-ready.stage.kwok.x-k8s.io/delay": "500ms"}
	})
	h.lab.MinAvailable(t, namespace, "web", "1")
	node := h.lab.WaitReady(t, namespace, testlab.Labels("web"), 1)[0].Spec.NodeName
	h.lab.WaitBudget(t, namespace, "web", 1)
	h.plain(t, namespace, 1, func(p *v1alpha1.EvictionPolicy) { p.Spec.System.Kubernetes.StatefulSets = v1alpha1.StatefulSetsSurge })
	least := h.leastReady(t, namespace)
	h.drain(t, node).succeed(t)
	h.waitPolicy(t, namespace, "plain", "everything to be settled", settled)
	testlab.WaitFor(t, h.lab.Pods(namespace), "web-0 alone, ready elsewhere", func(all []*corev1.Pod) bool {
		return len(all) == 1 && all[0].Name == "web-0" && all[0].Spec.NodeName != node && testlab.PodReady(all[0])
	})
	if n := least(); n != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", n)
	}
}

// A replacement that no node takes is named in the scheduler's words.
func (h *house) saysThatNoNodeTakesAReplacement(t *testing.T) {
	t.Helper()
	namespace := h.lab.Namespace(t)
	node := h.lone(t, namespace, 1)
	h.plain(t, namespace, 1)
	out := h.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=40s").fail(t)
	if !strings.Contains(out, "nodes are available") {
		t.Errorf("kubectl says\n%s", out)
	}
}

// waitReplicas waits until the Deployment web wants so many replicas and, where that is one, has no record.
func (h *house) waitReplicas(t *testing.T, namespace string, n int32) {
	t.Helper()
	eventually(t, "the Deployment to be scaled", func() bool {
		d, err := h.lab.Client().AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		return *d.Spec.Replicas == n && (n > 1 || d.Annotations[snapshot.SurgeAnnotation] == "")
	})
}

// leastReady watches the pods of a namespace, and returns what says how few of them were ready at the lowest since.
func (h *house) leastReady(t *testing.T, namespace string) func() int {
	t.Helper()
	all, err := h.lab.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	ready := map[string]bool{}
	for i := range all.Items {
		ready[string(all.Items[i].UID)] = testlab.PodReady(&all.Items[i])
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched, err := h.lab.Client().CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: all.ResourceVersion})
	must(t, err)
	least := make(chan int, 1)
	go func() { least <- lowest(watched.ResultChan(), ready) }()
	return func() int {
		cancel()
		watched.Stop()
		return <-least
	}
}

func lowest(events <-chan watch.Event, ready map[string]bool) int {
	least := len(ready)
	for event := range events {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		ready[string(pod.UID)] = event.Type != watch.Deleted && pod.DeletionTimestamp == nil && testlab.PodReady(pod)
		n := 0
		for _, is := range ready {
			if is {
				n++
			}
		}
		least = min(least, n)
	}
	return least
}
