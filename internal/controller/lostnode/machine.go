package lostnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// observe looks whether the machine is off. Whatever goes wrong makes it Unknown.
func (r *reconciler) observe(ctx context.Context, in *lostnode.Case, node *corev1.Node) *v1alpha1.FenceObservation {
	look := &v1alpha1.FenceObservation{State: v1alpha1.PowerUnknown}
	fence, err := r.open(ctx, in.Policy)
	if err != nil {
		look.Message = err.Error()
	} else {
		look.State, look.Message = fence.State(ctx, machineOf(node))
		fence.Close()
	}
	look.Time = metav1.NewTime(r.Now().UTC().Truncate(time.Second))
	return look
}

// call asks for the machine to be turned off, once.
func (r *reconciler) call(ctx context.Context, in *lostnode.Case, node *corev1.Node) *lostnode.Answer {
	fence, err := r.open(ctx, in.Policy)
	if err != nil {
		return &lostnode.Answer{Result: v1alpha1.RequestNotSent, Message: err.Error()}
	}
	defer fence.Close()
	result, message := fence.Off(ctx, machineOf(node))
	return &lostnode.Answer{Result: result, Message: message}
}

// open makes a client of a policy's fence, with the Secrets that it names.
func (r *reconciler) open(ctx context.Context, policy *lostnode.Policy) (*rest.Fence, error) {
	spec := policy.Object.Spec.Fence.HTTP
	if spec == nil {
		return nil, errNoHTTP
	}
	access := system.Access{Timeout: timeoutOf(spec), Loopback: r.Loopback, Secrets: map[v1alpha1.SecretKey][]byte{}}
	for _, key := range rest.FenceSecrets(spec) {
		secret, err := r.Secret(ctx, snapshot.Key{Namespace: r.Namespace, Name: key.Name})
		if err != nil {
			return nil, fmt.Errorf("reading the Secret %s of namespace %s: %w", key.Name, r.Namespace, err)
		}
		value, ok := secret.Data[key.Key]
		if !ok {
			return nil, fmt.Errorf("the Secret %s of namespace %s has no entry %q: add it, or name another in the policy", key.Name, r.Namespace, key.Key)
		}
		access.Secrets[key] = value
	}
	if spec.CA != nil {
		access.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !access.TLS.RootCAs.AppendCertsFromPEM(access.Secrets[*spec.CA]) {
			return nil, fmt.Errorf("entry %q of the Secret %s holds no certificate in PEM", spec.CA.Key, spec.CA.Name)
		}
	}
	return rest.NewFence(spec, access)
}

// timeoutOf is what the schema allows, whatever stands there.
func timeoutOf(spec *v1alpha1.HTTPFence) time.Duration {
	return min(max(spec.Timeout.Duration, v1alpha1.MinTimeout), v1alpha1.MaxTimeout)
}

func machineOf(node *corev1.Node) rest.Machine {
	machine := rest.Machine{Node: observe.NodeFacts(node), ProviderID: node.Spec.ProviderID, Addresses: map[string]string{}}
	for _, a := range node.Status.Addresses {
		if _, known := machine.Addresses[string(a.Type)]; !known {
			machine.Addresses[string(a.Type)] = a.Address
		}
	}
	return machine
}
