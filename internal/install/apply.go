package install

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/observe"
)

// fieldManager owns what is applied, and nothing that others set on it, such as the authorities of the webhooks.
const fieldManager = "usher-install"

// Cluster is where Usher is installed.
type Cluster struct {
	Client client.WithWatch
	// Out gets a line for each step.
	Out io.Writer
	// UndoPatience is how long the manager may take to undo what it has prepared, when its policies are removed.
	UndoPatience time.Duration
	// RemovalPatience is how long the apiserver may take to remove the objects of a kind before it is made to look again.
	RemovalPatience time.Duration
}

// LifecycleServed reports whether the cluster has the eviction request API itself.
func LifecycleServed(d discovery.DiscoveryInterface) (bool, error) {
	_, err := d.ServerResourcesForGroupVersion("lifecycle.k8s.io/v1alpha1")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, observe.Explained("asking for the eviction request API", err)
	}
	return true, nil
}

// Apply brings the objects into the state that they describe. With dryRun the server checks everything and changes
// nothing.
func (c Cluster) Apply(ctx context.Context, objects []*unstructured.Unstructured, dryRun bool) error {
	for _, object := range objects {
		verb, err := c.apply(ctx, object, dryRun)
		if err != nil {
			return fmt.Errorf("applying %s: %w", Ref(object), err)
		}
		fmt.Fprintf(c.Out, "%s %s\n", Ref(object), verb)
		if isDefinition(object) && !dryRun {
			if err := c.waitEstablished(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether an object is as it was. Its status, which its controllers write meanwhile, does not count.
func same(before, after *unstructured.Unstructured) bool {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return true
	}
	plain := func(object *unstructured.Unstructured) map[string]any {
		object = object.DeepCopy()
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		delete(object.Object, "status")
		return object.Object
	}
	return equality.Semantic.DeepEqual(plain(before), plain(after))
}

// apply says what has become of the object: created, configured or unchanged.
func (c Cluster) apply(ctx context.Context, object *unstructured.Unstructured, dryRun bool) (verb string, err error) {
	before, err := c.now(ctx, object)
	if err != nil {
		return "", err
	}
	created := before == nil
	if !created && object.GetKind() == "Namespace" && !ours(before) {
		return "is there already and is used as it is", nil
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager), client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	after := object.DeepCopy()
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(after), options...); err != nil {
		if dryRun && created && apierrors.IsNotFound(err) {
			return "to be created", nil // its namespace is only a dry run itself
		}
		return "", err
	}
	switch {
	case created:
		return "created", nil
	case !same(before, after):
		return "configured", nil
	}
	return "unchanged", nil
}

// now reads an object as it is; nil if there is none.
func (c Cluster) now(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// nameLabel is on everything that is installed but the definitions of resources.
const nameLabel = "app.kubernetes.io/name"

func ours(object *unstructured.Unstructured) bool { return object.GetLabels()[nameLabel] == "usher" }
