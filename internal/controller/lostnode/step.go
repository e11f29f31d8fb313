package lostnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/lostnode"
)

const (
	// turns is how many decisions follow each other without a pause: the longest chain is to hold, to observe, to call and to note the answer.
	turns = 8
	// soon is when to look again after another client has written in between.
	soon = 100 * time.Millisecond
)

// step takes one fence as far as it goes now.
func (r *reconciler) step(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	fence := &v1alpha1.NodeFence{}
	if err := r.live.Get(ctx, key.NamespacedName, fence); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var look *v1alpha1.FenceObservation
	var said *lostnode.Answer
	for range turns {
		in, node, err := r.gather(ctx, fence)
		if err != nil {
			return reconcile.Result{}, err
		}
		in.Look, in.Answer = look, said
		look, said = nil, nil
		next := lostnode.Step(in)
		changed, answer := r.write(ctx, fence, &next)
		if answer.Code != answers.Accepted {
			return refused(answer, "writing the status of fence "+fence.Name)
		}
		r.record(fence, node, changed)
		fence = changed
		switch next.Do {
		case lostnode.DoDecide:
			continue
		case lostnode.DoObserve:
			look = r.observe(ctx, &in, node)
			continue
		case lostnode.DoCall:
			said = r.call(ctx, &in, node)
			continue
		case lostnode.DoNothing, lostnode.DoHold, lostnode.DoTaint, lostnode.DoUntaint, lostnode.DoRelease, lostnode.DoForget:
		}
		return r.carryOut(ctx, &in, fence, &next)
	}
	return reconcile.Result{RequeueAfter: soon}, nil
}

// write writes the status where it is another, before anything is done.
func (r *reconciler) write(ctx context.Context, fence *v1alpha1.NodeFence, next *lostnode.Next) (*v1alpha1.NodeFence, answers.Answer) {
	if equality.Semantic.DeepEqual(fence.Status, next.Status) {
		return fence, answers.Answer{Code: answers.Accepted}
	}
	return r.Act.WriteFence(ctx, fence, &next.Status)
}

// carryOut does what changes the cluster, and returns when to look again.
func (r *reconciler) carryOut(ctx context.Context, in *lostnode.Case, fence *v1alpha1.NodeFence, next *lostnode.Next) (reconcile.Result, error) {
	var answer answers.Answer
	switch next.Do {
	case lostnode.DoHold:
		answer = r.Act.HoldFence(ctx, fence, true)
	case lostnode.DoRelease:
		answer = r.Act.HoldFence(ctx, fence, false)
	case lostnode.DoForget:
		answer = r.Act.ForgetFence(ctx, fence)
	case lostnode.DoTaint:
		answer = r.Act.OutOfService(ctx, in.Node, true)
	case lostnode.DoUntaint:
		answer = r.Act.OutOfService(ctx, in.Node, false)
	case lostnode.DoNothing, lostnode.DoDecide, lostnode.DoObserve, lostnode.DoCall:
		if next.NextLook.IsZero() {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: max(soon, next.NextLook.Sub(in.Now))}, nil
	}
	if answer.Code == answers.Accepted {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return refused(answer, string(next.Do)+" for fence "+fence.Name)
}

// refused looks again: at once where the object has changed, later where a right is missing, say.
func refused(answer answers.Answer, doing string) (reconcile.Result, error) {
	if answer.Code == answers.Conflict || answer.Code == answers.Gone {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return reconcile.Result{}, fmt.Errorf("%s: %s", doing, cmp.Or(answer.Message, string(answer.Code)))
}

// record makes an event on the node of what a fence begins to do.
func (r *reconciler) record(before *v1alpha1.NodeFence, node *corev1.Node, after *v1alpha1.NodeFence) {
	if node == nil || before.Status.Step == after.Status.Step {
		return
	}
	kind := corev1.EventTypeNormal
	message := string(after.Status.Step)
	for _, c := range after.Status.Conditions {
		switch {
		case c.Type == v1alpha1.ConditionStalled && c.Status == metav1.ConditionTrue:
			kind = corev1.EventTypeWarning
		case c.Type == v1alpha1.ConditionReady:
			message = c.Message
		}
	}
	const most = 1000 // bytes of an event's note: the apiserver takes 1024
	r.events.Eventf(node, after, kind, string(after.Status.Step), "Fence", "%s", message[:min(len(message), most)])
}

// gather reads what a fence's step rests on, past any cache.
func (r *reconciler) gather(ctx context.Context, fence *v1alpha1.NodeFence) (lostnode.Case, *corev1.Node, error) {
	in := lostnode.Case{Fence: fence}
	node, err := r.node(ctx, fence.Spec.NodeName)
	if err != nil {
		return in, nil, err
	}
	if in.Policy, err = r.policy(ctx, fence.Spec.Policy); err != nil {
		return in, nil, err
	}
	if node != nil && !fence.Status.Over() {
		if err := r.around(ctx, &in, node); err != nil {
			return in, nil, err
		}
	}
	in.Now = r.Now()
	return in, node, nil
}

// around reads what belongs to the node.
func (r *reconciler) around(ctx context.Context, in *lostnode.Case, node *corev1.Node) error {
	facts := nodeFacts(node)
	in.Node = &facts
	in.Lease = r.lease(ctx, node.Name)
	if in.Fence.Status.ProvenTime == nil {
		survey, err := r.survey(ctx, r.client)
		if err != nil {
			return err
		}
		in.Others = lostnode.OthersSilent(survey.Nodes, survey.Fences, facts.Zone, facts.Name)
	}
	if lostnode.NeedsClearing(in.Fence) {
		in.Pods = r.pods(ctx, node.Name)
		in.Volumes = r.volumes(ctx, node.Name)
	}
	return nil
}

func (r *reconciler) node(ctx context.Context, name string) (*corev1.Node, error) {
	var node corev1.Node
	err := r.live.Get(ctx, client.ObjectKey{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return &node, nil
}

func (r *reconciler) policy(ctx context.Context, name string) (*lostnode.Policy, error) {
	if name == "" {
		return nil, nil
	}
	var policy v1alpha1.LostNodePolicy
	err := r.live.Get(ctx, client.ObjectKey{Name: name}, &policy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading policy %s: %w", name, err)
	}
	facts := policyFacts(&policy)
	return &facts, nil
}

var errNotCalled = errors.New("the policy declares no fence that can be called for any more")
