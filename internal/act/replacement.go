package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// Replacements carries out what package replacement decides, but for what a policy's status says.
type Replacements struct {
	Client client.Client
}

// WriteStatus writes a request's status at the version that was decided upon, and returns the request as it is then.
func (w *Replacements) WriteStatus(ctx context.Context, seen *v1alpha1.ReplacementRequest, status *v1alpha1.ReplacementRequestStatus) (*v1alpha1.ReplacementRequest, answers.Answer) {
	changed := seen.DeepCopy()
	changed.Status = *status.DeepCopy()
	err := w.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	return changed, answers.Of(err)
}

// Hold puts the finalizer on a request, or takes it off, at the version that was decided upon, and returns the request as it is then.
func (w *Replacements) Hold(ctx context.Context, seen *v1alpha1.ReplacementRequest, hold bool) (*v1alpha1.ReplacementRequest, answers.Answer) {
	changed := seen.DeepCopy()
	changed.Finalizers = withFinalizer(changed.Finalizers, v1alpha1.ReplacementFinalizer, hold)
	err := w.Client.Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	return changed, answers.Of(err)
}

// Create creates a request for a policy, with which it goes, and with the finalizer, which saves a write. Conflict: it is there already, with the same
// spec.
func (w *Replacements) Create(ctx context.Context, request *v1alpha1.ReplacementRequest, policy *v1alpha1.EvictionPolicy) answers.Answer {
	created := request.DeepCopy()
	created.Finalizers = withFinalizer(created.Finalizers, v1alpha1.ReplacementFinalizer, true)
	created.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy", Name: policy.Name, UID: policy.UID,
	}}
	err := w.Client.Create(ctx, created, client.FieldOwner(fieldManager))
	if !apierrors.IsAlreadyExists(err) {
		return answers.Of(err)
	}
	var other v1alpha1.ReplacementRequest
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(request), &other); err != nil {
		return answers.Of(err)
	}
	spec := other.Spec
	spec.Abandonment = nil // which a person may have added
	if spec != request.Spec {
		return rejected("ReplacementRequest " + request.Name + " is there, and is for another member or requester: delete it")
	}
	return answers.Answer{Code: answers.Conflict}
}

// Withdraw deletes the request of this UID, which cancels it.
func (w *Replacements) Withdraw(ctx context.Context, request *v1alpha1.ReplacementRequest) answers.Answer {
	return answers.Of(w.Client.Delete(ctx, request.DeepCopy(), client.Preconditions{UID: &request.UID}))
}

// unhealthyPatch writes which members of a policy are unhealthy: null removes.
type unhealthyPatch struct {
	Metadata patchMeta `json:"metadata"`
	Status   struct {
		Unhealthy []v1alpha1.UnhealthyMember `json:"unhealthy"`
	} `json:"status"`
}

// WriteUnhealthy writes which members of a policy are unhealthy, at the version that was looked at: what an earlier look has sent, or a manager that
// leads no more, may arrive after what a later one has written. It returns the policy as it is then, where that is accepted.
func (w *Replacements) WriteUnhealthy(
	ctx context.Context, policy *v1alpha1.EvictionPolicy, unhealthy []v1alpha1.UnhealthyMember,
) (*v1alpha1.EvictionPolicy, answers.Answer) {
	patch := unhealthyPatch{Metadata: patchMeta{UID: policy.UID, ResourceVersion: policy.ResourceVersion}}
	patch.Status.Unhealthy = unhealthy
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, answers.Of(fmt.Errorf("writing a policy's status: %w", err))
	}
	changed := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: policy.Namespace, Name: policy.Name}}
	return changed, answers.Of(w.Client.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// retainPatch keeps a PersistentVolume when its claim goes.
type retainPatch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     struct {
		Policy corev1.PersistentVolumeReclaimPolicy `json:"persistentVolumeReclaimPolicy"`
	} `json:"spec"`
}

var errNoUID = errors.New("removing or retaining something without its UID or version")

// RetainVolume has the PersistentVolume of this UID stay when its claim goes.
func (w *Replacements) RetainVolume(ctx context.Context, name string, uid types.UID) answers.Answer {
	if uid == "" {
		return answers.Of(errNoUID)
	}
	patch := retainPatch{Metadata: patchMeta{UID: uid}}
	patch.Spec.Policy = corev1.PersistentVolumeReclaimRetain
	body, err := json.Marshal(patch)
	if err != nil {
		return answers.Of(fmt.Errorf("writing a patch: %w", err))
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return answers.Of(w.Client.Patch(ctx, volume, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// DeleteClaim deletes the PersistentVolumeClaim of this UID.
func (w *Replacements) DeleteClaim(ctx context.Context, claim snapshot.Key, uid types.UID) answers.Answer {
	if uid == "" {
		return answers.Of(errNoUID)
	}
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	return answers.Of(w.Client.Delete(ctx, object, client.Preconditions{UID: &uid}))
}

// DeletePod deletes the pod of this UID, at the version that was decided upon and with its own grace period: one that was bound to a node
// meanwhile has another version.
func (w *Replacements) DeletePod(ctx context.Context, pod snapshot.Key, uid types.UID, version string) answers.Answer {
	if uid == "" || version == "" {
		return answers.Of(errNoUID)
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return answers.Of(w.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}
