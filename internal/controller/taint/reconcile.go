package taint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
)

const (
	// evictor is the user in whose name the requests are made, as admission does when it refuses that user's DELETE.
	evictor = "system:serviceaccount:kube-system:taint-eviction-controller"
	// head is how long after the end of a toleration Kubernetes' own DELETE, and the request that admission makes of it, are
	// waited for.
	head = 10 * time.Second
	// mostAtOnce is how many bytes of pods are read at once. A tenant can make hundreds of a megabyte, and bind them to a node.
	mostAtOnce = 8 << 20
	// again is how often a node is looked at while a pod is on it that Kubernetes would have evicted. Requests go for many
	// causes: their policy is replaced, a taint comes back, they are deleted.
	again = 10 * time.Minute
	// begunReason is of the condition DisruptionTarget that Kubernetes' controller writes before it deletes.
	begunReason = "DeletionByTaintManager"
)

func (r *Reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := r.client.Get(ctx, key.NamespacedName, &node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	taints := noExecute(&node)
	r.forget(node.UID, taints)
	if len(taints) == 0 {
		return reconcile.Result{}, nil
	}
	now := r.Gatherer.Now()
	var failed []error
	var next time.Time
	err := r.labelled(ctx, node.Name, func(pod *corev1.Pod) {
		end, ends := eviction.TaintEnd(taints, pod.Spec.Tolerations, pod.CreationTimestamp.Time, r.since(node.UID, now))
		if !ends {
			return
		}
		at := end.Add(head)
		if !at.After(now) {
			failed = append(failed, r.request(ctx, pod))
			at = now.Add(again)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	})
	failed = append(failed, err)
	if err := errors.Join(failed...); err != nil || next.IsZero() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next.Sub(now)}, nil
}

// labelled calls each with the pods of a node whose DELETE admission guards. They are not in the cache with their tolerations; the
// apiserver has them by node in its own, from which it sends all of them at once, whatever limit is asked for. Where that is too much, as
// far as the cache knows, they are read in pages, for which it may have to look at all pods that there are.
func (r *Reconciler) labelled(ctx context.Context, node string, each func(*corev1.Pod)) error {
	bytes, err := r.bytes(ctx, node)
	if err != nil {
		return err
	}
	all := func(pods *corev1.PodList) bool {
		for i := range pods.Items {
			each(&pods.Items[i])
		}
		return true
	}
	which := []client.ListOption{client.MatchingFields{"spec.nodeName": node}, client.HasLabels{v1alpha1.PolicyLabel}}
	if bytes > mostAtOnce {
		err = observe.EachPage(ctx, r.live, &corev1.PodList{}, all, which...)
	} else {
		var pods corev1.PodList
		if err = r.live.List(ctx, &pods, append(which, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})...); err == nil {
			all(&pods)
		}
	}
	if err != nil {
		return fmt.Errorf("listing the governed pods on node %s: %w", node, err)
	}
	return nil
}

// bytes is how much the apiserver sends for them, by the cache.
func (r *Reconciler) bytes(ctx context.Context, node string) (total int64, err error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.MatchingFields{wiring.GovernedNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing the governed pods on node %s: %w", node, err)
	}
	for i := range pods.Items {
		total += policycache.Size(&pods.Items[i])
	}
	return total, nil
}

// request asks for a pod's eviction in the name of Kubernetes' controller, where that has begun and no request stands. What
// a client other than the manager has withdrawn stays so.
func (r *Reconciler) request(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	policies, err := r.Gatherer.Policies.Policies(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	facts := policycache.Facts(pod)
	declared := make([]eviction.Declared, len(policies))
	for i, policy := range policies {
		declared[i] = r.Gatherer.Policies.Declared(policy)
	}
	claims := eviction.Claims(declared, facts)
	if len(claims) == 0 {
		return nil // its label is taken off
	}
	ref := evictionrequest.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	known := evictionrequest.NewRequest(ref, evictionrequest.Requester(evictor))
	existing := &api.EvictionRequest{}
	err = r.client.Get(ctx, client.ObjectKeyFromObject(known), existing)
	switch {
	case apierrors.IsNotFound(err):
		if !begun(pod) {
			return nil
		}
	case err != nil:
		return fmt.Errorf("reading the request for pod %s: %w", facts.Key(), err)
	case !act.Withdrew(existing):
		return nil
	}
	answer := r.Act.Do(ctx, eviction.Action{
		Kind: eviction.Request, Policy: claims[0].Policy, Pod: facts.Key(), UID: pod.UID, Requester: evictor,
		Why: "a NoExecute taint of node " + pod.Spec.NodeName + " evicts the pod, and its controller does not ask again",
	})
	if answer.Code != answers.Accepted && answer.Code != answers.Gone {
		return fmt.Errorf("requesting the eviction of pod %s: %s: %s", facts.Key(), answer.Code, answer.Message)
	}
	return nil
}

// begun reports whether Kubernetes' controller has tried to evict the pod. A cluster without that controller evicts no pod for
// a taint, and then nothing is asked for. Two minutes after a try that was refused, the disruption controller sets the condition
// False and takes its reason away.
func begun(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && (c.Reason == begunReason || c.Status == corev1.ConditionFalse && c.Reason == "")
	})
}
