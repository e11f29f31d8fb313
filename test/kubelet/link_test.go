package kubelet

import (
	"context"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
)

// statsFunc looks up what a pod uses.
type statsFunc = func(*corev1.Pod) (stats.PodStats, bool)

// The kubelet keeps these to itself.

//go:linkname rankMemoryPressure k8s.io/kubernetes/pkg/kubelet/eviction.rankMemoryPressure
func rankMemoryPressure(pods []*corev1.Pod, stats statsFunc)

//go:linkname rankPIDPressure k8s.io/kubernetes/pkg/kubelet/eviction.rankPIDPressure
func rankPIDPressure(pods []*corev1.Pod, stats statsFunc)

//go:linkname rankDiskPressureFunc k8s.io/kubernetes/pkg/kubelet/eviction.rankDiskPressureFunc
func rankDiskPressureFunc(parts []string, resource corev1.ResourceName) func([]*corev1.Pod, statsFunc)

//go:linkname synchronizeManager k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).synchronize
func synchronizeManager(manager unsafe.Pointer, ctx context.Context, disk eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*corev1.Pod, error)

// synchronize is one look of the kubelet at its node.
func synchronize(ctx context.Context, m eviction.Manager, disk eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*corev1.Pod, error) {
	pointer := (*[2]unsafe.Pointer)(unsafe.Pointer(&m))[1] // an interface is a type and a pointer
	return synchronizeManager(pointer, ctx, disk, pods)
}
