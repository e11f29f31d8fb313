package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/record"
	"usher.sh/usher/internal/nodepressure/summary"
	"usher.sh/usher/internal/observe"
)

// thresholds are a node's, and how they came to be known.
type thresholds struct {
	config nodepressure.Config
	from   record.Source
	note   string
}

// askThresholds asks the kubelet. Reading its configuration is a right of its own in some clusters: without it the
// defaults are better than no answer, as long as it is said.
func askThresholds(ctx context.Context, conn *connection, node string) thresholds {
	config, err := observe.ReadThresholds(ctx, conn.client, node)
	if err != nil {
		return thresholds{
			config: nodepressure.Default(), from: record.FromDefaults,
			note: fmt.Sprintf("the thresholds are the defaults of Kubernetes 1.37, the kubelet's own may be others: its configuration could not be read: %v", err),
		}
	}
	return thresholds{config: config, from: record.FromKubelet}
}

// reader reads what a node has and what uses it.
type reader func(context.Context) (observe.NodeUse, error)

// readNode looks at a node.
func readNode(ctx context.Context, conn *connection, name string, limits thresholds, read reader) (record.Record, error) {
	use, err := read(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return record.Record{}, exitWith(exitInterrupted)
	case apierrors.IsNotFound(err):
		return record.Record{}, noSuchNode(ctx, conn.client, name, err)
	case err != nil:
		return record.Record{}, err
	}
	seen := record.New(conn.clock.Now(), use.Summary.Node(use.Node), use.Summary.Pods(use.Pods))
	seen.Config, seen.ConfigFrom, seen.Reported = limits.config, limits.from, reported(use.Node)
	if limits.note != "" {
		seen.Notes = append(seen.Notes, limits.note)
	}
	return seen, nil
}

// reported are the conditions of pressure that a node reports.
func reported(node *corev1.Node) []record.Condition {
	known := []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}
	var found []record.Condition
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(known, c.Type) {
			found = append(found, record.Condition{Type: c.Type, Since: c.LastTransitionTime.Time})
		}
	}
	return found
}

// noSuchNode names similar ones where nodes may be listed.
func noSuchNode(ctx context.Context, client kubernetes.Interface, name string, err error) error {
	all, listErr := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if listErr != nil {
		return err
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	if near := nearest(name, names); len(near) > 0 {
		return fmt.Errorf("the cluster has no node %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return fmt.Errorf("the cluster has no node %q (it has %d nodes)", name, len(names))
}

// readFile reads what -f names.
func (o *pressureOptions) readFile() (record.Record, error) {
	name, in := o.file, o.In
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name) //nolint:gosec // the file that the caller named
		if err != nil {
			return record.Record{}, fmt.Errorf("reading the file: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return record.Record{}, fmt.Errorf("reading %s: %w", name, err)
	}
	seen, err := understand(text)
	switch {
	case err != nil:
		return record.Record{}, fmt.Errorf("%s: %w", name, err)
	case o.node != "" && o.node != seen.Node.Name:
		return record.Record{}, fmt.Errorf("%s is about node %q, not about %s", name, seen.Node.Name, o.node)
	}
	return seen, nil
}

// understand reads a record or a bare summary.
func understand(text []byte) (record.Record, error) {
	if record.Is(text) {
		return record.Parse(text)
	}
	measured, err := summary.Parse(text)
	if err != nil {
		return record.Record{}, err
	}
	seen := record.New(measured.At(), measured.Node(nil), measured.Measured())
	seen.Notes = []string{
		"a summary says nothing of requests, priorities, QoS classes and exemptions: every pod counts as one without requests, so the order is that of use alone",
		"the thresholds are the defaults of Kubernetes 1.37, the kubelet's own may be others: a summary does not name them",
	}
	return seen, nil
}
