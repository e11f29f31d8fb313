package cordon

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
)

// lostRace is how long the watch gets to deliver what a write lost against.
const lostRace = time.Second

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.client.Get(ctx, key.NamespacedName, &pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // its requests go with it
	}
	in, err := r.gather(ctx, &pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	action := eviction.FollowCordon(in)
	if action == nil {
		return reconcile.Result{}, nil
	}
	switch answer := r.Act.Do(ctx, *action); answer.Code {
	case answers.Accepted, answers.Gone:
		return reconcile.Result{}, nil
	case answers.Conflict:
		return reconcile.Result{RequeueAfter: lostRace}, nil
	default:
		return reconcile.Result{}, fmt.Errorf("%s for the cordon of node %s, pod %s: %s: %s", action.Kind, pod.Spec.NodeName, action.Pod, answer.Code, answer.Message)
	}
}

func (r *reconciler) gather(ctx context.Context, pod *corev1.Pod) (eviction.CordonInput, error) {
	in := eviction.CordonInput{Pod: policycache.Facts(pod)}
	policies, err := r.Gatherer.Policies.Policies(ctx, pod.Namespace)
	if err != nil {
		return in, err
	}
	for _, policy := range policies {
		in.Policies = append(in.Policies, r.Gatherer.Policies.Declared(policy))
	}
	if in.Node, err = r.Gatherer.Node(ctx, pod.Spec.NodeName); err != nil {
		return in, err
	}
	requests, err := targets.WantedOf(ctx, r.client, client.ObjectKeyFromObject(pod))
	if err != nil {
		return in, err
	}
	for _, request := range requests {
		if made, ok := policycache.AdmissionRequest(request, in.Node); ok && made.Empties && made.UID == pod.UID {
			in.Standing = &made
		}
	}
	return in, nil
}
