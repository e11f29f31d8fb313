package join_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestFurtherProgram runs etcd in a pod: any static program can be put into the image.
func TestFurtherProgram(t *testing.T) {
	l := testlab.Get(t)
	etcd := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	l.StartRealNodes(t, join.Options{Count: 1, Files: []image.File{etcd}})
	ns := l.Namespace(t)

	pod := realPod(t, "etcd")
	pod.Labels = map[string]string{"app": "etcd"}
	container := &pod.Spec.Containers[0]
	container.Command = []string{
		"/etcd", "--data-dir=/tmp/etcd", "--listen-client-urls=http://0.0.0.0:8080", "--advertise-client-urls=http://127.0.0.1:8080",
	}
	container.ReadinessProbe.HTTPGet.Path = "/health"
	if _, err := l.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := l.WaitReady(t, ns, pod.Labels, 1)[0]
	if got := get(t, ready, "/version"); !strings.Contains(got, "etcdserver") {
		t.Errorf("etcd's version is %q", got)
	}
}
