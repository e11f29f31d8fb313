package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// Sets carries out what package memberset decides.
type Sets struct {
	Client   client.Client
	Observer *policycache.Observer
}

// WriteStatus writes a set's status at the version that was decided upon, and returns the set as it is then.
func (w *Sets) WriteStatus(ctx context.Context, seen *v1alpha1.MemberSet, status *v1alpha1.MemberSetStatus) (*v1alpha1.MemberSet, answers.Answer) {
	changed := seen.DeepCopy()
	changed.Status = *status.DeepCopy()
	err := w.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	return changed, answers.Of(err)
}

// Make creates an object for a set. Conflict: one of its name is there already.
func (w *Sets) Make(ctx context.Context, object client.Object) answers.Answer {
	created, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return rejected("it is no object of the API")
	}
	err := w.Client.Create(ctx, created, client.FieldOwner(fieldManager))
	if apierrors.IsAlreadyExists(err) {
		return answers.Answer{Code: answers.Conflict}
	}
	return answers.Of(err)
}

// ChangePolicy has a policy say what its set does, at the version that was decided upon.
func (w *Sets) ChangePolicy(ctx context.Context, seen *v1alpha1.EvictionPolicy, spec *v1alpha1.EvictionPolicySpec) answers.Answer {
	changed := seen.DeepCopy()
	changed.Spec = *spec.DeepCopy()
	return answers.Of(w.Client.Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)))
}

// DeleteService deletes the Service of this UID.
func (w *Sets) DeleteService(ctx context.Context, service snapshot.Key, uid types.UID) answers.Answer {
	if uid == "" {
		return answers.Of(errNoUID)
	}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	return answers.Of(w.Client.Delete(ctx, object, client.Preconditions{UID: &uid}))
}

// Unmark deletes the request of this UID, which cancels it.
func (w *Sets) Unmark(ctx context.Context, request snapshot.Key, uid types.UID) answers.Answer {
	if uid == "" {
		return answers.Of(errNoUID)
	}
	object := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	return answers.Of(w.Client.Delete(ctx, object, client.Preconditions{UID: &uid}))
}

// Admit asks a set's system to take a member onto its list. RefusedForNow says what that waits for.
func (w *Sets) Admit(ctx context.Context, source *policycache.Source, cluster string, addresses []string) answers.Answer {
	return membershipAnswer(w.Observer.Admit(ctx, source, cluster, addresses))
}

// Expel asks a set's system to take a member off its list. RefusedForNow says what that waits for.
func (w *Sets) Expel(ctx context.Context, source *policycache.Source, entry *v1alpha1.MemberRegistration) answers.Answer {
	return membershipAnswer(w.Observer.Expel(ctx, source, entry))
}
