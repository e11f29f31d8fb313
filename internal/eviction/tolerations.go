package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// defaultSeconds is what the apiserver's DefaultTolerationSeconds plugin gives to pods without a toleration.
const defaultSeconds = 300

// Tolerations returns all tolerations of a new pod of the role that came with own: what its author set for a taint stays,
// wildcards included, and the role's are added for the others. The apiserver's own defaults are there already when a
// webhook is asked, so what looks exactly like one of them is taken for it and replaced; an author who wants those 300 s
// says so in the role.
func Tolerations(role *v1alpha1.Role, own []corev1.Toleration) []corev1.Toleration {
	result := slices.Clone(own)
	result = tolerate(result, corev1.TaintNodeNotReady, role.Tolerations.NotReady)
	return tolerate(result, corev1.TaintNodeUnreachable, role.Tolerations.Unreachable)
}

func tolerate(own []corev1.Toleration, taint string, wanted *v1alpha1.Toleration) []corev1.Toleration {
	if wanted == nil {
		return own
	}
	toleration := corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !wanted.Forever {
		toleration.TolerationSeconds = wanted.Seconds
	}
	at := slices.IndexFunc(own, func(t corev1.Toleration) bool { return isDefault(&t, taint) })
	others := func(t corev1.Toleration) bool { return covers(&t, taint) && !isDefault(&t, taint) }
	switch {
	case slices.ContainsFunc(own, others):
		return own
	case at >= 0:
		own[at] = toleration
		return own
	}
	return append(own, toleration)
}

// covers is how the plugin sees it: an empty key or effect stands for all.
func covers(t *corev1.Toleration, taint string) bool {
	return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
}

func isDefault(t *corev1.Toleration, taint string) bool {
	return t.Key == taint && t.Operator == corev1.TolerationOpExists && t.Effect == corev1.TaintEffectNoExecute &&
		t.TolerationSeconds != nil && *t.TolerationSeconds == defaultSeconds
}
