package act

import (
	"context"
	"fmt"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// Demand is one requester's demand that a pod goes.
type Demand struct {
	Pod       *snapshot.Pod
	Requester string
}

func (w Demand) request() *api.EvictionRequest {
	return evictionrequest.NewRequest(evictionrequest.Ref{Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: w.Pod.UID}, w.Requester)
}

// Ask makes the demand an EvictionRequest. One that is there is asked for anew.
func (w *Writer) Ask(ctx context.Context, demand Demand) error {
	client, err := w.lifecycle(ctx)
	if err != nil {
		return err
	}
	request := demand.request()
	err = once(ctx, client.Post().Namespace(request.Namespace).Resource(evictionRequests).
		VersionedParams(&metav1.CreateOptions{FieldManager: fieldManager}, metav1.ParameterCodec).Body(request))
	if !apierrors.IsAlreadyExists(err) {
		return wrapped("asking for the eviction of", demand, err)
	}
	there := &api.EvictionRequest{}
	if err := client.Get().Namespace(request.Namespace).Resource(evictionRequests).Name(request.Name).Do(ctx).Into(there); err != nil {
		return wrapped("reading the request for", demand, err)
	}
	if err := evictionrequest.CheckRequest(there, request); err != nil {
		return wrapped("asking for the eviction of", demand, err)
	}
	patch, err := evictionrequest.IntentPatch(there, api.EvictionRequestIntentEviction)
	if err != nil {
		return err
	}
	err = once(ctx, client.Patch(types.MergePatchType).Namespace(request.Namespace).Resource(evictionRequests).Name(request.Name).
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, metav1.ParameterCodec).Body(patch))
	return wrapped("asking anew for the eviction of", demand, err)
}

// Withdraw takes the demand back. It returns false if there was none. A request of its name that is another requester's, or about another pod,
// stays: names can be taken beforehand.
func (w *Writer) Withdraw(ctx context.Context, demand Demand) (bool, error) {
	client, err := w.lifecycle(ctx)
	if err != nil {
		return false, err
	}
	request := demand.request()
	there := &api.EvictionRequest{}
	err = client.Get().Namespace(request.Namespace).Resource(evictionRequests).Name(request.Name).Do(ctx).Into(there)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = evictionrequest.CheckRequest(there, request)
	}
	if err != nil {
		return false, wrapped("withdrawing the request for", demand, err)
	}
	err = once(ctx, client.Delete().Namespace(request.Namespace).Resource(evictionRequests).Name(request.Name).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.UID))}))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, wrapped("withdrawing the request for", demand, err)
}

func wrapped(doing string, demand Demand, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s pod %s: %w", doing, demand.Pod.Key(), err)
}
