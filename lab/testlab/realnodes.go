package testlab

import (
	"context"
	"fmt"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
)

// RealNodes starts n real nodes, dealt out over the zones in turn, waits until pods can run on them, and ends them
// after the test. Where the machine cannot run any, the test is skipped, with what is missing.
func (l *Lab) RealNodes(t testing.TB, n int, zones ...string) []*realnode.Node {
	t.Helper()
	return l.StartRealNodes(t, join.Options{Count: n, Zones: zones})
}

// StartRealNodes is RealNodes with all options; names and the label that NodeSelector selects are filled in.
func (l *Lab) StartRealNodes(t testing.TB, o join.Options) []*realnode.Node {
	t.Helper()
	if err := realnode.Preflight(l.cluster.Cache); err != nil {
		t.Skipf("SKIPPED, nothing was tested: %v", err)
	}
	o.Prefix = fmt.Sprintf("%s-real-%s", scope(t), unique())
	labels := map[string]string{TestLabel: scope(t)}
	maps.Copy(labels, o.Labels)
	o.Labels = labels
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	started, err := join.Nodes(ctx, l.cluster, l.client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.stopRealNodes(t, started) })
	return started
}

func (l *Lab) stopRealNodes(t testing.TB, list []*realnode.Node) {
	ctx := context.WithoutCancel(t.Context())
	for _, n := range list {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		if err := l.client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting node: %v", err)
		}
	}
}
