package nodepressure

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// rankTest is a set of pods, in the order in which they must come out.
type rankTest struct {
	order  Order
	signal Signal
	node   Node
	pods   []Pod
	rules  []Rule   // of all but the last; nil: not looked at
	passed []string // names of those that are passed over
}

func (test *rankTest) run(t *testing.T) {
	t.Helper()
	want, passed := []string{}, []string{}
	for i := range test.pods {
		want = append(want, test.pods[i].Name)
	}
	shuffled := slices.Clone(test.pods)
	slices.Reverse(shuffled)
	got := Rank(test.order, test.signal, test.node, shuffled)
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("order (-want +got)\n%s", diff)
	}
	for i := range got {
		if got[i].Exempt != "" {
			passed = append(passed, got[i].Pod.Name)
		}
		if i < len(test.rules) && got[i].Rule != test.rules[i] {
			t.Errorf("%s: rule %s (%s), want %s", got[i].Pod.Name, got[i].Rule, got[i].Why, test.rules[i])
		}
	}
	if test.passed != nil && !cmp.Equal(test.passed, passed) {
		t.Errorf("passed over: %v, want %v", passed, test.passed)
	}
}

func withPriority(p Pod, priority int32) Pod {
	p.Priority = priority
	return p
}

func diskPod(name string, priority int32, request int64, layers, logs, volumes FsUse) Pod {
	p := memoryPod(name, corev1.PodQOSBurstable, 0, 0)
	p.Priority, p.Requests.Disk = priority, request
	p.Usage.Disk = map[FsPart]FsUse{WritableLayers: layers, Logs: logs, Volumes: volumes}
	return p
}

func unknown(p Pod) Pod {
	p.Usage = nil
	return p
}

func space(n int64) FsUse { return FsUse{Bytes: n * mi} }
func files(n int64) FsUse { return FsUse{Inodes: n} }

// Numbers are those of the kubelet's own cases.
func TestRankKubelet(t *testing.T) {
	const low, high = -1, 1
	burstable := func(name string, priority int32, request, usage int64) Pod {
		return withPriority(memoryPod(name, corev1.PodQOSBurstable, request*mi, usage*mi), priority)
	}
	none := FsUse{}
	pids := func(name string, priority int32, n int64) Pod {
		p := withPriority(memoryPod(name, corev1.PodQOSBurstable, 0, 0), priority)
		p.Usage.PIDs = n
		return p
	}
	for name, test := range map[string]rankTest{
		"76 over its request, in spite of priority": {signal: MemoryAvailable, rules: []Rule{RuleOverRequest, RuleLast}, pods: []Pod{
			burstable("exceeds", 1, 100, 101), burstable("below", -1, 200, 199),
		}},
		"77 the same for disk": {signal: NodeFsAvailable, rules: []Rule{RuleOverRequest}, pods: []Pod{
			diskPod("exceeds", 1, 100*mi, space(50), space(51), none), diskPod("below", -1, 200*mi, space(100), space(99), none),
		}},
		"78 lower priority": {signal: MemoryAvailable, rules: []Rule{RulePriority, RulePriority}, pods: []Pod{
			burstable("a", -134, 0, 1), burstable("b", 1, 0, 1), burstable("c", 12534, 0, 1),
		}},
		"79 disk over request": {signal: NodeFsAvailable, rules: []Rule{RuleOverage, RuleOverage, RuleOverage, RuleOverRequest, RuleOverage}, pods: []Pod{
			diskPod("a", 0, 0, space(100), space(100), space(100)), diskPod("b", 0, 0, space(100), space(50), space(100)),
			diskPod("c", 0, 100*mi, space(100), none, space(100)), diskPod("d", 0, 100*mi, space(60), space(50), none),
			diskPod("e", 0, 100*mi, space(75), none, none), diskPod("f", 0, 300*mi, space(20), none, none),
		}},
		"80 inodes": {signal: NodeFsInodesFree, rules: []Rule{RuleOverage, RuleOverage}, pods: []Pod{
			diskPod("a", 0, 0, files(400_000), none, none), diskPod("b", 0, 0, files(100_000), files(100_000), files(100_000)), diskPod("c", 0, 0, none, files(200_000), none),
		}},
		"81 disk and priority": {signal: NodeFsAvailable, pods: []Pod{
			diskPod("above-low-high", low, 0, space(200), space(100), space(200)), diskPod("above-low-low", low, 0, space(10), space(10), space(30)),
			diskPod("above-high-high", high, 100*mi, space(200), space(150), space(250)), diskPod("above-high-low", high, 100*mi, space(90), space(50), space(10)),
			diskPod("below-low-high", low, gi, space(500), space(200), space(100)), diskPod("below-low-low", low, gi, space(50), space(100), space(50)),
			diskPod("below-high-high", high, gi, space(250), space(500), space(50)), diskPod("below-high-low", high, gi, space(100), space(60), space(40)),
		}},
		"82 inodes and priority": {signal: NodeFsInodesFree, pods: []Pod{
			diskPod("low-high", low, 0, files(50_000), files(50_000), files(50_000)), diskPod("low-low", low, 0, files(10_000), none, none),
			diskPod("high-high", high, 0, files(50_000), none, files(100_000)), diskPod("high-low", high, 0, files(10_000), none, none),
		}},
		"83 memory over request": {signal: MemoryAvailable, pods: []Pod{
			burstable("+700", 0, 0, 700), burstable("+500", 0, 0, 500), burstable("+300", 0, 100, 400), burstable("+200", 0, 100, 300),
			burstable("-200", 0, 400, 200), burstable("-800", 0, 1000, 200),
		}},
		"84 memory and priority": {signal: AllocatableMemoryAvailable, pods: []Pod{
			burstable("above-low-high", low, 0, 500), burstable("above-low-low", low, 0, 50), burstable("above-high-high", high, 100, 600), burstable("above-high-low", high, 100, 150),
			burstable("below-low-high", low, 1024, 800), burstable("below-low-low", low, 1024, 200), burstable("below-high-high", high, 1024, 800), burstable("below-high-low", high, 1024, 200),
		}},
		"85 processes and priority": {signal: PIDAvailable, rules: []Rule{RuleConsumption, RulePriority, RuleConsumption}, pods: []Pod{
			pids("low-20", low, 20), pids("low-6", low, 6), pids("high-20", high, 20), pids("high-5", high, 5),
		}},
		"86 nothing is known": {signal: MemoryAvailable, rules: []Rule{RulePriority, RuleName, RuleNoStats}, pods: []Pod{
			unknown(burstable("low", low, 0, 0)), unknown(burstable("high-a", high, 0, 0)), unknown(burstable("high-b", high, 7, 0)), burstable("known", low, 0, 900),
		}},
		"pids: priority before what is not known": {signal: PIDAvailable, rules: []Rule{RulePriority, RuleNoStats}, pods: []Pod{
			pids("low", low, 1), unknown(pids("high-unknown", high, 0)), pids("high", high, 900),
		}},
		"inodes are not set against bytes": {signal: NodeFsInodesFree, rules: []Rule{RuleOverage}, pods: []Pod{
			diskPod("many", 0, 100*gi, files(400_000), none, none), diskPod("few", 0, 0, files(10), none, none),
		}},
		"the class does not count": {signal: MemoryAvailable, pods: []Pod{
			withPriority(memoryPod("burstable", corev1.PodQOSBurstable, 0, mi), -5), memoryPod("best-effort", corev1.PodQOSBestEffort, 0, gi), memoryPod("guaranteed", corev1.PodQOSGuaranteed, gi, gi),
		}, passed: []string{}},
		"116 exempt pods are passed over": {signal: MemoryAvailable, passed: []string{"a-static"}, pods: []Pod{
			{Namespace: "default", Name: "a-static", Exempt: ExemptMirror, Usage: &Usage{Memory: 900}}, burstable("b", 0, 0, 0),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.order = OrderKubelet
			test.run(t)
		})
	}
}

// What counts on which file system.
func TestRankDiskLayouts(t *testing.T) {
	layers := diskPod("layers", 0, 0, FsUse{300, 30}, FsUse{}, FsUse{})
	logs := diskPod("logs", 0, 0, FsUse{}, FsUse{200, 20}, FsUse{})
	volumes := diskPod("volumes", 0, 0, FsUse{}, FsUse{}, FsUse{100, 10})
	for _, test := range []struct {
		layout Layout
		signal Signal
		want   []int64 // usage of layers, logs, volumes
	}{
		{Single, NodeFsAvailable, []int64{300, 200, 100}},
		{Single, ImageFsInodesFree, []int64{30, 20, 10}},
		{"", ContainerFsAvailable, []int64{300, 200, 100}},
		{DedicatedImages, NodeFsAvailable, []int64{0, 200, 100}},
		{DedicatedImages, ImageFsAvailable, []int64{300, 0, 0}},
		{DedicatedImages, ContainerFsInodesFree, []int64{30, 0, 0}},
		{SplitImages, NodeFsInodesFree, []int64{30, 20, 10}},
		{SplitImages, ImageFsAvailable, []int64{0, 0, 0}},
		{SplitImages, ContainerFsAvailable, []int64{300, 200, 100}},
	} {
		got := make([]int64, 3)
		for _, r := range Rank(OrderKubelet, test.signal, Node{Layout: test.layout}, []Pod{layers, logs, volumes}) {
			got[slices.Index([]string{"layers", "logs", "volumes"}, r.Pod.Name)] = r.Usage
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s on %q: %v, want %v", test.signal, test.layout, got, test.want)
		}
	}
}
