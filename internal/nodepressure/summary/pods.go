package summary

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"usher.sh/usher/internal/nodepressure"
)

// configHash is the annotation by which a mirror pod names the static pod that it stands for: the kubelet measures that one.
const configHash = "kubernetes.io/config.hash"

// Pods returns the pods with what was measured of them; Usage stays nil where nothing was. What was measured of other
// pods is left out.
func (s *Summary) Pods(objects []corev1.Pod) []nodepressure.Pod {
	measured := map[string]*stats.PodStats{}
	for i := range s.stats.Pods {
		measured[s.stats.Pods[i].PodRef.UID] = &s.stats.Pods[i]
	}
	pods := make([]nodepressure.Pod, 0, len(objects))
	for i := range objects {
		pod := nodepressure.PodOf(&objects[i])
		found := measured[string(objects[i].UID)]
		// Any user can write the annotation on a pod of their own; what is marked as a mirror pod is not run from the API.
		if _, mirror := objects[i].Annotations[corev1.MirrorPodAnnotationKey]; found == nil && mirror {
			found = measured[objects[i].Annotations[configHash]]
		}
		if found != nil {
			use(&pod, found, onDisk(&objects[i]))
		}
		pods = append(pods, pod)
	}
	return pods
}

// Measured returns all pods of the summary. Nothing else is known of them: their QoS class is empty, they have no
// priority and no requests, and every volume that is not claimed counts as one on local disk.
func (s *Summary) Measured() []nodepressure.Pod {
	pods := make([]nodepressure.Pod, 0, len(s.stats.Pods))
	for i := range s.stats.Pods {
		found := &s.stats.Pods[i]
		pod := nodepressure.Pod{Namespace: found.PodRef.Namespace, Name: found.PodRef.Name, UID: types.UID(found.PodRef.UID)}
		for j := range found.Containers {
			pod.Containers = append(pod.Containers, nodepressure.Container{Name: found.Containers[j].Name, Usage: -1})
		}
		use(&pod, found, func(v *stats.VolumeStats) bool { return v.PVCRef == nil })
		pods = append(pods, pod)
	}
	return pods
}

// onDisk returns which volumes of a pod take up the node's own disk, as the kubelet counts them.
func onDisk(object *corev1.Pod) func(*stats.VolumeStats) bool {
	local := map[string]bool{}
	for _, v := range object.Spec.Volumes {
		disk := v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
		local[v.Name] = disk || v.ConfigMap != nil || v.GitRepo != nil || v.HostPath != nil
	}
	return func(v *stats.VolumeStats) bool { return local[v.Name] }
}

// use enters what was measured of a pod.
func use(pod *nodepressure.Pod, found *stats.PodStats, counts func(*stats.VolumeStats) bool) {
	u := &nodepressure.Usage{Disk: disk(found, counts), DiskAt: diskAt(found, counts)}
	if found.Memory != nil {
		u.At, u.Memory = found.Memory.Time.Time, number(found.Memory.WorkingSetBytes)
	}
	if found.ProcessStats != nil {
		u.PIDs = number(found.ProcessStats.ProcessCount)
	}
	pod.Usage = u
	for i := range pod.Containers {
		for j := range found.Containers {
			if found.Containers[j].Name == pod.Containers[i].Name {
				useContainer(&pod.Containers[i], &found.Containers[j])
			}
		}
	}
}

func useContainer(c *nodepressure.Container, found *stats.ContainerStats) {
	if found.Memory != nil {
		c.WorkingSet = number(found.Memory.WorkingSetBytes)
		if found.Memory.RSSBytes != nil {
			c.Usage = number(found.Memory.RSSBytes)
			if found.Swap != nil {
				c.Usage += number(found.Swap.SwapUsageBytes)
			}
		}
	}
	if found.Rootfs != nil && found.Logs != nil {
		c.Disk = number(found.Rootfs.UsedBytes) + number(found.Logs.UsedBytes)
	}
}

// disk has no entry for a part of which nothing was measured.
func disk(found *stats.PodStats, counts func(*stats.VolumeStats) bool) map[nodepressure.FsPart]nodepressure.FsUse {
	parts := map[nodepressure.FsPart]nodepressure.FsUse{}
	add := func(part nodepressure.FsPart, fs *stats.FsStats) {
		if fs == nil || (fs.UsedBytes == nil && fs.InodesUsed == nil) {
			return
		}
		sum := parts[part]
		sum.Bytes += number(fs.UsedBytes)
		sum.Inodes += number(fs.InodesUsed)
		parts[part] = sum
	}
	for i := range found.Containers {
		add(nodepressure.WritableLayers, found.Containers[i].Rootfs)
		add(nodepressure.Logs, found.Containers[i].Logs)
	}
	seen := map[string]bool{}
	for i := range found.VolumeStats {
		if v := &found.VolumeStats[i]; counts(v) && !seen[v.Name] {
			seen[v.Name] = true
			add(nodepressure.Volumes, &v.FsStats)
		}
	}
	return parts
}

// diskAt is when the oldest of the measures on disk was taken: volumes are walked once a minute.
func diskAt(found *stats.PodStats, counts func(*stats.VolumeStats) bool) (oldest time.Time) {
	note := func(fs *stats.FsStats) {
		if fs != nil && !fs.Time.IsZero() && (oldest.IsZero() || fs.Time.Time.Before(oldest)) {
			oldest = fs.Time.Time
		}
	}
	for i := range found.Containers {
		note(found.Containers[i].Rootfs)
		note(found.Containers[i].Logs)
	}
	for i := range found.VolumeStats {
		if v := &found.VolumeStats[i]; counts(v) {
			note(&v.FsStats)
		}
	}
	return oldest
}
