package act

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
)

// statusPatch writes the part of a policy's status by which evictions are let through, and with it, where there is one, the other, which
// says what is seen.
type statusPatch struct {
	Metadata patchMeta `json:"metadata"`
	Status   struct {
		ledgerStatus
		*seenStatus
	} `json:"status"`
}

// ledgerStatus writes all its fields, always: null removes.
type ledgerStatus struct {
	Epoch        int64                        `json:"epoch"`
	Leaving      []v1alpha1.Leaving           `json:"leaving"`
	Departed     []v1alpha1.Departed          `json:"departed"`
	Emptied      []v1alpha1.Emptied           `json:"emptied"`
	Replacing    []v1alpha1.Replacing         `json:"replacing"`
	Preparations []v1alpha1.PreparationStatus `json:"preparations"`
}

// permit writes down that a member may go, in a policy that does not vanish with it.
func (g *Governed) permit(ctx context.Context, action eviction.Action) error {
	version, err := g.holdFor(ctx, action)
	if err != nil {
		return err
	}
	action.Version = version
	return g.writeStatus(ctx, action)
}

// writeStatus insists on the version that was decided upon, and shows the PolicyCache what came of it.
func (g *Governed) writeStatus(ctx context.Context, action eviction.Action) error {
	patch := statusPatch{Metadata: patchMeta{ResourceVersion: action.Version}}
	patch.Status.ledgerStatus = ledgerStatus{
		Epoch: action.Status.Epoch, Leaving: action.Status.Leaving, Departed: action.Status.Departed, Emptied: action.Status.Emptied,
		Replacing: action.Status.Replacing, Preparations: action.Status.Preparations,
	}
	if action.Seen != nil {
		patch.Status.seenStatus = new(seenOf(action.Seen))
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("writing a policy's status: %w", err)
	}
	policy := &v1alpha1.EvictionPolicy{}
	policy.Namespace, policy.Name = action.Policy.Namespace, action.Policy.Name
	err = g.Client.Status().Patch(ctx, policy, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
	if err != nil {
		return err
	}
	g.Policies.Observe(policy)
	return nil
}

// seenPatch is the part of a policy's status that says what is seen.
type seenPatch struct {
	Metadata patchMeta  `json:"metadata"`
	Status   seenStatus `json:"status"`
}

type seenStatus struct {
	ObservedGeneration int64                    `json:"observedGeneration"`
	Conditions         []metav1.Condition       `json:"conditions"`
	MemberCount        int32                    `json:"memberCount"`
	Roles              []v1alpha1.RoleStatus    `json:"roles"`
	Blocked            []v1alpha1.BlockedMember `json:"blocked"`
	System             seenSystem               `json:"system"`
}

// seenSystem writes every field: what is left out of a merge patch stays as it was.
type seenSystem struct {
	Kind             string       `json:"kind"`
	LastObservedTime *metav1.Time `json:"lastObservedTime"`
	Summary          string       `json:"summary"`
	Error            string       `json:"error"`
}

func seenOf(status *v1alpha1.EvictionPolicyStatus) seenStatus {
	return seenStatus{
		ObservedGeneration: status.ObservedGeneration, Conditions: status.Conditions,
		MemberCount: status.MemberCount, Roles: status.Roles, Blocked: status.Blocked, System: seenSystem(status.System),
	}
}

// WriteSeen writes into a policy's status what is seen of its members and its system. It insists on no version: the
// permits of others are not its business, and are not touched.
func (g *Governed) WriteSeen(ctx context.Context, policy *v1alpha1.EvictionPolicy, seen v1alpha1.EvictionPolicyStatus) answers.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(seenPatch{Metadata: patchMeta{UID: policy.UID}, Status: seenOf(&seen)})
	if err != nil {
		return rejected("writing a policy's status: " + err.Error())
	}
	changed := &v1alpha1.EvictionPolicy{}
	changed.Namespace, changed.Name = policy.Namespace, policy.Name
	err = g.Client.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
	if err == nil {
		g.Policies.Observe(changed)
	}
	return answers.Of(err)
}
