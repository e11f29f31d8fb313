package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
// for a change of another apiserver that it would be sent, and is sent none. It would look again after minutes by itself; a
// change that is not its own has it look now.
func (r remover) gone(ctx context.Context, definition *unstructured.Unstructured) error {
	for {
		patient, cancel := context.WithTimeout(ctx, r.RemovalPatience)
		err := r.wait(patient, definition, isGone)
		lost := patient.Err() != nil
		cancel()
		if err == nil || !lost || ctx.Err() != nil {
			return err
		}
		r.touch(ctx, definition)
	}
}

// cleanup is by what the apiserver holds a definition until the objects of its kind are gone.
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

func isGone(now *unstructured.Unstructured) (ok bool, still string) {
	if now == nil {
		return true, ""
	}
	if held := now.GetFinalizers(); len(held) > 0 && !slices.Contains(held, cleanup) {
		return false, "waiting until " + strings.Join(held, ", ") + " is removed by its owner"
	}
	return false, "waiting until its objects are gone"
}

// touch changes the definition. Who may not is not kept from waiting.
func (r remover) touch(ctx context.Context, definition *unstructured.Unstructured) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, lookAgain, time.Now().UTC().Format(time.RFC3339Nano))
	err := r.Client.Patch(ctx, definition.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	words := "the apiserver is asked to look again"
	if client.IgnoreNotFound(err) != nil {
		words = fmt.Sprintf("the apiserver could not be asked to look again, and does so by itself after some minutes: %s", err)
	}
	fmt.Fprintf(r.Out, "%s: not gone after %s; %s\n", Ref(definition), r.RemovalPatience, words)
}
