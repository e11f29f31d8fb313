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
	"usher.sh/usher/internal/system/openstack"
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
func (r *reconciler) open(ctx context.Context, policy *lostnode.Policy) (system.Fence, error) {
	keys, ca, timeout := needs(&policy.Object.Spec.Fence)
	access := system.Access{Timeout: timeout, Loopback: r.Loopback, Secrets: map[v1alpha1.SecretKey][]byte{}}
	for _, key := range keys {
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
	if ca != nil {
		access.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !access.TLS.RootCAs.AppendCertsFromPEM(access.Secrets[*ca]) {
			return nil, fmt.Errorf("entry %q of the Secret %s holds no certificate in PEM", ca.Key, ca.Name)
		}
	}
	return newFence(&policy.Object.Spec.Fence, access)
}

// newFence makes what calls for a fence. It does not connect. Without the values of its Secrets it says what is wrong with the rest, and must not
// be used.
func newFence(declared *v1alpha1.Fence, access system.Access) (system.Fence, error) {
	switch {
	case declared.HTTP != nil:
		return rest.NewFence(declared.HTTP, access)
	case declared.Ironic != nil:
		return openstack.NewFence(declared.Ironic, access)
	}
	return nil, errNotCalled
}

// needs are the entries of Secrets that a fence names, which one of them is its certificate authority, nil: none, and how long one request may take.
func needs(declared *v1alpha1.Fence) (keys []v1alpha1.SecretKey, ca *v1alpha1.SecretKey, timeout time.Duration) {
	switch {
	case declared.HTTP != nil:
		return rest.FenceSecrets(declared.HTTP), declared.HTTP.CA, timeoutOf(declared.HTTP.Timeout)
	case declared.Ironic != nil:
		return openstack.FenceSecrets(declared.Ironic), declared.Ironic.CA, timeoutOf(declared.Ironic.Timeout)
	}
	return nil, nil, 0
}

// timeoutOf is what the schema allows, whatever stands there.
func timeoutOf(said metav1.Duration) time.Duration {
	return min(max(said.Duration, v1alpha1.MinTimeout), v1alpha1.MaxTimeout)
}

func machineOf(node *corev1.Node) system.Machine {
	machine := system.Machine{Node: observe.NodeFacts(node), ProviderID: node.Spec.ProviderID, Addresses: map[string]string{}}
	for _, a := range node.Status.Addresses {
		if _, known := machine.Addresses[string(a.Type)]; !known {
			machine.Addresses[string(a.Type)] = a.Address
		}
	}
	return machine
}
