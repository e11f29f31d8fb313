package act

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
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

// AskEviction asks for the eviction of the pod of this UID, so that it is made anew. One that was taken back is asked for anew.
func (w *Sets) AskEviction(ctx context.Context, pod snapshot.Key, uid types.UID) answers.Answer {
	wanted := setRequest(pod, uid)
	err := w.Client.Create(ctx, wanted, client.FieldOwner(fieldManager))
	if apierrors.IsAlreadyExists(err) {
		return w.intend(ctx, pod, uid, api.EvictionRequestIntentEviction)
	}
	return answers.Of(err)
}

// WithdrawEviction takes that back.
func (w *Sets) WithdrawEviction(ctx context.Context, pod snapshot.Key, uid types.UID) answers.Answer {
	return w.intend(ctx, pod, uid, api.EvictionRequestIntentWithdrawn)
}

// intend changes what the request for a pod's eviction asks for, of the one that is the set's.
func (w *Sets) intend(ctx context.Context, pod snapshot.Key, uid types.UID, intent api.EvictionRequestIntent) answers.Answer {
	wanted := setRequest(pod, uid)
	there := &api.EvictionRequest{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return answers.Of(err)
	}
	if err := evictionrequest.CheckRequest(there, wanted); err != nil {
		return rejected(err.Error())
	}
	if there.Spec.Intent == intent {
		return answers.Answer{Code: answers.Accepted}
	}
	patch, err := evictionrequest.IntentPatch(there, intent)
	if err != nil {
		return rejected(err.Error())
	}
	return answers.Of(w.Client.Patch(ctx, there, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)))
}

func setRequest(pod snapshot.Key, uid types.UID) *api.EvictionRequest {
	return evictionrequest.NewRequest(evictionrequest.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: uid}, memberset.Requester)
}

// Relabel gives the pod of this UID labels and annotations, at the version that was decided upon.
func (w *Sets) Relabel(ctx context.Context, pod snapshot.Key, a *memberset.Action) answers.Answer {
	if a.UID == "" || a.Version == "" {
		return answers.Of(errNoUID)
	}
	body, err := json.Marshal(map[string]metav1.ObjectMeta{"metadata": {UID: a.UID, ResourceVersion: a.Version, Labels: a.Labels, Annotations: a.Annotations}})
	if err != nil {
		return rejected(err.Error())
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return answers.Of(w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
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

// Form asks a set's system to begin with its first members. RefusedForNow says what that waits for.
func (w *Sets) Form(ctx context.Context, source *policycache.Source, members []system.Member) answers.Answer {
	return membershipAnswer(w.Observer.Form(ctx, source, members))
}

// Lead asks a set's system to have others take the place of those by which it is found and that cannot be reached. RefusedForNow says what that waits for.
func (w *Sets) Lead(ctx context.Context, source *policycache.Source) answers.Answer {
	return membershipAnswer(w.Observer.Lead(ctx, source))
}

// Empty asks a set's system to move what a member has to others. RefusedForNow says what that waits for.
func (w *Sets) Empty(ctx context.Context, source *policycache.Source, member system.Member) answers.Answer {
	return membershipAnswer(w.Observer.Empty(ctx, source, member))
}

// Refill asks a set's system to take back what Empty has asked for. RefusedForNow says what that waits for.
func (w *Sets) Refill(ctx context.Context, source *policycache.Source, member system.Member) answers.Answer {
	return membershipAnswer(w.Observer.Refill(ctx, source, member))
}

// Maintain asks a set's system to wait for what is in a zone. RefusedForNow says what that waits for.
func (w *Sets) Maintain(ctx context.Context, source *policycache.Source, zone string, timeout time.Duration) answers.Answer {
	return membershipAnswer(w.Observer.Maintain(ctx, source, zone, timeout))
}

// EndMaintenance asks a set's system to wait for that zone no more. RefusedForNow says what that waits for.
func (w *Sets) EndMaintenance(ctx context.Context, source *policycache.Source, zone string) answers.Answer {
	return membershipAnswer(w.Observer.EndMaintenance(ctx, source, zone))
}

// ChangeConfigMap has an entry of a ConfigMap say what its set does, at the version that was decided upon.
func (w *Sets) ChangeConfigMap(ctx context.Context, uid types.UID, version string, wanted *corev1.ConfigMap) answers.Answer {
	if uid == "" || version == "" {
		return answers.Of(errNoUID)
	}
	patch, err := json.Marshal(map[string]map[string]string{"metadata": {"uid": string(uid), "resourceVersion": version}, "data": wanted.Data})
	if err != nil {
		return rejected(err.Error())
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	return answers.Of(w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)))
}
