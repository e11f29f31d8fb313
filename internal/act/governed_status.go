package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// ledgerPatch holds the part of a policy's status by which evictions are let through. Everything else in the status is
// written by the policy's controller, which never touches these three.
type ledgerPatch struct {
	Metadata patchMeta    `json:"metadata"`
	Status   ledgerStatus `json:"status"`
}

// ledgerStatus writes all three fields, always: null removes.
type ledgerStatus struct {
	Epoch        int64                        `json:"epoch"`
	Leaving      []v1alpha1.Leaving           `json:"leaving"`
	Preparations []v1alpha1.PreparationStatus `json:"preparations"`
}

// writeStatus insists on the version that was decided upon, and shows the Book what came of it.
func (g *Governed) writeStatus(ctx context.Context, action eviction.Action) error {
	if action.Version == "" || action.Status == nil {
		return errors.New("acting: " + string(action.Kind) + " without a resource version or a status")
	}
	body, err := json.Marshal(ledgerPatch{
		Metadata: patchMeta{ResourceVersion: action.Version},
		Status: ledgerStatus{
			Epoch: action.Status.Epoch, Leaving: action.Status.Leaving, Preparations: action.Status.Preparations,
		},
	})
	if err != nil {
		return fmt.Errorf("writing a policy's status: %w", err)
	}
	policy := &v1alpha1.EvictionPolicy{}
	policy.Namespace, policy.Name = action.Policy.Namespace, action.Policy.Name
	err = g.Client.Status().Patch(ctx, policy, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
	if err != nil {
		return err
	}
	g.Book.Learn(policy)
	return nil
}
