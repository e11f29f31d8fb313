package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Replacements reads the ReplacementRequests of a namespace.
type Replacements struct {
	Client    dynamic.Interface
	Namespace string
}

// ReplacementResource is where ReplacementRequests are served.
var ReplacementResource = v1alpha1.GroupVersion.WithResource("replacementrequests")

// List reads all requests of the namespace. The error is the API's.
func (r Replacements) List(ctx context.Context) ([]*v1alpha1.ReplacementRequest, error) {
	return listed(ctx, r.Client.Resource(ReplacementResource).Namespace(r.Namespace), ReplacementOf)
}

// PodsNamed reads the pod of the name, or where there is none all of its namespace: one of them may be meant by another name. The error is the
// API's.
func PodsNamed(ctx context.Context, client kubernetes.Interface, key snapshot.Key) ([]*corev1.Pod, error) {
	if len(validation.IsDNS1123Subdomain(key.Name)) == 0 { // or no pod can have it
		pod, err := client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err == nil {
			return []*corev1.Pod{pod}, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	list, err := client.CoreV1().Pods(key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// ReplacementOf reads what the API has of a request.
func ReplacementOf(object *unstructured.Unstructured) (*v1alpha1.ReplacementRequest, error) {
	return typed[v1alpha1.ReplacementRequest]("ReplacementRequest", object)
}

// Follow calls seen with a request whenever it has changed, and with nil once that of the UID is gone, until seen returns true. An error is
// the context's, or one that trying again does not help.
func (r Replacements) Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.ReplacementRequest) (enough bool)) error {
	follow := followed[*v1alpha1.ReplacementRequest]{
		kind: "ReplacementRequest", objects: r.Client.Resource(ReplacementResource).Namespace(r.Namespace), of: ReplacementOf, seen: seen,
	}
	return follow.run(ctx, name, uid)
}
