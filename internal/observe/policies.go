package observe

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
)

// ReadPolicies returns the policies of a namespace: none where the cluster knows no policies. A refusal is the API's error.
func ReadPolicies(ctx context.Context, client kubernetes.Interface, namespace string) ([]v1alpha1.EvictionPolicy, error) {
	result := client.CoreV1().RESTClient().Get().MaxRetries(0).
		AbsPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, "namespaces", namespace, "evictionpolicies").
		SetHeader("Accept", "application/json").Do(ctx)
	err := result.Error() // Raw's knows no status
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("reading the policies of namespace %s: %w", namespace, err)
	}
	var list v1alpha1.EvictionPolicyList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the policies of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}
