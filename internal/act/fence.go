package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/lostnode"
)

// Fences carries out what was decided about lost nodes. It may be used by several goroutines at once.
type Fences struct {
	Client client.Client
	Now    func() time.Time
}

// Begin makes a fence. That it is there already is no refusal: its name is that of one silence.
func (f *Fences) Begin(ctx context.Context, fence *v1alpha1.NodeFence) answers.Answer {
	err := f.Client.Create(ctx, fence.DeepCopy(), client.FieldOwner(fieldManager))
	return answers.Of(client.IgnoreAlreadyExists(err))
}

// WriteFence writes a fence's status at the version that was decided upon, and returns the fence as it is then.
func (f *Fences) WriteFence(ctx context.Context, fence *v1alpha1.NodeFence, status *v1alpha1.NodeFenceStatus) (*v1alpha1.NodeFence, answers.Answer) {
	changed := fence.DeepCopy()
	changed.Status = *status.DeepCopy()
	err := f.Client.Status().Update(ctx, changed, client.FieldOwner(fieldManager))
	return changed, answers.Of(err)
}

// WriteLostNodePolicy writes a policy's status at the version that was decided upon.
func (f *Fences) WriteLostNodePolicy(ctx context.Context, policy *v1alpha1.LostNodePolicy, status *v1alpha1.LostNodePolicyStatus) answers.Answer {
	changed := policy.DeepCopy()
	changed.Status = *status.DeepCopy()
	return answers.Of(f.Client.Status().Update(ctx, changed, client.FieldOwner(fieldManager)))
}

// HoldFence puts the finalizer on a fence, or takes it off, at the version that was decided upon.
func (f *Fences) HoldFence(ctx context.Context, fence *v1alpha1.NodeFence, hold bool) answers.Answer {
	changed := fence.DeepCopy()
	changed.Finalizers = withFinalizer(changed.Finalizers, v1alpha1.FenceFinalizer, hold)
	body, err := json.Marshal(finalizerPatch{Metadata: finalizerMeta{ResourceVersion: fence.ResourceVersion, Finalizers: changed.Finalizers}})
	if err != nil {
		return answers.Of(fmt.Errorf("writing a patch: %w", err))
	}
	return answers.Of(f.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// ForgetFence deletes a fence at the version that was decided upon.
func (f *Fences) ForgetFence(ctx context.Context, fence *v1alpha1.NodeFence) answers.Answer {
	err := f.Client.Delete(ctx, fence.DeepCopy(), client.Preconditions{UID: &fence.UID, ResourceVersion: &fence.ResourceVersion})
	return answers.Of(client.IgnoreNotFound(err))
}

// taintsPatch replaces the taints of a node.
type taintsPatch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
}

// OutOfService taints a node as one that is off, or takes that taint away if its value is Usher's. It insists on the UID and the version of
// the node that was decided upon: one that has answered since has another.
func (f *Fences) OutOfService(ctx context.Context, node *lostnode.Node, off bool) answers.Answer {
	if node.UID == "" || node.ResourceVersion == "" {
		return answers.Of(errors.New("tainting a node without its UID or its resource version"))
	}
	body := taintsPatch{Metadata: patchMeta{UID: node.UID, ResourceVersion: node.ResourceVersion}}
	body.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Taints), func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService && t.Effect == corev1.TaintEffectNoExecute && t.Value == v1alpha1.OutOfServiceValue
	})
	if off {
		added := metav1.NewTime(f.Now().UTC().Truncate(time.Second))
		body.Spec.Taints = append(body.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: v1alpha1.OutOfServiceValue, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added,
		})
	}
	data, err := json.Marshal(body)
	if err != nil {
		return answers.Of(fmt.Errorf("writing a patch: %w", err))
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	return answers.Of(f.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, data), client.FieldOwner(fieldManager)))
}

// confirmationPatch adds a person's word to a fence.
type confirmationPatch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     struct {
		Confirmation *v1alpha1.FenceConfirmation `json:"confirmation"`
	} `json:"spec"`
}

// Confirm records a person's word: in the fence that is there, at the version that was read, or in a new one.
func (f *Fences) Confirm(ctx context.Context, fence *v1alpha1.NodeFence) answers.Answer {
	if fence.ResourceVersion == "" {
		return answers.Of(f.Client.Create(ctx, fence.DeepCopy(), client.FieldOwner(fieldManager)))
	}
	patch := confirmationPatch{Metadata: patchMeta{UID: fence.UID, ResourceVersion: fence.ResourceVersion}}
	patch.Spec.Confirmation = fence.Spec.Confirmation
	body, err := json.Marshal(patch)
	if err != nil {
		return answers.Of(fmt.Errorf("writing a patch: %w", err))
	}
	return answers.Of(f.Client.Patch(ctx, fence.DeepCopy(), client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// Username asks the apiserver as whom it knows the caller.
func (f *Fences) Username(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := f.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the apiserver who the caller is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
