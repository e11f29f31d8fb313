package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// verdictPatience is how long a verdict is waited for: admission itself may have to ask the pod's system first.
const verdictPatience = 30 * time.Second

// ErrNoVerdict is returned where a pod carries the label of a policy and its eviction was allowed without a verdict: Usher's
// manager is not there, or governs the pod no more.
var ErrNoVerdict = errors.New("no verdict was returned for the pod")

// Verdict asks Usher's admission for its verdict on a governed pod; about is eviction.AskEvict or AskReplace. It is a dry
// run: nothing is changed. The right to create pods/eviction is needed.
func Verdict(ctx context.Context, client kubernetes.Interface, pod *snapshot.Pod, about string) (eviction.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, verdictPatience)
	defer cancel()
	question := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name,
			Annotations: map[string]string{v1alpha1.VerdictAnnotation: about},
		},
		DeleteOptions: &metav1.DeleteOptions{
			DryRun: []string{metav1.DryRunAll}, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		},
	}
	err := client.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(question).Do(ctx).Error()
	if err == nil {
		return eviction.Verdict{}, ErrNoVerdict
	}
	return verdictIn(err)
}

// verdictIn reads the verdict out of the refusal that carries it.
func verdictIn(err error) (eviction.Verdict, error) {
	if said := apierrors.APIStatus(nil); errors.As(err, &said) {
		if details := said.Status().Details; details != nil {
			if verdict, ok := eviction.ReadAnswer(details.Causes); ok {
				return verdict, nil
			}
		}
	}
	return eviction.Verdict{}, fmt.Errorf("asking for the verdict: %w", err)
}
