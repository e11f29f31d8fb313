package nodepressure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seen is one look of a story: what is seen after what time, and what must come of it.
type seen struct {
	after   time.Duration
	avail   int64
	stale   bool   // the reading is the one of the look before
	missing bool   // there is none
	under   string // conditions
	victim  string // name and grace
	skipped string // reasons
}

type story struct {
	thresholds []Threshold
	layout     Layout
	config     Config
	order      Order
	signal     Signal
	capacity   int64
	pods       []Pod
	looks      []seen
}

func (s *story) play(t *testing.T) {
	t.Helper()
	var state State
	now, at := noon, noon
	for i, l := range s.looks {
		now = now.Add(l.after)
		if !l.stale {
			at = now
		}
		node := Node{Layout: s.layout, Readings: map[Signal]Reading{}}
		if !l.missing {
			node.Readings[s.signal] = Reading{Available: l.avail, Capacity: max(s.capacity, 1), At: at}
		}
		before := fmt.Sprintf("%+v", state)
		next, out := state.Step(Input{Now: now, Node: node, Pods: s.pods, Thresholds: s.thresholds, Config: s.config, Order: s.order})
		if after := fmt.Sprintf("%+v", state); after != before {
			t.Fatalf("look %d changed the state it was given", i)
		}
		got := seen{under: fmt.Sprint(out.Conditions), victim: "", skipped: ""}
		if out.Victim != nil {
			got.victim = out.Victim.Pod.Name + " " + out.Victim.Grace.String()
		}
		for _, k := range out.Skipped {
			got.skipped += string(k.Reason)
		}
		if l.under == "" {
			l.under = "[]"
		}
		if got.under != l.under || got.victim != l.victim || got.skipped != l.skipped {
			t.Errorf("look %d: conditions %s, victim %q, skipped %q; want %s, %q, %q", i, got.under, got.victim, got.skipped, l.under, l.victim, l.skipped)
		}
		state = next
	}
}

const (
	underMemory = "[MemoryPressure]"
	underDisk   = "[DiskPressure]"
	underPID    = "[PIDPressure]"
)

func maxGrace(seconds int32) Config {
	return Config{EvictionMaxPodGracePeriod: seconds, EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute}}
}

// Numbers are those of the kubelet's own cases.
func TestStep(t *testing.T) {
	const low, high = -1, 1
	memory := []Pod{
		withPriority(memoryPod("guaranteed-low-priority-high-usage", corev1.PodQOSGuaranteed, gi, 900*mi), low),
		memoryPod("burstable-below", corev1.PodQOSBurstable, 100*mi, 50*mi),
		memoryPod("burstable-above", corev1.PodQOSBurstable, 100*mi, 400*mi),
		withPriority(memoryPod("best-effort-high", corev1.PodQOSBestEffort, 0, 400*mi), high),
		withPriority(memoryPod("best-effort-low", corev1.PodQOSBestEffort, 0, 100*mi), low),
	}
	pids := []Pod{memoryPod("few", corev1.PodQOSBurstable, 0, 0), withPriority(memoryPod("low-many", corev1.PodQOSBurstable, 0, 0), low)}
	pids[0].Usage.PIDs, pids[1].Usage.PIDs = 900, 300
	disk := []Pod{
		diskPod("above", 0, 100*mi, space(500), FsUse{}, FsUse{}), diskPod("below", low, gi, space(900), FsUse{}, FsUse{}),
	}
	oneGi, oneGiAndMore := hard(MemoryAvailable, "1Gi"), hard(MemoryAvailable, "1Gi")
	oneGiAndMore.MinReclaim = Value{Quantity: resource.MustParse("500Mi")}
	softTwo := soft(MemoryAvailable, "2Gi", 2*time.Minute)
	long, short := []Pod{memory[4]}, []Pod{memory[4]}
	long[0].Grace, short[0].Grace = time.Hour, 3*time.Second

	for name, test := range map[string]story{
		"102 memory": {signal: MemoryAvailable, thresholds: []Threshold{oneGi, softTwo}, pods: memory, config: maxGrace(5), looks: []seen{
			{avail: 2 * gi},
			{after: time.Minute, avail: 1500 * mi, under: underMemory},
			{after: 3 * time.Minute, avail: 1500 * mi, under: underMemory, victim: "best-effort-low 5s"},
			{after: 20 * time.Minute, avail: 3 * gi},
			{after: time.Minute, avail: 500 * mi, under: underMemory, victim: "best-effort-low 1s"},
			{after: time.Minute, avail: 2 * gi, under: underMemory},
			{after: 5 * time.Minute, avail: 2 * gi},
		}},
		"103 pids": {signal: PIDAvailable, thresholds: []Threshold{hard(PIDAvailable, "1200"), soft(PIDAvailable, "1500", 2*time.Minute)}, pods: pids, config: maxGrace(5), looks: []seen{
			{avail: 2000},
			{after: time.Minute, avail: 1300, under: underPID},
			{after: 3 * time.Minute, avail: 1300, under: underPID, victim: "low-many 5s"},
			{after: 20 * time.Minute, avail: 3000},
			{after: time.Minute, avail: 500, under: underPID, victim: "low-many 1s"},
		}},
		"105 disk": {signal: NodeFsAvailable, thresholds: []Threshold{hard(NodeFsAvailable, "1Gi"), soft(NodeFsAvailable, "2Gi", 2*time.Minute)}, pods: disk, config: maxGrace(5), looks: []seen{
			{avail: 16 * gi},
			{after: time.Minute, avail: 1500 * mi, under: underDisk},
			{after: 3 * time.Minute, avail: 1500 * mi, under: underDisk, victim: "above 5s"},
			{after: 20 * time.Minute, avail: 16 * gi},
			{after: time.Minute, avail: 1000 * mi, under: underDisk, victim: "above 1s"},
			{after: time.Minute, avail: 16 * gi, under: underDisk},
			{after: 5 * time.Minute, avail: 16 * gi},
		}},
		"107 disk of containers on the kubelet's, from the first look": {signal: ContainerFsAvailable, layout: SplitImages, thresholds: []Threshold{hard(NodeFsAvailable, "1Gi")}, pods: disk, looks: []seen{
			{avail: 500 * mi, under: underDisk, victim: "above 1s", skipped: "Missing"},
		}},
		"108 minimum reclaim": {signal: MemoryAvailable, thresholds: []Threshold{oneGiAndMore}, pods: memory, looks: []seen{
			{avail: 2 * gi},
			{after: time.Minute, avail: 500 * mi, under: underMemory, victim: "best-effort-low 1s"},
			{after: time.Minute, avail: bytes("1.2Gi"), under: underMemory, victim: "best-effort-low 1s"},
			{after: time.Minute, avail: 2 * gi, under: underMemory},
			{after: 5 * time.Minute, avail: 2 * gi},
		}},
		"126 allocatable memory": {signal: AllocatableMemoryAvailable, thresholds: []Threshold{hard(AllocatableMemoryAvailable, "1Gi")}, pods: memory, looks: []seen{
			{avail: 2 * gi},
			{after: time.Minute, avail: 500 * mi, under: underMemory, victim: "best-effort-low 1s"},
		}},
		"116 only exempt pods": {signal: MemoryAvailable, thresholds: []Threshold{oneGi}, pods: []Pod{{Exempt: ExemptCritical}}, looks: []seen{{avail: 1, under: underMemory}}},
		"no pods at all":       {signal: MemoryAvailable, thresholds: []Threshold{oneGi}, looks: []seen{{avail: 1, under: underMemory}}},
		"57, 59, 60 an old reading": {signal: MemoryAvailable, thresholds: []Threshold{oneGi}, pods: memory, looks: []seen{
			{avail: 1, under: underMemory, victim: "best-effort-low 1s"},
			{after: time.Minute, stale: true, avail: 1, under: underMemory, skipped: "Stale"},
			{after: time.Minute, avail: 1, under: underMemory, victim: "best-effort-low 1s"},
		}},
		"58 a signal that was not read before": {signal: MemoryAvailable, thresholds: []Threshold{oneGi}, pods: memory, looks: []seen{
			{avail: 1, under: underMemory, victim: "best-effort-low 1s"},
			{after: time.Minute, missing: true, under: underMemory, skipped: "Missing"},
			{after: time.Minute, avail: 1, under: underMemory, victim: "best-effort-low 1s"},
		}},
		"63, 64 grace begins anew": {signal: MemoryAvailable, thresholds: []Threshold{softTwo}, pods: memory, config: maxGrace(5), looks: []seen{
			{avail: gi, under: underMemory},
			{after: time.Minute, avail: 2 * gi, under: underMemory},
			{after: time.Minute, avail: gi, under: underMemory},
			{after: 2*time.Minute - 1, avail: gi, under: underMemory},
			{after: 1, avail: gi, under: underMemory, victim: "best-effort-low 5s"},
		}},
		"73 within the transition": {signal: MemoryAvailable, thresholds: []Threshold{oneGi}, looks: []seen{
			{avail: 1, under: underMemory}, {after: 5*time.Minute - 1, avail: gi, under: underMemory}, {after: 1, avail: gi},
		}},
		"grace is the pod's where that is shorter": {signal: MemoryAvailable, thresholds: []Threshold{softTwo}, pods: short, config: maxGrace(5), looks: []seen{
			{avail: gi, under: underMemory}, {after: time.Hour, avail: gi, under: underMemory, victim: "best-effort-low 3s"},
		}},
		"differs: a negative longest grace leaves the pod its own": {signal: MemoryAvailable, thresholds: []Threshold{softTwo}, pods: long, config: maxGrace(-1), looks: []seen{
			{avail: gi, under: underMemory}, {after: time.Hour, avail: gi, under: underMemory, victim: "best-effort-low 1h0m0s"},
		}},
		"differs: the hard threshold decides where a soft one is due too": {signal: MemoryAvailable, thresholds: []Threshold{softTwo, oneGi}, pods: long, config: maxGrace(600), looks: []seen{
			{avail: 1500 * mi, under: underMemory}, {after: time.Hour, avail: 500 * mi, under: underMemory, victim: "best-effort-low 1s"},
		}},
		"order qos": {signal: MemoryAvailable, order: OrderQoS, thresholds: []Threshold{oneGi}, pods: memory, looks: []seen{{avail: 1, under: underMemory, victim: "best-effort-high 1s"}}},
	} {
		t.Run(name, func(t *testing.T) { test.play(t) })
	}
}

func TestStepSorts(t *testing.T) {
	for name, test := range map[string]struct{ due, want []Threshold }{
		"41 nothing": {nil, nil},
		"42 memory first": {
			[]Threshold{hard(NodeFsAvailable, "1"), hard(PIDAvailable, "1"), soft(MemoryAvailable, "1", 1)},
			[]Threshold{soft(MemoryAvailable, "1", 1), hard(NodeFsAvailable, "1"), hard(PIDAvailable, "1")},
		},
		"43 allocatable first": {
			[]Threshold{hard(NodeFsAvailable, "1"), hard(PIDAvailable, "1"), hard(AllocatableMemoryAvailable, "1")},
			[]Threshold{hard(AllocatableMemoryAvailable, "1"), hard(NodeFsAvailable, "1"), hard(PIDAvailable, "1")},
		},
		"hard first": {
			[]Threshold{soft(MemoryAvailable, "1", 1), hard(AllocatableMemoryAvailable, "1"), soft(NodeFsAvailable, "1", 1), hard(PIDAvailable, "1")},
			[]Threshold{hard(AllocatableMemoryAvailable, "1"), soft(MemoryAvailable, "1", 1), hard(PIDAvailable, "1"), soft(NodeFsAvailable, "1", 1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sortDue(test.due)
			if diff := cmp.Diff(text(test.want), text(test.due)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// 109 to 112: what is cleared away first, by layout.
func TestStepReclaims(t *testing.T) {
	for _, test := range []struct {
		layout Layout
		signal Signal
		want   []Reclaim
	}{
		{Single, MemoryAvailable, nil},
		{Single, PIDAvailable, nil},
		{Single, NodeFsInodesFree, []Reclaim{DeadContainers, UnusedImages}},
		{Single, ContainerFsAvailable, []Reclaim{DeadContainers, UnusedImages}},
		{DedicatedImages, NodeFsAvailable, nil},
		{DedicatedImages, ImageFsAvailable, []Reclaim{DeadContainers, UnusedImages}},
		{DedicatedImages, ContainerFsInodesFree, []Reclaim{DeadContainers, UnusedImages}},
		{SplitImages, NodeFsAvailable, []Reclaim{DeadContainers}},
		{SplitImages, ImageFsAvailable, []Reclaim{UnusedImages}},
		{SplitImages, ContainerFsAvailable, []Reclaim{DeadContainers}},
	} {
		if got := reclaimFirst(test.signal, test.layout); !cmp.Equal(got, test.want) {
			t.Errorf("%s on %s: %v, want %v", test.signal, test.layout, got, test.want)
		}
	}
}

func TestStepTaints(t *testing.T) {
	node := Node{Readings: map[Signal]Reading{MemoryAvailable: {}, NodeFsInodesFree: {}, PIDAvailable: {}}}
	_, out := State{}.Step(Input{Now: noon, Node: node, Thresholds: []Threshold{hard(MemoryAvailable, "1"), hard(NodeFsInodesFree, "1"), hard(PIDAvailable, "1")}})
	var got []string
	for _, taint := range out.Taints {
		got = append(got, taint.Key+":"+string(taint.Effect))
	}
	want := []string{"node.kubernetes.io/disk-pressure:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule", "node.kubernetes.io/pid-pressure:NoSchedule"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Numbers are those of the kubelet's own cases: 88 to 95 and 96, 97.
func TestMessage(t *testing.T) {
	node := Node{Readings: map[Signal]Reading{MemoryAvailable: {Available: 1500 * mi}, PIDAvailable: {Available: 500}}}
	due := []Threshold{soft(NodeFsAvailable, "1Gi", 1), soft(MemoryAvailable, "2Gi", 1), hard(PIDAvailable, "1200")}
	const low = "The node was low on resource: memory. Threshold quantity: 2Gi, available: 1500Mi. "
	over := func(kind, name, usage, request string) string {
		return fmt.Sprintf("%s %s was using %s, request is %s, has larger consumption of memory. ", kind, name, usage, request)
	}
	c := func(name string, request, usage int64) Container {
		return Container{Name: name, MemoryRequest: request * mi, WorkingSet: usage * mi}
	}
	own := func(request int64, containers ...Container) Pod {
		return Pod{Name: "pod", Requests: Requests{Memory: request * mi, PodMemory: true}, Usage: &Usage{Memory: 600 * mi}, Containers: containers}
	}
	for name, test := range map[string]struct {
		signal Signal
		pod    Pod
		want   string
	}{
		"88 none is over its request":     {MemoryAvailable, Pod{Containers: []Container{c("side", 200, 150), c("main", 200, 100)}}, low},
		"89 an init container is":         {MemoryAvailable, Pod{Containers: []Container{c("init", 100, 150), c("main", 200, 0)}}, low + over("Container", "init", "150Mi", "100Mi")},
		"90 a sidecar is":                 {MemoryAvailable, Pod{Containers: []Container{c("init", 100, 0), c("side", 200, 250), c("main", 200, 200)}}, low + over("Container", "side", "250Mi", "200Mi")},
		"91 a main container is":          {MemoryAvailable, Pod{Containers: []Container{c("side", 200, 200), c("main", 200, 250)}}, low + over("Container", "main", "250Mi", "200Mi")},
		"93 without requests":             {MemoryAvailable, Pod{Containers: []Container{c("main", 0, 200)}}, low + over("Container", "main", "200Mi", "0")},
		"94 several":                      {MemoryAvailable, Pod{Containers: []Container{c("a", 100, 150), c("b", 100, 50), c("c", 100, 400)}}, low + over("Container", "a", "150Mi", "100Mi") + over("Container", "c", "400Mi", "100Mi")},
		"95 the pod's own request":        {MemoryAvailable, own(250, c("a", 0, 250)), low + over("Pod", "pod", "600Mi", "250Mi") + over("Container", "a", "250Mi", "0")},
		"differs: the pod's own, kept":    {MemoryAvailable, own(700), low},
		"97 pids":                         {PIDAvailable, Pod{Containers: []Container{c("a", 0, 5)}}, "The node was low on resource: pids. Threshold quantity: 1200, available: 500. "},
		"98 disk, the threshold not read": {NodeFsAvailable, Pod{Containers: []Container{{Name: "a", DiskRequest: 50 * gi, Disk: 50*gi + 1}}}, "The node was low on resource: ephemeral-storage. Container a was using 53687091201, request is 50Gi, has larger consumption of ephemeral-storage. "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := message(test.signal, due, node, &test.pod); got != test.want {
				t.Errorf("\n got %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestStepSaysWhatItSkips(t *testing.T) {
	in := Input{Now: noon, Thresholds: []Threshold{hard(MemoryAvailable, "1"), soft(MemoryAvailable, "2", 1), hard(AllocatableMemoryAvailable, "1")}}
	_, out := State{}.Step(in)
	if len(out.Skipped) != 1 || !strings.HasPrefix(out.Skipped[0].Message, "memory.available could not be read") {
		t.Errorf("got %+v", out.Skipped)
	}
}
