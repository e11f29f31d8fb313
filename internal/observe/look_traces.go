package observe

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// Traces reports whether drains, that run or were killed, have left something anywhere: a surge of a Deployment or an autoscaler, a
// lowered deletion cost, an EvictionRequest. It finds these by their labels, with one small request each. Unread are the resources on which
// it could not look.
func (l *Look) Traces(ctx context.Context, of *client.Client) (some bool, unread []string, err error) {
	const everywhere = metav1.NamespaceAll
	reads := []labelled{
		{deployments, first(l.client.AppsV1().Deployments(everywhere).List, snapshot.SurgeLabel)},
		{autoscalers, first(l.client.AutoscalingV2().HorizontalPodAutoscalers(everywhere).List, snapshot.SurgeLabel)},
		{pods, first(l.client.CoreV1().Pods(everywhere).List, snapshot.SurgeLabel)},
	}
	if of != nil {
		reads = append(reads, labelled{evictionRequests, first(of.Requests(everywhere).List, snapshot.DrainLabel)})
	}
	for _, r := range reads {
		err := l.once(ctx, r.resource, "labelled", func(ctx context.Context) error { return retried(ctx, func() error { return r.first(ctx, &some) }) })
		switch {
		case err != nil && !isAnswer(err):
			return some, unread, err
		case err != nil && !apierrors.IsNotFound(err):
			unread = append(unread, r.resource.String())
		}
	}
	return some, unread, nil
}

// labelled looks whether an object of a resource has a label.
type labelled struct {
	resource resource
	first    func(ctx context.Context, some *bool) error
}

func first[L runtime.Object](by func(context.Context, metav1.ListOptions) (L, error), label string) func(context.Context, *bool) error {
	return func(ctx context.Context, some *bool) error {
		found, err := by(ctx, metav1.ListOptions{LabelSelector: label, Limit: 1})
		if err == nil {
			*some = *some || meta.LenList(found) > 0
		}
		return err
	}
}
