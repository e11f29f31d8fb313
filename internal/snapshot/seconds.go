package snapshot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mostSeconds is a century: no wait is as long, and two of them, which are added somewhere, are still a time.
const mostSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

// Seconds is a time that an object of the API says in seconds, at most a century. The API takes any number of them, and multiplied
// as they are, three centuries would come out as less than nothing.
func Seconds(n int64) time.Duration {
	return time.Duration(min(max(n, -mostSeconds), mostSeconds)) * time.Second
}

const (
	// defaultGrace is what the apiserver gives a pod that names no grace period.
	defaultGrace = 30 * time.Second
	// leastGrace is what apiserver and kubelet make of one below zero.
	leastGrace = time.Second
)

// GraceOf returns how long a pod may take to shut down by its spec.
func GraceOf(pod *corev1.Pod) time.Duration {
	switch seconds := pod.Spec.TerminationGracePeriodSeconds; {
	case seconds == nil:
		return defaultGrace
	case *seconds < 0:
		return leastGrace
	default:
		return Seconds(*seconds)
	}
}
