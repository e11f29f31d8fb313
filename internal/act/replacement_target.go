package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
)

// Targets are objects of any kind in a namespace, read and patched as one of its ServiceAccounts.
type Targets struct {
	// As is the API as a ServiceAccount of a namespace sees it.
	As     func(namespace, serviceAccount string) (dynamic.Interface, error)
	Mapper meta.RESTMapper
}

// ErrNotPatchable is about a target that can be no object of the policy's namespace, whatever is in it.
var ErrNotPatchable = errors.New("only objects of the policy's namespace are patched")

// of returns the client of one kind of objects in a namespace.
func (t *Targets) of(namespace, serviceAccount string, target *v1alpha1.PatchTarget) (dynamic.ResourceInterface, error) {
	version, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrNotPatchable)
	}
	if problems := content.IsPathSegmentName(target.Name); len(problems) > 0 {
		return nil, fmt.Errorf("its name %s: %w", strings.Join(problems, ", "), ErrNotPatchable)
	} else if target.Name == "" {
		return nil, fmt.Errorf("its name is empty: %w", ErrNotPatchable)
	}
	mapping, err := t.Mapper.RESTMapping(version.WithKind(target.Kind).GroupKind(), version.Version)
	switch {
	case err != nil:
		return nil, err
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return nil, fmt.Errorf("its kind is not namespaced: %w", ErrNotPatchable)
	}
	as, err := t.As(namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	return as.Resource(mapping.Resource).Namespace(namespace), nil
}

// Target is an object that is patched, as it was read.
type Target struct {
	UID  types.UID
	JSON json.RawMessage
}

// Get reads a target past all caches; nil: it is not there.
func (t *Targets) Get(ctx context.Context, namespace, serviceAccount string, target *v1alpha1.PatchTarget) (*Target, error) {
	objects, err := t.of(namespace, serviceAccount, target)
	if err != nil {
		return nil, err
	}
	object, err := objects.Get(ctx, target.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	body, err := object.MarshalJSON()
	return &Target{UID: object.GetUID(), JSON: body}, err
}

// Patch sends a merge patch that names the UID and the version of the object that was read.
func (t *Targets) Patch(ctx context.Context, namespace, serviceAccount string, target *v1alpha1.PatchTarget, body json.RawMessage) answers.Answer {
	var preconditions struct{ Metadata patchMeta }
	if err := json.Unmarshal(body, &preconditions); err != nil || preconditions.Metadata.UID == "" || preconditions.Metadata.ResourceVersion == "" {
		return answers.Of(fmt.Errorf("patching %s %s: %w", target.Kind, target.Name, errNoUID))
	}
	objects, err := t.of(namespace, serviceAccount, target)
	if err == nil {
		_, err = objects.Patch(ctx, target.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	}
	return answers.Of(err)
}
