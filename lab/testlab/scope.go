package testlab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/nodes"
)

// TestLabel is on the nodes that Nodes makes and in the node selectors of the pods that the helpers make, so that
// the pods of a test run on the nodes of that test and on no others.
const TestLabel = "lab.usher.sh/test"

// scope is a short name for the test that t belongs to; subtests share the nodes of their parent.
func scope(t testing.TB) string {
	name := t.Name()
	for i := range name {
		if name[i] == '/' {
			name = name[:i]
			break
		}
	}
	sum := sha256.Sum256([]byte(name))
	return "t" + hex.EncodeToString(sum[:])[:6]
}

// NodeSelector selects the nodes that Nodes made for this test and its subtests.
func NodeSelector(t testing.TB) map[string]string { return map[string]string{TestLabel: scope(t)} }

// Namespace makes a namespace in which pods can be created, and deletes it with all that is in it after the test.
func (l *Lab) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: scope(t) + "-"}}
	ns, err := l.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating namespace: %v", err)
	}
	t.Cleanup(func() { l.deleteNamespace(t, ns.Name) })
	accounts := await.Source[*corev1.ServiceAccount]{
		Client: l.client.CoreV1().RESTClient(), Resource: "serviceaccounts", Namespace: ns.Name,
	}
	// The apiserver refuses pods until the controller-manager has made their service account.
	WaitFor(t, accounts, "the default service account of "+ns.Name, func(all []*corev1.ServiceAccount) bool {
		return len(all) > 0
	})
	return ns.Name
}

// deleteNamespace ends the pods without grace, because nobody looks at them any more.
func (l *Lab) deleteNamespace(t testing.TB, name string) {
	ctx := context.WithoutCancel(t.Context())
	if err := l.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Logf("deleting namespace: %v", err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := l.client.CoreV1().Pods(name).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Logf("deleting the pods of namespace %s: %v", name, err)
	}
}

// Nodes makes n simulated nodes, dealt out over the zones in turn, waits until pods can run on them, and deletes them
// after the test. It may be called more than once.
func (l *Lab) Nodes(t testing.TB, n int, zones ...string) []string {
	t.Helper()
	list := nodes.Objects(fmt.Sprintf("%s-%s", scope(t), unique()), n, zones...)
	names := make([]string, n)
	for i, node := range list {
		names[i] = node.Name
		node.Labels[TestLabel] = scope(t)
	}
	t.Cleanup(func() { l.deleteNodes(t, names) })
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if err := l.nodes.Create(ctx, l.client, list); err != nil {
		t.Fatal(err)
	}
	return names
}

func (l *Lab) deleteNodes(t testing.TB, names []string) {
	ctx := context.WithoutCancel(t.Context())
	for _, name := range names {
		if err := l.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting node: %v", err)
		}
	}
}
