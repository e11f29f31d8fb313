package observe

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
)

// MemberSetResource is where MemberSets are served.
var MemberSetResource = v1alpha1.GroupVersion.WithResource("membersets")

// MemberSets reads a set, and what there is of its members.
type MemberSets struct {
	Objects         dynamic.Interface
	Client          kubernetes.Interface
	Namespace, Name string
}

// Get reads the set. The error is the API's.
func (m MemberSets) Get(ctx context.Context) (*unstructured.Unstructured, error) {
	return m.Objects.Resource(MemberSetResource).Namespace(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
}

// List reads all sets of the namespace. The error is the API's.
func (m MemberSets) List(ctx context.Context) ([]*v1alpha1.MemberSet, error) {
	return listed(ctx, m.Objects.Resource(MemberSetResource).Namespace(m.Namespace), MemberSetOf)
}

// MemberSetOf reads what the API has of a set.
func MemberSetOf(object *unstructured.Unstructured) (*v1alpha1.MemberSet, error) {
	return typed[v1alpha1.MemberSet]("MemberSet", object)
}

func (m MemberSets) labelled() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.Set{v1alpha1.MemberSetLabel: m.Name}.String()}
}

// Pods reads those of the set's members. The error is the API's, as that of the other methods.
func (m MemberSets) Pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := m.Client.CoreV1().Pods(m.Namespace).List(ctx, m.labelled())
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Claims reads those of the set's members.
func (m MemberSets) Claims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	list, err := m.Client.CoreV1().PersistentVolumeClaims(m.Namespace).List(ctx, m.labelled())
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Services reads those of the set's members.
func (m MemberSets) Services(ctx context.Context) ([]corev1.Service, error) {
	list, err := m.Client.CoreV1().Services(m.Namespace).List(ctx, m.labelled())
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// File reads a ConfigMap of the set's namespace.
func (m MemberSets) File(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return m.Client.CoreV1().ConfigMaps(m.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// Quotas reads those of the set's namespace.
func (m MemberSets) Quotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	list, err := m.Client.CoreV1().ResourceQuotas(m.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// NodesWith reads the names of the nodes with these labels, sorted, without those that are being deleted. The error is the API's.
func NodesWith(ctx context.Context, client kubernetes.Interface, selector map[string]string) ([]string, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Set(selector).String()})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
