package act

import (
	"context"
	"math"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Evict asks for the removal of exactly this pod under its budgets, with a grace period, 0 for the pod's own.
func (w *Writer) Evict(ctx context.Context, pod snapshot.Key, uid types.UID, grace time.Duration) answers.Answer {
	action := drain.Action{Kind: drain.Evict, Pod: &snapshot.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}}
	if grace > 0 {
		action.Grace = &grace
	}
	return w.Do(ctx, action)
}

// evict asks for the pod's removal under its budgets.
func (w *Writer) evict(a drain.Action) *rest.Request {
	eviction := &policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: a.Pod.Namespace, Name: a.Pod.Name},
		DeleteOptions: w.deleteOptions(a),
	}
	if w.OwnRequests {
		eviction.Annotations = map[string]string{v1alpha1.SkipEvictionRequestAnnotation: "true"}
	}
	return w.Client.CoreV1().RESTClient().Post().
		Namespace(a.Pod.Namespace).Resource("pods").Name(a.Pod.Name).SubResource("eviction").
		Body(eviction)
}

// remove deletes the pod; no budget is asked.
func (w *Writer) remove(a drain.Action) *rest.Request {
	return w.Client.CoreV1().RESTClient().Delete().
		Namespace(a.Pod.Namespace).Resource("pods").Name(a.Pod.Name).
		Body(w.deleteOptions(a))
}

func (w *Writer) deleteOptions(a drain.Action) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		GracePeriodSeconds: graceSeconds(a.Grace),
		Preconditions:      metav1.NewUIDPreconditions(string(a.Pod.UID)),
		DryRun:             w.dryRun(),
	}
}

// graceSeconds rounds up: 0 would kill at once, which a caller that asked for half a second did
// not ask for.
func graceSeconds(grace *time.Duration) *int64 {
	if grace == nil {
		return nil
	}
	seconds := int64(math.Ceil(grace.Seconds()))
	return &seconds
}

// lowerCost makes the pod the first that its ReplicaSet removes. What the cost was before is kept in the mark. Of a pod that is
// marked already that is what its mark keeps, unless its cost was set since. It insists on the resource version: a cost that
// was set and not seen would be lost.
func (w *Writer) lowerCost(a drain.Action) (*rest.Request, error) {
	mark, former := a.Drain, a.Pod.DeletionCost
	if a.Pod.CostMark != "" {
		former = a.Pod.CostToRestore()
	}
	if former != "" {
		mark += "=" + former
	}
	return w.patchCost(a.Pod, new(snapshot.LowestCost), &mark, &a.Drain)
}

// restoreCost insists on the resource version: a cost that was set since stays.
func (w *Writer) restoreCost(a drain.Action) (*rest.Request, error) {
	var cost *string
	if back := a.Pod.CostToRestore(); back != "" {
		cost = &back
	}
	return w.patchCost(a.Pod, cost, nil, nil)
}

func (w *Writer) patchCost(pod *snapshot.Pod, cost, mark, label *string) (*rest.Request, error) {
	to := target{client: w.Client.CoreV1().RESTClient(), resource: "pods", namespace: pod.Namespace, name: pod.Name}
	return w.patch(to, patch{Metadata: patchMeta{
		UID:             pod.UID,
		ResourceVersion: pod.ResourceVersion,
		Annotations:     map[string]*string{snapshot.CostAnnotation: cost, snapshot.CostMarkAnnotation: mark},
		Labels:          map[string]*string{snapshot.SurgeLabel: label},
	}})
}
