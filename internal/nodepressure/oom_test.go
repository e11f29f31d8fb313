package nodepressure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestOOMScoreAdj(t *testing.T) {
	const g = 1_000_000_000
	of := func(memory string, requests ...string) func() (*corev1.Pod, int64) {
		return func() (*corev1.Pod, int64) {
			p := apiPod()
			for i, r := range requests {
				p.Spec.Containers = append(p.Spec.Containers, container(string(rune('a'+i)), list("1m", r, ""), nil))
			}
			return p, bytes(memory)
		}
	}
	for name, test := range map[string]struct {
		give      func() (*corev1.Pod, int64)
		container int // of init containers and containers
		want      int
		want311   int
	}{
		"500Mi of 4G":        {of("4G", "500Mi"), 0, 869, 869},
		"1000Mi of 4G":       {of("4G", "1000Mi"), 0, 738, 738},
		"all but a byte":     {of("8G", "7999999999"), 0, 3, 2},
		"more than there is": {of("8G", "9G"), 0, 3, 2},
		"an eighth":          {of("8G", "1G"), 0, 875, 875},
		"no memory request":  {of("4G", ""), 0, 999, 999},
		"nothing is known":   {of("0", "1G"), 0, 999, 999},
		"a petabyte":         {of("1P", "500T"), 0, 500, 500},
		"best effort":        {func() (*corev1.Pod, int64) { return apiPod(container("a", nil, nil)), 4 * g }, 0, 1000, 1000},
		"guaranteed": {func() (*corev1.Pod, int64) {
			return apiPod(container("a", list("1", "1G", ""), list("1", "1G", ""))), 4 * g
		}, 0, -997, -998},
		"big sidecar":          {sidecarPod("4G"), 0, 500, 500},
		"beside a big sidecar": {sidecarPod("4G"), 1, 875, 875},
		"small sidecar":        {sidecarPod("400M"), 0, 875, 950},
		"beside a small one":   {sidecarPod("400M"), 1, 875, 875},
		"half of the pod's":    {ownPod("2G", "", ""), 0, 750, 999},
		"own and a share":      {ownPod("2G", "1G", "500M"), 1, 725, 750},
		"own, less":            {ownPod("2G", "1G", "500M"), 2, 850, 875},
		"own, sidecar":         {ownPod("2G", "1G", "500M"), 0, 850, 950},
	} {
		t.Run(name, func(t *testing.T) {
			p, memory := test.give()
			pod := PodOf(p)
			c := &pod.Containers[test.container]
			if got := c.adj(OOM137, &pod, memory); got != test.want {
				t.Errorf("1.37: %d, want %d", got, test.want)
			}
			if got := c.adj(OOM311, &pod, memory); got != test.want311 {
				t.Errorf("3.11: %d, want %d", got, test.want311)
			}
		})
	}
}

func sidecarPod(request string) func() (*corev1.Pod, int64) {
	return func() (*corev1.Pod, int64) {
		return withInit(apiPod(container("main", list("", "1G", ""), nil)), sidecarOf("side", list("", request, ""))), 8_000_000_000
	}
}

// ownPod has a request of its own; with requests for its containers, it has a sidecar of 200M as well.
func ownPod(own, a, b string) func() (*corev1.Pod, int64) {
	return func() (*corev1.Pod, int64) {
		p := withOwn(apiPod(container("a", list("", a, ""), nil), container("b", list("", b, ""), nil)), list("", own, ""), nil)
		if a != "" {
			p.Spec.InitContainers = []corev1.Container{sidecarOf("s", list("", "200M", ""))}
		}
		return p, 4_000_000_000
	}
}

// A pod that is critical for its node is spared, whatever its class; a critical priority alone does not do it.
func TestOOMScoreAdjCritical(t *testing.T) {
	p := apiPod(container("a", nil, nil))
	p.Spec.Priority = new(int32(2_000_000_000))
	p.Spec.PriorityClassName = "system-cluster-critical"
	adj := func(table OOMTable) int {
		pod := PodOf(p)
		return pod.Containers[0].adj(table, &pod, gi)
	}
	if got := adj(OOM137); got != 1000 {
		t.Errorf("cluster critical: %d", got)
	}
	p.Spec.PriorityClassName = "system-node-critical"
	if got, got311 := adj(OOM137), adj(OOM311); got != -997 || got311 != 1000 {
		t.Errorf("node critical: %d, with 3.11 %d", got, got311)
	}
}

func TestOOMScores(t *testing.T) {
	pod := func(name string, class corev1.PodQOSClass, request, usage int64) Pod {
		p := memoryPod(name, class, request, usage)
		p.Containers = []Container{{Name: "c", OOMRequest: request, Usage: usage}}
		return p
	}
	done := memoryPod("done", corev1.PodQOSBestEffort, 0, 0)
	done.Containers = []Container{{Name: "init", Init: true, Usage: -1}}
	spared := pod("spared", corev1.PodQOSBestEffort, 0, 3*gi)
	spared.Containers[0].OOMScoreAdj = new(-1000)
	pods := []Pod{
		pod("guaranteed", corev1.PodQOSGuaranteed, 2*gi, 2*gi), spared, done,
		pod("modest", corev1.PodQOSBurstable, 2*gi, gi),
		pod("greedy", corev1.PodQOSBurstable, gi/2, 3*gi/2),
		pod("best-effort", corev1.PodQOSBestEffort, 0, 10*mi),
		pod("unknown", corev1.PodQOSBurstable, gi, -1),
	}
	type line struct {
		name       string
		adj, score int
	}
	var got []line
	for _, o := range OOMScores(OOM137, Node{Memory: 8 * gi}, pods) {
		got = append(got, line{o.Pod.Name, o.Adj, o.Score})
	}
	// "% of node memory a container is using + oom_score_adj = oom_score": the highest score goes first.
	want := []line{
		{"greedy", 938, 1125}, {"best-effort", 1000, 1001}, {"modest", 750, 874}, {"unknown", 875, 874}, {"guaranteed", -997, -746}, {"spared", -1000, -1000},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOOMWithin: where the pods' own limit is reached before the machine is out of memory, usage weighs more and the class less.
func TestOOMWithin(t *testing.T) {
	pod := func(name string, class corev1.PodQOSClass, request, usage int64) Pod {
		p := memoryPod(name, class, request, usage)
		p.Containers = []Container{{Name: "c", OOMRequest: request, Usage: usage}}
		return p
	}
	pods := []Pod{pod("best-effort", corev1.PodQOSBestEffort, 0, 10*mi), pod("big", corev1.PodQOSBurstable, 2*gi, 900*mi)}
	limited := func(available int64) Node {
		return Node{Memory: 8 * gi, Readings: map[Signal]Reading{
			MemoryAvailable:            {Available: gi, Capacity: 8 * gi},
			AllocatableMemoryAvailable: {Available: available, Capacity: gi},
		}}
	}
	for name, test := range map[string]struct {
		node         Node
		within       Signal
		first        string
		best, second int
	}{
		"nothing is reserved":      {Node{Memory: 8 * gi, Readings: map[Signal]Reading{MemoryAvailable: {Available: gi, Capacity: 8 * gi}}}, MemoryAvailable, "best-effort", 1001, 859},
		"the machine's ends first": {limited(2 * gi), MemoryAvailable, "best-effort", 1001, 859},
		"the pods' ends first":     {limited(100 * mi), AllocatableMemoryAvailable, "big", 1628, 1009},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OOMWithin(test.node); got != test.within {
				t.Errorf("%s is used up first, want %s", got, test.within)
			}
			got := OOMScores(OOM137, test.node, pods)
			if got[0].Pod.Name != test.first || got[0].Score != test.best || got[1].Score != test.second {
				t.Errorf("%s %d, %s %d", got[0].Pod.Name, got[0].Score, got[1].Pod.Name, got[1].Score)
			}
		})
	}
}
