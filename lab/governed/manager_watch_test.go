package governed

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// mostAway follows pods until the watch ends and returns how many were on their way at the same time at most. A pod that is
// gone is not on its way any more: whether the next may go while it is not back is for the system to say.
func mostAway(events <-chan watch.Event, away map[string]bool) int {
	most := 0
	for e := range events {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if _, known := away[pod.Name]; !known {
			continue
		}
		away[pod.Name] = e.Type != watch.Deleted && pod.DeletionTimestamp != nil
		n := 0
		for _, gone := range away {
			if gone {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
