package observe

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/lifecycle/client"
	"usher.sh/usher/internal/snapshot"
)

// Traces reports whether drains, that run or were killed, have left something anywhere: a surge of a Deployment or an autoscaler, a
// lowered deletion cost, an EvictionRequest. It finds these by their labels, with one small request each. What may not be read, or is not
// served, has no traces that the user could undo.
func (l *Look) Traces(ctx context.Context, of *client.Client) (bool, error) {
	const everywhere = metav1.NamespaceAll
	some := false
	reads := []struct {
		resource resource
		read     request
	}{
		{deployments, firstLabelled[*appsv1.Deployment](l, l.client.AppsV1().Deployments(everywhere).List, snapshot.SurgeLabel, &some)},
		{autoscalers, firstLabelled[*autoscalingv2.HorizontalPodAutoscaler](l, l.client.AutoscalingV2().HorizontalPodAutoscalers(everywhere).List, snapshot.SurgeLabel, &some)},
		{pods, firstLabelled[*corev1.Pod](l, l.client.CoreV1().Pods(everywhere).List, snapshot.SurgeLabel, &some)},
	}
	if of != nil {
		reads = append(reads, struct {
			resource resource
			read     request
		}{evictionRequests, firstLabelled[*api.EvictionRequest](l, of.Requests(everywhere).List, snapshot.DrainLabel, &some)})
	}
	for _, r := range reads {
		if err := l.once(ctx, "traces on "+r.resource.name, r.read); err != nil && !isAnswer(err) {
			return false, Explained("reading "+r.resource.String(), err)
		}
	}
	return some, nil
}

// firstLabelled makes a request that notes whether an object has a label.
func firstLabelled[O, L runtime.Object](l *Look, by func(context.Context, metav1.ListOptions) (L, error), label string, some *bool) request {
	return list(l, by, metav1.ListOptions{LabelSelector: label}, func(O) { *some = true })
}

// NodesNamed reads the nodes of these names. That there is none of a name is no error.
func (l *Look) NodesNamed(ctx context.Context, names []string) error {
	for _, name := range names {
		err := l.need(ctx, nodes, "", name, get(l.client.CoreV1().Nodes().Get, name, l.setNode))
		if err != nil && (!apierrors.IsNotFound(err) || unserved(err)) {
			return err
		}
	}
	return nil
}

// Nodes reads the nodes that a selector selects.
func (l *Look) Nodes(ctx context.Context, selector labels.Selector) error {
	return l.need(ctx, nodes, "", selector.String(), list(l, l.client.CoreV1().Nodes().List, metav1.ListOptions{LabelSelector: selector.String()}, l.setNode))
}
