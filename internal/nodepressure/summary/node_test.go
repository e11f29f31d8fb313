package summary

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"usher.sh/usher/internal/nodepressure"
)

// of passes a summary through its JSON, as it comes from a kubelet.
func of(t *testing.T, made stats.Summary) *Summary {
	t.Helper()
	if made.Node.NodeName == "" {
		made.Node.NodeName = "worker-1"
	}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memory(available, used uint64) *stats.MemoryStats {
	return &stats.MemoryStats{AvailableBytes: &available, WorkingSetBytes: &used}
}

func fileSystem(capacity, available, inodes uint64) *stats.FsStats {
	return &stats.FsStats{CapacityBytes: &capacity, AvailableBytes: &available, Inodes: &inodes, InodesFree: &inodes}
}

func podsCgroup(m *stats.MemoryStats) []stats.ContainerStats {
	return []stats.ContainerStats{{Name: "kubelet", Memory: memory(1, 1)}, {Name: "pods", Memory: m}}
}

func TestUseBeyondTheLimitIsBelowZero(t *testing.T) {
	var wrapped uint64
	wrapped -= 4096 // as the kubelet subtracts
	s := of(t, stats.Summary{Node: stats.NodeStats{SystemContainers: podsCgroup(memory(wrapped, 104096))}})
	got := s.Node(nil).Readings[nodepressure.AllocatableMemoryAvailable]
	if got.Available != -4096 || got.Capacity != 100000 {
		t.Errorf("%+v, want -4096 of 100000", got)
	}
}

func TestMissingMeasuresAreNoReadings(t *testing.T) {
	number := uint64(7)
	pids := int64(7)
	s := of(t, stats.Summary{Node: stats.NodeStats{
		Memory:           &stats.MemoryStats{AvailableBytes: &number},
		SystemContainers: []stats.ContainerStats{{Name: "pods"}},
		Fs:               &stats.FsStats{AvailableBytes: &number, InodesFree: &number},
		Runtime:          &stats.RuntimeStats{ImageFs: &stats.FsStats{CapacityBytes: &number}},
		Rlimit:           &stats.RlimitStats{MaxPID: &pids},
	}})
	if diff := cmp.Diff(nodepressure.Node{Name: "worker-1", Layout: nodepressure.Single, Readings: map[nodepressure.Signal]nodepressure.Reading{}}, s.Node(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !s.At().IsZero() {
		t.Errorf("measured at %s, want no time", s.At())
	}
}

func TestLayout(t *testing.T) {
	const gi = 1 << 30
	system, data := fileSystem(100*gi, 50*gi, 1000), fileSystem(500*gi, 400*gi, 9000)
	tests := []struct {
		name                    string
		node, images, container *stats.FsStats
		want                    nodepressure.Layout
	}{
		{"one", system, system, system, nodepressure.Single},
		{"measured a moment later", system, fileSystem(100*gi, 49*gi, 1000), fileSystem(100*gi, 49*gi, 1000), nodepressure.Single},
		{"images and containers apart", system, data, data, nodepressure.DedicatedImages},
		{"images apart", system, data, system, nodepressure.SplitImages},
		{"two of one size", system, fileSystem(100*gi, 90*gi, 1000), fileSystem(100*gi, 90*gi, 1000), nodepressure.DedicatedImages},
		{"other number of inodes", system, fileSystem(100*gi, 50*gi, 2000), fileSystem(100*gi, 50*gi, 2000), nodepressure.DedicatedImages},
		{"no measure of images", system, nil, nil, nodepressure.Single},
		{"no measure of containers", system, data, nil, nodepressure.DedicatedImages},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := of(t, stats.Summary{Node: stats.NodeStats{Fs: tt.node, Runtime: &stats.RuntimeStats{ImageFs: tt.images, ContainerFs: tt.container}}})
			if got := s.Node(nil).Layout; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if got := of(t, stats.Summary{}).Node(nil).Layout; got != nodepressure.Single {
		t.Errorf("nothing measured: %s", got)
	}
}

func TestDaemonsAreWhatIsUsedOutsideOfPods(t *testing.T) {
	tests := []struct {
		name       string
		node, pods *stats.MemoryStats
		want       nodepressure.Daemons
	}{
		{"within", memory(600, 400), memory(500, 300), nodepressure.Daemons{Known: true, MemoryUsage: 100, MemoryReserved: 200}},
		{"beyond", memory(300, 700), memory(500, 300), nodepressure.Daemons{Known: true, MemoryUsage: 400, MemoryReserved: 200}},
		{"nothing reserved", memory(600, 400), memory(700, 300), nodepressure.Daemons{}},
		{"pods have no limit", memory(600, 400), nil, nodepressure.Daemons{}},
		{"pods measured a moment later", memory(900, 100), memory(500, 300), nodepressure.Daemons{Known: true, MemoryUsage: 0, MemoryReserved: 200}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := of(t, stats.Summary{Node: stats.NodeStats{Memory: tt.node, SystemContainers: podsCgroup(tt.pods)}})
			if diff := cmp.Diff(tt.want, s.Node(nil).Daemons); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func podStats(uid string, used uint64) stats.PodStats {
	return stats.PodStats{PodRef: stats.PodReference{Namespace: "shop", Name: uid, UID: uid}, Memory: memory(0, used)}
}

func TestMirrorPodIsMeasuredAsTheStaticPodThatItStandsFor(t *testing.T) {
	s := of(t, stats.Summary{Pods: []stats.PodStats{podStats("hash", 5)}})
	mirror := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "proxy", UID: "u-api", Annotations: map[string]string{
		corev1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.hash": "hash",
	}}}
	got := s.Pods([]corev1.Pod{mirror})[0]
	if got.Usage == nil || got.Usage.Memory != 5 || got.UID != "u-api" {
		t.Errorf("got %+v", got)
	}
	delete(mirror.Annotations, corev1.MirrorPodAnnotationKey)
	if got := s.Pods([]corev1.Pod{mirror})[0]; got.Usage != nil {
		t.Errorf("measured as a pod of which it has the UID written on it: %+v", got.Usage)
	}
}

func TestMeasuredPodsWithoutObjects(t *testing.T) {
	bytes := uint64(9)
	p := podStats("u-1", 5)
	p.Containers = []stats.ContainerStats{{Name: "main"}}
	p.VolumeStats = []stats.VolumeStats{
		{Name: "scratch", FsStats: stats.FsStats{UsedBytes: &bytes}},
		{Name: "scratch", FsStats: stats.FsStats{UsedBytes: &bytes}},
		{Name: "claimed", FsStats: stats.FsStats{UsedBytes: &bytes}, PVCRef: &stats.PVCReference{Name: "claim"}},
	}
	got := of(t, stats.Summary{Pods: []stats.PodStats{p}}).Measured()
	want := []nodepressure.Pod{{
		Namespace: "shop", Name: "u-1", UID: "u-1", Containers: []nodepressure.Container{{Name: "main", Usage: -1}},
		Usage: &nodepressure.Usage{Memory: 5, Disk: map[nodepressure.FsPart]nodepressure.FsUse{nodepressure.Volumes: {Bytes: 9}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
