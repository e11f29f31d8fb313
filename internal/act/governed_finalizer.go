package act

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// UndoFinalizer is on a policy while there are preparations that deleting it must take back first.
const UndoFinalizer = "usher.sh/undo"

type finalizerPatch struct {
	Metadata finalizerMeta `json:"metadata"`
}

type finalizerMeta struct {
	ResourceVersion string   `json:"resourceVersion"`
	Finalizers      []string `json:"finalizers"`
}

// HoldPolicy puts the finalizer on a policy, or takes it off; where it is so already nothing is sent. It insists on the
// version of the policy that was decided upon.
func (g *Governed) HoldPolicy(ctx context.Context, policy *v1alpha1.EvictionPolicy, hold bool) drain.Answer {
	if slices.Contains(policy.Finalizers, UndoFinalizer) == hold {
		return drain.Answer{Code: drain.Accepted}
	}
	return AnswerOf(g.holdPolicy(ctx, policy, hold))
}

func (g *Governed) holdPolicy(ctx context.Context, policy *v1alpha1.EvictionPolicy, hold bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	finalizers := slices.DeleteFunc(slices.Clone(policy.Finalizers), func(f string) bool { return f == UndoFinalizer })
	if hold {
		finalizers = append(finalizers, UndoFinalizer)
	}
	body, err := json.Marshal(finalizerPatch{finalizerMeta{ResourceVersion: policy.ResourceVersion, Finalizers: finalizers}})
	if err != nil {
		return fmt.Errorf("writing a policy's finalizers: %w", err)
	}
	changed := &v1alpha1.EvictionPolicy{}
	changed.Namespace, changed.Name = policy.Namespace, policy.Name
	if err := g.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
		return err
	}
	g.Book.Learn(changed)
	if hold && !slices.Contains(changed.Finalizers, UndoFinalizer) {
		return fmt.Errorf("the apiserver took the finalizer %s and did not keep it: somebody's admission webhook takes it off", UndoFinalizer)
	}
	return nil
}
