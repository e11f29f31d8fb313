package cli

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// notDefaulted is what is not known of a set that no apiserver has seen.
const notDefaulted = "that nothing is left to its default that matters, and that the set is accepted: "

// applied is the set as it would be once the file is applied, with the status that it has.
func (l *setLook) applied(ctx context.Context, file *unstructured.Unstructured) (*v1alpha1.MemberSet, error) {
	there, err := l.Get(ctx)
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		l.unknown = append(l.unknown, notDefaulted+"the cluster has no MemberSets yet; usher install --member-sets brings them")
		return l.typed(file)
	case apierrors.IsNotFound(err):
		there = nil
	case err != nil:
		return nil, observe.RefusedInstalled(l.Namespace, fmt.Sprintf("reading MemberSet %s of namespace %s", l.Name, l.Namespace), err, viewRole)
	}
	l.isThere = there != nil
	tried, err := l.try(ctx, file, there)
	if err != nil {
		return nil, err
	}
	return l.typed(tried)
}

// try has the apiserver apply the file in a dry run. Where the caller may not, the set is what the file makes of it.
func (l *setLook) try(ctx context.Context, file, there *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, local, err := merged(file, there)
	if err != nil {
		return nil, err
	}
	sets := l.Objects.Resource(observe.MemberSetResource).Namespace(l.Namespace)
	var tried *unstructured.Unstructured
	if there == nil {
		tried, err = act.TryMemberSet(ctx, sets, file)
	} else {
		tried, err = act.TryMemberSetPatch(ctx, sets, l.Name, patch)
	}
	switch {
	case err == nil:
		return tried, nil
	case apierrors.IsForbidden(err) && observe.RefusedUser(err.Error()) != "":
		l.unknown = append(l.unknown, notDefaulted+"a dry run of it was refused: "+text.Line(err.Error()))
		return local, nil
	case apierrors.IsNotFound(err) && there == nil:
		return nil, fmt.Errorf("there is no namespace %s: kubectl create namespace %[1]s makes it; another one is named with -n, or in metadata.namespace (%w)", l.Namespace, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return nil, fmt.Errorf("applying it would be refused: %w", err)
	}
	return nil, observe.Explained("having the apiserver try it out", err)
}

// merged is the patch by which kubectl apply makes the file of what is there, and the set that comes of it before the apiserver's defaults. What was applied last and
// is not in the file any more goes; what others have set stays.
func merged(file, there *unstructured.Unstructured) (patch []byte, set *unstructured.Unstructured, err error) {
	if there == nil {
		return nil, file, nil
	}
	modified, err := json.Marshal(file.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the MemberSet: %w", err)
	}
	current, err := json.Marshal(there.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the MemberSet: %w", err)
	}
	original := []byte(there.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing the MemberSet with the one that is there: %w", err)
	}
	result, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing the MemberSet with the one that is there: %w", err)
	}
	set = &unstructured.Unstructured{}
	if err := set.UnmarshalJSON(result); err != nil {
		return nil, nil, fmt.Errorf("comparing the MemberSet with the one that is there: %w", err)
	}
	return patch, set, nil
}

// typed reads a set. One that is not there has no UID, and no object is its own.
func (l *setLook) typed(object *unstructured.Unstructured) (*v1alpha1.MemberSet, error) {
	set, err := observe.MemberSetOf(object)
	if err != nil {
		return nil, err
	}
	if !l.isThere {
		set.UID, set.Status = "plan", v1alpha1.MemberSetStatus{}
	}
	return set, nil
}
