package act

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

const evictionRequests = "evictionrequests"

// errCannotAsk is the answer of a writer that has no client for EvictionRequests.
var errCannotAsk = errors.New("asking for an eviction: this command makes no eviction requests")

// ask makes the drain's EvictionRequest for the pod. Its name follows from both, so that asking twice makes one.
func (w *Writer) ask(ctx context.Context, a drain.Action) (*rest.Request, error) {
	client, err := w.lifecycle(ctx)
	if err != nil {
		return nil, err
	}
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: a.Pod.Namespace, Name: a.Pod.Name, UID: a.Pod.UID}, snapshot.RequesterOf(a.Drain))
	request.Labels = map[string]string{snapshot.DrainLabel: a.Drain}
	return client.Post().Namespace(a.Pod.Namespace).Resource(evictionRequests).
		VersionedParams(&metav1.CreateOptions{DryRun: w.dryRun(), FieldManager: fieldManager}, metav1.ParameterCodec).
		Body(request), nil
}

// withdraw deletes the request, which counts as its withdrawal.
func (w *Writer) withdraw(ctx context.Context, a drain.Action) (*rest.Request, error) {
	client, err := w.lifecycle(ctx)
	if err != nil {
		return nil, err
	}
	return client.Delete().Namespace(a.Request.Namespace).Resource(evictionRequests).Name(a.Request.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: metav1.NewUIDPreconditions(string(a.Request.UID)),
			DryRun:        w.dryRun(),
		}), nil
}

func (w *Writer) lifecycle(ctx context.Context) (rest.Interface, error) {
	if w.Evictions == nil {
		return nil, errCannotAsk
	}
	return w.Evictions.REST(ctx)
}

// askedBefore reports whether the request that was to be made is there: an earlier try was carried out.
func askedBefore(a drain.Action, err error) bool {
	return a.Kind == drain.Ask && apierrors.IsAlreadyExists(err)
}
