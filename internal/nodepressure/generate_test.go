package nodepressure

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

var classes = []corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}

// drawPods draws pods that differ little, so that what is equal is common.
func drawPods(t *rapid.T, most int) []Pod {
	pods := make([]Pod, rapid.IntRange(0, most).Draw(t, "pods"))
	for i := range pods {
		pods[i] = drawPod(t, i)
	}
	return pods
}

func drawPod(t *rapid.T, i int) Pod {
	size := rapid.SampledFrom([]int64{0, 1, 2, 5 * mi, 50 * mi, 300 * mi})
	p := Pod{
		Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"),
		Name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"),
		UID:       types.UID(fmt.Sprintf("uid-%d", i)),
		Priority:  rapid.SampledFrom([]int32{-1, 0, 5}).Draw(t, "priority"),
		QoS:       rapid.SampledFrom(classes).Draw(t, "class"),
		Requests:  Requests{Memory: size.Draw(t, "request"), Disk: size.Draw(t, "disk request")},
		DaemonSet: rapid.IntRange(0, 9).Draw(t, "daemon set") == 0,
		Governed:  rapid.IntRange(0, 2).Draw(t, "governed") == 0,
		Grace:     rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 10 * time.Minute}).Draw(t, "grace"),
	}
	if p.QoS == corev1.PodQOSBestEffort {
		p.Requests.Memory = 0
	}
	if rapid.IntRange(0, 9).Draw(t, "exempt") == 0 {
		p.Exempt = ExemptCritical
	}
	if p.Governed && rapid.Bool().Draw(t, "last resort") {
		p.OnPressure = v1alpha1.PressureLastResort
	}
	if rapid.IntRange(0, 5).Draw(t, "unknown") > 0 {
		u := &Usage{At: noon, Memory: size.Draw(t, "memory"), PIDs: rapid.Int64Range(0, 9).Draw(t, "pids"), Disk: map[FsPart]FsUse{}}
		for _, part := range []FsPart{WritableLayers, Logs, Volumes} {
			u.Disk[part] = FsUse{Bytes: size.Draw(t, "bytes"), Inodes: rapid.Int64Range(0, 200).Draw(t, "inodes")}
		}
		p.Usage = u
	}
	return p
}

func drawThresholds(t *rapid.T) []Threshold {
	out := []Threshold{hard(MemoryAvailable, "100Mi"), soft(MemoryAvailable, "200Mi", 20*time.Second)}
	if rapid.Bool().Draw(t, "reclaim") {
		for i := range out {
			out[i].MinReclaim = Value{Quantity: resource.MustParse("50Mi")}
		}
	}
	return out
}
