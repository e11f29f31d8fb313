package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// stage is a node to be drained, the namespace of the pods on it, and what happens to them.
type stage struct {
	*testlab.Lab

	node, ns string
	rec      *recorder
	unready  []string // pods that hold made unready
}

// newStage makes a node and a namespace. Pods come with the helpers below.
func newStage(t *testing.T) *stage {
	t.Helper()
	l := testlab.Get(t)
	return &stage{Lab: l, node: l.Nodes(t, 1)[0], ns: l.Namespace(t)}
}

// settled waits until n pods are ready and every budget has counted its pods, then starts the recorder.
func (s *stage) settled(t *testing.T, n int) *stage {
	t.Helper()
	s.WaitReady(t, s.ns, nil, n)
	testlab.WaitFor(t, s.Budgets(s.ns), "all budgets to count their pods", func(all []*policyv1.PodDisruptionBudget) bool {
		return !slices.ContainsFunc(all, func(b *policyv1.PodDisruptionBudget) bool {
			return b.Status.ObservedGeneration != b.Generation || b.Status.CurrentHealthy < b.Status.ExpectedPods || b.Status.ExpectedPods == 0
		})
	})
	s.rec = record(t, s.Lab, s.ns)
	return s
}

// hostOnly keeps pods on one node by their selector, so that they do not start elsewhere.
func hostOnly(spec *corev1.PodSpec, node string) {
	spec.NodeSelector = maps.Clone(spec.NodeSelector)
	spec.NodeSelector[corev1.LabelHostname] = node
}

func deploymentOn(node string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { hostOnly(&d.Spec.Template.Spec, node) }
}

func daemonSetOn(node string) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) { hostOnly(&d.Spec.Template.Spec, node) }
}

func podOn(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

// names returns the names of the pods of a namespace that are on a node, sorted.
func (s *stage) names(t *testing.T) []string {
	t.Helper()
	list, err := s.Client().CoreV1().Pods(s.ns).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.node})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// cordoned reports whether the stage's node is.
func (s *stage) cordoned(t *testing.T) bool {
	t.Helper()
	return nodeNow(t, s.Lab, s.node).Spec.Unschedulable
}

// note returns what usher has written on the node; nil if nothing.
func (s *stage) note(t *testing.T) *snapshot.DrainRecord {
	t.Helper()
	return observe.NodeFacts(nodeNow(t, s.Lab, s.node)).Drain
}

// replicas waits until a Deployment wants n pods and carries no record of a surge.
func (s *stage) replicas(t *testing.T, name string, n int32) {
	t.Helper()
	s.awaitDeployment(t, name, "to be back at its number", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == n && d.Annotations[snapshot.SurgeAnnotation] == "" && d.Labels[snapshot.SurgeLabel] == ""
	})
}

func (s *stage) awaitDeployment(t *testing.T, name, what string, done func(*appsv1.Deployment) bool) {
	t.Helper()
	source := await.Source[*appsv1.Deployment]{Client: s.Client().AppsV1().RESTClient(), Resource: "deployments", Namespace: s.ns}
	testlab.WaitFor(t, source, name+" "+what, func(all []*appsv1.Deployment) bool {
		return slices.ContainsFunc(all, func(d *appsv1.Deployment) bool { return d.Name == name && done(d) })
	})
}

// patchPod merges a patch into a pod of the stage.
func (s *stage) patchPod(t *testing.T, name, patch string) {
	t.Helper()
	_, err := s.Client().CoreV1().Pods(s.ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// pass returns when the clock is past that moment: for what is about the clock itself.
func pass(t *testing.T, moment time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(moment)):
	case <-t.Context().Done():
	}
}

// same fails the test unless two lists are equal.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
