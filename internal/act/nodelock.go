package act

import (
	"context"
	"encoding/json"
	"fmt"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/nodelock"
)

// NodeLocks carries out what package nodelock decides.
type NodeLocks struct {
	Client client.Client
	// As is the API as a ServiceAccount of a namespace sees it. Nodes are written in no other way.
	As func(namespace, serviceAccount string) (dynamic.Interface, error)
}

// Write labels and locks a node as the policy's ServiceAccount, at the version of the node that was decided upon, and returns the one that it has then.
func (w *NodeLocks) Write(ctx context.Context, policy *v1alpha1.EvictionPolicy, write *nodelock.Write) (version string, answer answers.Answer) {
	if write.Node.UID == "" || write.Node.ResourceVersion == "" || policy.Spec.ServiceAccountName == "" {
		return "", rejected("acting: writing on a node without its UID, its version or a ServiceAccount")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	as, err := w.As(policy.Namespace, policy.Spec.ServiceAccountName)
	if err != nil {
		return "", answers.Of(err)
	}
	nodes := as.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	node, err := send(ctx, nodes, write.Node.Name, patch{Metadata: patchMeta{
		UID: write.Node.UID, ResourceVersion: write.Node.ResourceVersion, Labels: write.Labels, Annotations: write.Annotations,
	}})
	if err != nil {
		return "", answers.Of(err)
	}
	return node.GetResourceVersion(), answers.Of(nil)
}

// Ask requests that a holder leaves, in the name of its policy's nodeLock. A request that is there is asked for anew where the manager has withdrawn
// it; what another client has withdrawn stays so.
func (w *NodeLocks) Ask(ctx context.Context, policy string, holder *nodelock.Holder) answers.Answer {
	ref := evictionrequest.Ref{Namespace: holder.Pod.Namespace, Name: holder.Pod.Name, UID: holder.UID}
	wanted := evictionrequest.NewRequest(ref, evictionrequest.NodeLockRequester(policy))
	err := w.Client.Create(ctx, wanted, client.FieldOwner(fieldManager))
	if !apierrors.IsAlreadyExists(err) {
		return answers.Of(err)
	}
	there := &api.EvictionRequest{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return answers.Of(err)
	}
	if err := evictionrequest.CheckRequest(there, wanted); err != nil || !Withdrew(there) {
		return answers.Of(err)
	}
	body, err := evictionrequest.IntentPatch(there, api.EvictionRequestIntentEviction)
	if err != nil {
		return answers.Of(err)
	}
	return answers.Of(w.Client.Patch(ctx, there, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// Withdraw takes such a request back, at the version that was looked at.
func (w *NodeLocks) Withdraw(ctx context.Context, request *api.EvictionRequest) answers.Answer {
	return answers.Of(GiveUp(ctx, w.Client, request.DeepCopy(), fieldManager))
}

// nodeLockPatch writes what keeps nodes from being labelled and locked: null removes.
type nodeLockPatch struct {
	Metadata patchMeta `json:"metadata"`
	Status   struct {
		NodeLock *v1alpha1.NodeLockStatus `json:"nodeLock"`
	} `json:"status"`
}

// WriteStatus writes what keeps nodes from being labelled and locked, nil for nothing, at the version of the policy that was looked at.
func (w *NodeLocks) WriteStatus(ctx context.Context, policy *v1alpha1.EvictionPolicy, status *v1alpha1.NodeLockStatus) answers.Answer {
	patch := nodeLockPatch{Metadata: patchMeta{UID: policy.UID, ResourceVersion: policy.ResourceVersion}}
	patch.Status.NodeLock = status
	body, err := json.Marshal(patch)
	if err != nil {
		return answers.Of(fmt.Errorf("writing a policy's status: %w", err))
	}
	changed := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: policy.Namespace, Name: policy.Name}}
	return answers.Of(w.Client.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}
