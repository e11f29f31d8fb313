package testlab

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"usher.sh/usher/lab/await"
)

// waitTimeout bounds every wait of a test: far longer than anything a lab does, so that it ends only what hangs.
const waitTimeout = 5 * time.Minute

// WaitFor waits until done says so about all objects of the source, which it is given sorted by namespace and name
// after every change. It watches. After waitTimeout the test fails with what.
func WaitFor[T await.Object](tb testing.TB, s await.Source[T], what string, done func([]T) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), waitTimeout, fmt.Errorf("not within %s", waitTimeout))
	defer cancel()
	var seen []string
	err := await.Until(ctx, s, func(all []T) bool {
		seen = seen[:0]
		for _, o := range all {
			seen = append(seen, o.GetName())
		}
		return done(all)
	})
	if err != nil {
		tb.Fatalf("waiting for %s: %v; last seen: %v", what, err, seen)
	}
}

// Pods is where the pods of a namespace come from ("" for all).
func (l *Lab) Pods(namespace string) await.Source[*corev1.Pod] {
	return await.Source[*corev1.Pod]{Client: l.client.CoreV1().RESTClient(), Resource: "pods", Namespace: namespace}
}

// AllNodes is where all nodes come from, also those of other tests.
func (l *Lab) AllNodes() await.Source[*corev1.Node] {
	return await.Source[*corev1.Node]{Client: l.client.CoreV1().RESTClient(), Resource: "nodes"}
}

// Budgets is where the PodDisruptionBudgets of a namespace come from.
func (l *Lab) Budgets(namespace string) await.Source[*policyv1.PodDisruptionBudget] {
	return await.Source[*policyv1.PodDisruptionBudget]{
		Client: l.client.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: namespace,
	}
}

// VolumeAttachments is where all volume attachments come from.
func (l *Lab) VolumeAttachments() await.Source[*storagev1.VolumeAttachment] {
	return await.Source[*storagev1.VolumeAttachment]{Client: l.client.StorageV1().RESTClient(), Resource: "volumeattachments"}
}

// PodReady reports whether the pod is Ready and is not being deleted.
func PodReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// WaitReady waits until exactly n pods of the namespace match the labels (nil for all) and all of those are ready.
func (l *Lab) WaitReady(tb testing.TB, namespace string, labels map[string]string, n int) []*corev1.Pod {
	tb.Helper()
	var found []*corev1.Pod
	WaitFor(tb, l.Pods(namespace), fmt.Sprintf("%d ready pods %v in %s", n, labels, namespace), func(all []*corev1.Pod) bool {
		found = found[:0]
		for _, p := range all {
			if !matches(p.Labels, labels) {
				continue
			}
			if !PodReady(p) {
				return false
			}
			found = append(found, p)
		}
		return len(found) == n
	})
	return found
}

func matches(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}
