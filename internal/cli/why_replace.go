package cli

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// shownFor is how long a request that is over is shown.
const shownFor = time.Hour

// addReplacements says which ReplacementRequests there are for a pod's member, how far they are and what they wait for. Without the right to read
// them it adds nothing.
func (o *whyOptions) addReplacements(ctx context.Context, answer *show.Why) {
	if !o.replace || o.dump != "" {
		return
	}
	config, err := restConfig(o.config)
	if err != nil {
		return
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return
	}
	requests, err := observe.Replacements{Client: objects, Namespace: answer.Pod.Namespace}.List(ctx)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return
	case err != nil:
		answer.Replacements = []string{"whether a ReplacementRequest stands for it could not be read: " + text.Line(err.Error())}
		return
	}
	for _, q := range requests {
		if !isFor(q, answer) || q.Status.Over() && q.Status.StepTime != nil && answer.Now.Sub(q.Status.StepTime.Time) > shownFor {
			continue
		}
		for _, line := range replacementLines(q) {
			answer.Replacements = append(answer.Replacements, fmt.Sprintf("ReplacementRequest %s of %s: %s", text.Line(q.Name), text.Line(q.Spec.Requester), line))
		}
	}
}

// isFor reports whether a request is for the member of a pod, by the pod's name or by the member's.
func isFor(q *v1alpha1.ReplacementRequest, answer *show.Why) bool {
	verdict := answer.Verdict
	if policy := answer.Pod.Policy(); policy != "" && q.Spec.Source.Name != policy {
		return false
	}
	return q.Status.PodName == answer.Pod.Name || verdict != nil && verdict.Member != "" && q.Spec.Member.ID == verdict.Member && q.Spec.Member.Role == verdict.Role
}
