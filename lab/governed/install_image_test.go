package governed

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestInstallFromImage installs, with the image that `make image` writes loaded on real nodes and no registry anywhere, and
// has a pod that is governed refused by the managers' pods.
func TestInstallFromImage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	const name = "localhost/usher:lab"
	l := testlab.Start(t)
	archive := filepath.Join(t.TempDir(), "usher-image.tar")
	must(t, image.Usher{Name: name}.Write(t.Context(), archive))
	l.StartRealNodes(t, join.Options{Count: 1, Images: []string{archive}})
	l.ServeServices(t)
	usher := func(args ...string) string {
		t.Helper()
		r := run(t, l.Usher(t), append(args, "--kubeconfig", l.Kubeconfig())...)
		if r.code != 0 {
			t.Fatalf("usher %s: exit code %d:\n%s", strings.Join(args, " "), r.code, r.out)
		}
		return r.out
	}
	usher("install", "--agent", "--image", name)
	for _, ns := range []string{"usher-system", "usher-system-agent"} {
		pods, err := l.Client().CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, pod := range pods.Items {
			if c := pod.Status.ContainerStatuses; len(c) != 1 || c[0].Image != name || !c[0].Ready {
				t.Errorf("%s: containers %+v, want one of %s that is ready", pod.Name, c, name)
			}
		}
	}

	h := emptyHouse(t, l)
	ns := l.Namespace(t)
	pod := testlab.RealPod(t)
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // the agent may find the machine's disk full
	created, err := l.Client().CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: ns, Labels: testlab.Labels("db")}, Spec: pod,
	}, metav1.CreateOptions{})
	must(t, err)
	testlab.WaitFor(t, l.Pods(ns), "the pod to be bound: one without a node may be deleted", func(pods []*corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName != ""
	})
	policy := examplePolicy(ns, "db")
	must(t, h.client.Create(t.Context(), policy)) // the managers have checked it
	t.Cleanup(func() { release(t, l, h.client, policy) })
	h.waitLabelled(t, ns, policy.Name, 1)
	err = l.Client().CoreV1().Pods(ns).Delete(t.Context(), created.Name, metav1.DeleteOptions{})
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), v1alpha1.GroupVersion.Group) {
		t.Errorf("deleting a governed pod: got %v, want a refusal by usher", err)
	}
	release(t, l, h.client, policy)
	usher("uninstall")
}
