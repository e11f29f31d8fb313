package observe

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	"usher.sh/usher/internal/snapshot"
)

// CordonsNamed reads of the nodes of these names what is known of their cordons: their metadata, and whether they are schedulable. What they
// report, which on real nodes is most of them, stays unknown. Where the names are many, all nodes are read as they are. That there is none of
// a name is no error.
func (l *Look) CordonsNamed(ctx context.Context, of metadata.Interface, names []string) error {
	if len(names) > maxNamed {
		return l.Nodes(ctx, labels.Everything())
	}
	for _, name := range names {
		if err := l.cordoned(ctx, of, name, true); err != nil {
			return err
		}
		if l.cluster.Node(name) != nil {
			continue
		}
		if err := l.cordoned(ctx, of, name, false); err != nil {
			return err
		}
	}
	return nil
}

// cordoned reads the metadata of the node of a name, if that is cordoned, or if it is not.
func (l *Look) cordoned(ctx context.Context, of metadata.Interface, name string, so bool) error {
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector(metav1.ObjectNameField, name), fields.OneTermEqualSelector("spec.unschedulable", strconv.FormatBool(so)),
	).String()
	api := of.Resource(corev1.SchemeGroupVersion.WithResource(nodes.name))
	return l.need(ctx, nodes, "", selector, list(l, api.List, metav1.ListOptions{FieldSelector: selector},
		func(node *metav1.PartialObjectMetadata) { l.cluster.SetNode(cordonFacts(node, so)) }))
}

// Nodes reads the nodes that a selector selects.
func (l *Look) Nodes(ctx context.Context, selector labels.Selector) error {
	err := l.need(ctx, nodes, "", selector.String(), list(l, l.client.CoreV1().Nodes().List, metav1.ListOptions{LabelSelector: selector.String()}, l.setNode))
	if err == nil && selector.Empty() {
		l.cluster.SetPartial(nodes.name, false)
	}
	return err
}

// nodesOf reads the nodes of pods.
func (l *Look) nodesOf(ctx context.Context, subjects []*snapshot.Pod) error {
	var names []string
	for _, p := range subjects {
		if p.Node != "" {
			names = append(names, p.Node)
		}
	}
	return l.namedOrAll(ctx, nodes, "", names,
		func(name string) request { return named(l, l.client.CoreV1().Nodes().List, name, l.setNode) },
		func(ctx context.Context) error { return l.readNodes(ctx, func() bool { return true }) })
}

// nodesAtOnce is how many nodes are listed at once.
const nodesAtOnce = 50

// NodesUntil reads nodes, 50 at a time, until they are enough or all are read.
func (l *Look) NodesUntil(ctx context.Context, enough func() bool) error {
	return l.want(ctx, nodes, "", "", func(ctx context.Context) error {
		return l.readNodes(ctx, func() bool { return !enough() })
	})
}

// readNodes lists nodes in parts, as long as more are wanted.
func (l *Look) readNodes(ctx context.Context, more func() bool) error {
	options := metav1.ListOptions{Limit: nodesAtOnce}
	for more() {
		var part *corev1.NodeList
		err := retried(ctx, func() (err error) {
			part, err = l.client.CoreV1().Nodes().List(ctx, options)
			return err
		})
		if err != nil {
			return err
		}
		for i := range part.Items {
			l.setNode(&part.Items[i])
		}
		if options.Continue = part.Continue; options.Continue == "" {
			l.cluster.SetPartial(nodes.name, false)
			return nil
		}
	}
	return nil
}
