package manager

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/snapshot"
)

// secretsRole is the ClusterRole that a namespace binds to let Usher read its Secrets, and the name of such bindings.
const secretsRole = "usher-secrets"

// configMapsRole is the same for its ConfigMaps.
const configMapsRole = "usher-configmaps"

// secrets reads what policies refer to, Secrets and ConfigMaps, where their namespace has allowed it. None is kept, and none of any other
// namespace can be read.
type secrets struct {
	client kubernetes.Interface
	self   string // who this process is to the apiserver
}

func (s secrets) read(ctx context.Context, key snapshot.Key) (*corev1.Secret, error) {
	secret, err := s.client.CoreV1().Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("the manager may not read Secrets of namespace %s; allow it: %s", key.Namespace, s.binding(secretsRole, key.Namespace))
	}
	return secret, err
}

func (s secrets) configMap(ctx context.Context, key snapshot.Key) (*corev1.ConfigMap, error) {
	found, err := s.client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("the manager may not read ConfigMaps of namespace %s; allow it: %s", key.Namespace, s.binding(configMapsRole, key.Namespace))
	}
	return found, err
}

// binding is the command that allows it.
func (s secrets) binding(role, namespace string) string {
	subject := "--user=" + s.self
	if account, ok := strings.CutPrefix(s.self, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + account
	}
	return fmt.Sprintf("kubectl create rolebinding %s -n %s --clusterrole=%s %s", role, namespace, role, subject)
}
