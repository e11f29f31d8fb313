package eviction

import (
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Tolerations returns what a pod of the role gets at creation beside own, the tolerations it has.
func Tolerations(role *v1alpha1.Role, own []corev1.Toleration) []corev1.Toleration { return nil }
