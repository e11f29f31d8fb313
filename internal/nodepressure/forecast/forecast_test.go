package forecast

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/nodepressure"
)

const mi = 1 << 20

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func pod(name string, qos corev1.PodQOSClass, request, usage int64) nodepressure.Pod {
	return nodepressure.Pod{
		Namespace: "shop", Name: name, UID: types.UID(name), QoS: qos, Grace: 30 * time.Second,
		Requests: nodepressure.Requests{Memory: request * mi},
		Usage:    &nodepressure.Usage{At: noon, Memory: usage * mi, Disk: map[nodepressure.FsPart]nodepressure.FsUse{nodepressure.Logs: {Bytes: usage * mi}}},
	}
}

// question is about a node of 1000Mi with a hard threshold at 100Mi, a soft one at 300Mi, and a disk of 1000Mi.
func question(memory, disk int64) Input {
	return Input{
		Now: noon,
		Node: nodepressure.Node{Name: "worker-1", Memory: 1000 * mi, Layout: nodepressure.Single, Readings: map[nodepressure.Signal]nodepressure.Reading{
			nodepressure.MemoryAvailable: {Available: memory * mi, Capacity: 1000 * mi, At: noon},
			nodepressure.NodeFsAvailable: {Available: disk * mi, Capacity: 1000 * mi, At: noon},
		}},
		Pods: []nodepressure.Pod{
			pod("steady", corev1.PodQOSBurstable, 200, 150), pod("greedy", corev1.PodQOSBurstable, 100, 400), pod("small", corev1.PodQOSBestEffort, 0, 10),
		},
		Config: nodepressure.Config{
			EvictionHard:              map[string]string{"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "15%"},
			EvictionSoft:              map[string]string{"memory.available": "300Mi"},
			EvictionSoftGracePeriod:   map[string]string{"memory.available": "90s"},
			EvictionMaxPodGracePeriod: 20,
		},
		Order: nodepressure.OrderKubelet,
	}
}

// digest is what a test compares of a forecast.
type digest struct {
	Focus      nodepressure.Signal
	Nearest    string
	Headroom   int64 // Mi
	First      string
	Grace      time.Duration
	Conditions []corev1.NodeConditionType
}

func digestOf(t *testing.T, in Input) digest {
	t.Helper()
	f, err := Of(in)
	if err != nil {
		t.Fatal(err)
	}
	got := digest{Conditions: f.Conditions}
	if f.Focus == nil {
		return got
	}
	got.Focus = f.Focus.Name
	if l := f.Focus.Nearest(); l != nil {
		got.Nearest, got.Headroom = l.Threshold.Kind(), l.Headroom/mi
		if l.First != nil {
			got.First, got.Grace = l.First.Pod.Name, l.First.Grace
		}
	}
	return got
}

func TestForecast(t *testing.T) {
	memory := []corev1.NodeConditionType{corev1.NodeMemoryPressure}
	tests := []struct {
		name string
		in   Input
		want digest
	}{
		{
			"nothing is short: memory, which can be short within seconds", question(900, 500),
			digest{nodepressure.MemoryAvailable, "soft", 600, "greedy", 20 * time.Second, nil},
		},
		{
			"a disk that is near its threshold", question(900, 150),
			digest{nodepressure.NodeFsAvailable, "hard", 50, "greedy", time.Second, nil},
		},
		{
			"memory below soft", question(250, 150),
			digest{nodepressure.MemoryAvailable, "soft", -50, "greedy", 20 * time.Second, memory},
		},
		{
			"memory below hard", question(90, 150),
			digest{nodepressure.MemoryAvailable, "hard", -10, "greedy", time.Second, memory},
		},
		{
			"exactly at the threshold is not below it", question(300, 500),
			digest{nodepressure.MemoryAvailable, "soft", 0, "greedy", 20 * time.Second, nil},
		},
		{
			"order qos", with(question(90, 500), func(in *Input) { in.Order = nodepressure.OrderQoS }),
			digest{nodepressure.MemoryAvailable, "hard", -10, "small", time.Second, memory},
		},
		{
			"about the disk", with(question(90, 500), func(in *Input) { in.About = []nodepressure.Signal{nodepressure.NodeFsAvailable} }),
			digest{nodepressure.NodeFsAvailable, "hard", 400, "greedy", time.Second, memory},
		},
		{
			"no pods", with(question(90, 500), func(in *Input) { in.Pods = nil }),
			digest{Focus: nodepressure.MemoryAvailable, Nearest: "hard", Headroom: -10, Conditions: memory},
		},
		{"no readings", with(question(90, 500), func(in *Input) { in.Node.Readings = nil }), digest{}},
		{
			"no thresholds", with(question(90, 500), func(in *Input) { in.Config = nodepressure.Config{EvictionHard: map[string]string{}} }),
			digest{Focus: nodepressure.MemoryAvailable},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, digestOf(t, tt.in)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func with(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

func TestForecastOfEverySignal(t *testing.T) {
	f, err := Of(question(900, 500))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range f.Signals {
		measured := " not measured"
		if s.Reading != nil {
			measured = ""
		}
		for _, l := range s.Levels {
			first := ""
			if l.First != nil {
				first = " " + l.First.Pod.Name
			}
			got = append(got, string(s.Name)+measured+" "+l.Threshold.Kind()+first)
		}
	}
	want := []string{
		"memory.available hard greedy", "memory.available soft greedy",
		"nodefs.available hard greedy",
		"imagefs.available not measured hard",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(f.Skipped) != 1 || f.Skipped[0].Signal != nodepressure.ImageFsAvailable {
		t.Errorf("skipped %v, want imagefs.available alone, which is configured", f.Skipped)
	}
}

// The thresholds of containerfs are derived, and its victim is found all the same.
func TestForecastOfDerivedThresholds(t *testing.T) {
	in := question(900, 500)
	in.Node.Readings[nodepressure.ContainerFsAvailable] = in.Node.Readings[nodepressure.NodeFsAvailable]
	in.About = []nodepressure.Signal{nodepressure.ContainerFsAvailable}
	want := digest{nodepressure.ContainerFsAvailable, "hard", 400, "greedy", time.Second, nil}
	if diff := cmp.Diff(want, digestOf(t, in)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNoScoreWithoutRequests(t *testing.T) {
	in := question(900, 500)
	for i := range in.Pods {
		in.Pods[i].Containers = []nodepressure.Container{{Name: "main", Usage: mi}}
	}
	in.Pods[0].QoS = ""
	f, err := Of(in)
	if err != nil || len(f.OOM) != 2 {
		t.Errorf("%d containers with a score, want 2, without that of the pod of unknown class; %v", len(f.OOM), err)
	}
}

func TestThresholdsThatAreWrong(t *testing.T) {
	in := question(900, 500)
	in.Config.EvictionHard["memory.available"] = "much"
	if _, err := Of(in); err == nil {
		t.Error("no error")
	}
}
