package testlab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
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
func scope(tb testing.TB) string {
	tb.Helper()
	name := tb.Name()
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
func NodeSelector(tb testing.TB) map[string]string {
	tb.Helper()
	return map[string]string{TestLabel: scope(tb)}
}

// Namespace makes a namespace in which pods can be created, and deletes it with all that is in it after the test.
func (l *Lab) Namespace(tb testing.TB) string {
	tb.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: scope(tb) + "-"}}
	ns, err := l.client.CoreV1().Namespaces().Create(tb.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("creating namespace: %v", err)
	}
	tb.Cleanup(func() { l.deleteNamespace(tb, ns.Name) })
	accounts := await.Source[*corev1.ServiceAccount]{
		Client: l.client.CoreV1().RESTClient(), Resource: "serviceaccounts", Namespace: ns.Name,
	}
	// The apiserver refuses pods until the controller-manager has made their service account.
	WaitFor(tb, accounts, "the default service account of "+ns.Name, func(all []*corev1.ServiceAccount) bool {
		return len(all) > 0
	})
	return ns.Name
}

// deleteNamespace ends the pods without grace, because no test reads them any more.
func (l *Lab) deleteNamespace(tb testing.TB, name string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	if err := l.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		tb.Logf("deleting namespace: %v", err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := l.client.CoreV1().Pods(name).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		tb.Logf("deleting the pods of namespace %s: %v", name, err)
	}
}

// Nodes makes n simulated nodes, dealt out over the zones in turn, waits until pods can run on them, and deletes them
// after the test. It may be called more than once.
func (l *Lab) Nodes(tb testing.TB, n int, zones ...string) []string {
	tb.Helper()
	return l.createNodes(tb, nodes.Objects(fmt.Sprintf("%s-%s", scope(tb), unique()), n, zones...))
}

// NamedNodes is Nodes for names that something else goes by. The lab is to be the test's own.
func (l *Lab) NamedNodes(tb testing.TB, names ...string) {
	tb.Helper()
	list := make([]*corev1.Node, len(names))
	for i, name := range names {
		list[i] = nodes.Object(name, "")
	}
	l.createNodes(tb, list)
}

func (l *Lab) createNodes(tb testing.TB, list []*corev1.Node) []string {
	tb.Helper()
	names := make([]string, len(list))
	for i, node := range list {
		names[i] = node.Name
		node.Labels[TestLabel] = scope(tb)
	}
	tb.Cleanup(func() { l.deleteNodes(tb, names) })
	ctx, cancel := context.WithTimeout(tb.Context(), waitTimeout)
	defer cancel()
	if err := l.nodes.Create(ctx, l.client, list); err != nil {
		tb.Fatal(err)
	}
	return names
}

func (l *Lab) deleteNodes(tb testing.TB, names []string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	for _, name := range names {
		if err := l.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			tb.Logf("deleting node: %v", err)
		}
	}
}

var counter atomic.Int64

// unique returns a short text that no other call in this binary returns.
func unique() string { return strconv.FormatInt(counter.Add(1), 36) }
