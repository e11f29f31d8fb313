package install

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookAgain is the annotation that makes the apiserver look at a definition again.
const lookAgain = "usher.sh/look-again"

func isDefinition(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition"
}

// gone waits until a definition is gone, with the objects of its kind. The apiserver can lose one on the way: the storage is
// just being taken down as it looks for objects, it tries again before it has seen its own note of that, takes the conflict
// for somebody else's change that it will hear of, and hears of none. It would look again after minutes by itself; a
// change that is not its own has it look now.
func (r remover) gone(ctx context.Context, definition *unstructured.Unstructured) error {
	for {
		patient, cancel := context.WithTimeout(ctx, r.RemovalPatience)
		err := r.wait(patient, definition, func(now *unstructured.Unstructured) (bool, string) {
			return now == nil, "waiting until its objects are gone"
		})
		lost := patient.Err() != nil
		cancel()
		if err == nil || !lost || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(r.Out, "%s: not gone after %s; the apiserver is told to look again\n", Ref(definition), r.RemovalPatience)
		if err := r.touch(ctx, definition); err != nil {
			return err
		}
	}
}

func (r remover) touch(ctx context.Context, object *unstructured.Unstructured) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, lookAgain, time.Now().UTC().Format(time.RFC3339Nano))
	err := r.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling the apiserver to look again at %s: %w", Ref(object), err)
	}
	return nil
}
