package summary

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/nodepressure"
)

// recorded is what a kubelet of Kubernetes 1.37.1 said of three pods, without processors and networks. files-0 had written
// 20 MiB to an emptyDir on disk and 5 MiB to one in memory, and 200 files outside of its volumes.
func recorded(t *testing.T) *Summary {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at is a time of the recording.
func at(clock string) time.Time {
	t, err := time.Parse(time.RFC3339, "2026-11-21T"+clock+"Z")
	if err != nil {
		panic(err)
	}
	return t
}

func TestNodeOfRecording(t *testing.T) {
	object := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("24683848Ki")}}}
	got := recorded(t).Node(object)
	want := nodepressure.Node{
		Name: "worker-1", Memory: 24683848 << 10, Layout: nodepressure.Single,
		Readings: map[nodepressure.Signal]nodepressure.Reading{
			nodepressure.MemoryAvailable:            {Available: 17671409664, Capacity: 25276510208, At: at("09:58:46")},
			nodepressure.AllocatableMemoryAvailable: {Available: 25029431296, Capacity: 25276510208, At: at("09:58:46")},
			nodepressure.NodeFsAvailable:            {Available: 43074199552, Capacity: 270553174016, At: at("09:58:46")},
			nodepressure.NodeFsInodesFree:           {Available: 15815146, Capacity: 16777216, At: at("09:58:46")},
			nodepressure.ImageFsAvailable:           {Available: 43074199552, Capacity: 270553174016, At: at("09:58:41")},
			nodepressure.ImageFsInodesFree:          {Available: 15815146, Capacity: 16777216, At: at("09:58:41")},
			nodepressure.ContainerFsAvailable:       {Available: 43074199552, Capacity: 270553174016, At: at("09:58:41")},
			nodepressure.ContainerFsInodesFree:      {Available: 15815146, Capacity: 16777216, At: at("09:58:41")},
			nodepressure.PIDAvailable:               {Available: 192276, Capacity: 192730, At: at("09:58:47")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func files() corev1.Pod {
	emptyDir := func(medium corev1.StorageMedium) corev1.VolumeSource {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}
	}
	always := corev1.ContainerRestartPolicyAlways
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "files-0", UID: "u-files-0"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "prepare", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "workload"}},
			Volumes: []corev1.Volume{
				{Name: "disk", VolumeSource: emptyDir("")},
				{Name: "memory", VolumeSource: emptyDir(corev1.StorageMediumMemory)},
				{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			},
		},
	}
}

func TestPodsOfRecording(t *testing.T) {
	missing := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache-0", UID: "u-another"}}
	got := recorded(t).Pods([]corev1.Pod{files(), missing})
	if len(got) != 2 || got[0].Name != "files-0" || got[1].Usage != nil {
		t.Fatalf("got %+v; want files-0 and a pod of another UID of which nothing was measured", got)
	}
	want := nodepressure.Usage{
		At: at("09:58:43"), Memory: 10543104, PIDs: 2, DiskAt: at("09:58:22"),
		Disk: map[nodepressure.FsPart]nodepressure.FsUse{
			nodepressure.WritableLayers: {Bytes: 61440, Inodes: 221},
			nodepressure.Logs:           {Bytes: 0, Inodes: 2},
			nodepressure.Volumes:        {Bytes: 20987904, Inodes: 7},
		},
	}
	if diff := cmp.Diff(want, *got[0].Usage); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i, want := range []int64{1024000, 1142784} { // resident, and no swap
		if c := got[0].Containers[i]; c.Usage != want {
			t.Errorf("container %s uses %d, want %d", c.Name, c.Usage, want)
		}
	}
}

// What a kubelet counts as the pod's own use of local disk is what is counted here, but for its hosts file.
func TestDiskOfRecordingIsWhatTheKubeletCounts(t *testing.T) {
	s := recorded(t)
	use := s.Pods([]corev1.Pod{files()})[0].Usage
	var bytes int64
	for _, part := range use.Disk {
		bytes += part.Bytes
	}
	const hosts = 4096
	for i := range s.stats.Pods {
		if p := &s.stats.Pods[i]; p.PodRef.UID == "u-files-0" && number(p.EphemeralStorage.UsedBytes) != bytes+hosts {
			t.Errorf("counted %d, the kubelet %d", bytes, number(p.EphemeralStorage.UsedBytes))
		}
	}
}
