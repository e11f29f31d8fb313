package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// TaintEnd returns when Kubernetes evicts a pod for the NoExecute taints of its node: when the first of its tolerations for
// them has run out, at once where it has none. It returns false where the pod tolerates all of them for good.
//
// A taint counts from when it was added, or from when since says where the taint does not say; no toleration begins before
// the pod was created. The rule is that of Kubernetes' taint-eviction-controller, which takes the first toleration that
// matches a taint.
func TaintEnd(taints []corev1.Taint, tolerations []corev1.Toleration, created time.Time, since func(*corev1.Taint) time.Time) (end time.Time, ends bool) {
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		lasts, forever := tolerated(taint, tolerations)
		if forever {
			continue
		}
		begin := since(taint)
		if created.After(begin) {
			begin = created
		}
		if at := begin.Add(lasts); !ends || at.Before(end) {
			end, ends = at, true
		}
	}
	return end, ends
}

// tolerated returns for how long a taint is tolerated.
func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) (lasts time.Duration, forever bool) {
	for i := range tolerations {
		toleration := &tolerations[i]
		if !snapshot.Tolerates(toleration, taint) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return 0, true
		}
		return max(0, snapshot.Seconds(*toleration.TolerationSeconds)), false
	}
	return 0, false
}
