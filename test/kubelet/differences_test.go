package kubelet

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"usher.sh/usher/internal/nodepressure"
)

// What the two read differently, on purpose. The kubelet takes the value, or does not, and Usher does otherwise.
func TestDifferentReading(t *testing.T) {
	t.Parallel()
	hard := func(value string) nodepressure.Config {
		return nodepressure.Config{EvictionHard: map[string]string{"nodefs.available": value}}
	}
	soft := func(grace string) nodepressure.Config {
		return nodepressure.Config{
			EvictionHard: map[string]string{}, EvictionSoft: map[string]string{"nodefs.available": "1Gi"},
			EvictionSoftGracePeriod: map[string]string{"nodefs.available": grace},
		}
	}
	reclaim := func(value string) nodepressure.Config {
		return nodepressure.Config{
			EvictionHard: map[string]string{"nodefs.available": "1Gi"}, EvictionMinimumReclaim: map[string]string{"nodefs.available": value},
		}
	}
	for name, c := range map[string]struct {
		config       nodepressure.Config
		their, ours  int // thresholds; -1: refused
		sentenceOurs string
	}{
		"not a number":                          {hard("NaN%"), 1, -1, "percentage such as"},
		"percent signs without end":             {hard("10%%"), 1, -1, "percentage such as"},
		"an exponent":                           {hard("1e1%"), 1, -1, "percentage such as"},
		"hexadecimal":                           {hard("0x1p3%"), 1, -1, "percentage such as"},
		"minus nothing":                         {hard("-0%"), 1, -1, "percentage such as"},
		"a sign":                                {hard("+5%"), 1, -1, "percentage such as"},
		"a point without a number before it":    {hard(".5%"), 1, -1, "percentage such as"},
		"nothing, written long":                 {hard("0.0%"), 1, 0, ""},
		"all, written long":                     {hard("100.0%"), 1, 0, ""},
		"a number that takes long to reckon":    {hard("1e999"), 1, -1, "fits a machine"},
		"a soft threshold with a grace of 0":    {soft("0s"), 1, -1, "belongs into evictionHard"},
		"to reclaim more than there is":         {reclaim("500%"), 1, -1, "above 100%"},
		"to reclaim what is not a number":       {reclaim("NaN%"), 1, -1, "percentage such as"},
		"next to nothing, as a counter-check":   {hard("0." + strings.Repeat("0", 60) + "1%"), 1, 1, ""},
		"next to all, as a counter-check":       {hard("99.99999999%"), 1, 1, ""},
		"a plain threshold, as a counter-check": {hard("10%"), 1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			their, err := theirs(c.config)
			if got := count(len(their), err); got != c.their {
				t.Errorf("the kubelet sets %d thresholds (%v), want %d", got, err, c.their)
			}
			ours, err := c.config.Thresholds()
			if got := count(len(ours), err); got != c.ours {
				t.Errorf("Usher sets %d thresholds (%v), want %d", got, err, c.ours)
			}
			if err != nil && !strings.Contains(err.Error(), c.sentenceOurs) {
				t.Errorf("Usher says %q, want %q in it", err, c.sentenceOurs)
			}
		})
	}
}

func count(n int, err error) int {
	if err != nil {
		return -1
	}
	return n
}

// pair is two pods, and what the first, named "a", and the second use.
func pair(change func(a, b *corev1.Pod)) []*corev1.Pod {
	make := func(name string) *corev1.Pod {
		p := gen{rand.New(rand.NewPCG(1, 1)), 1}.pod(0, traits{})
		p.Name, p.UID, p.Annotations = name, "", nil
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}}
		return p
	}
	a, b := make("a"), make("b")
	a.UID, b.UID = "a", "b"
	change(a, b)
	return []*corev1.Pod{a, b}
}

func uses(p *corev1.Pod, memory, disk, inodes uint64) stats.PodStats {
	return stats.PodStats{
		PodRef: stats.PodReference{Name: p.Name, UID: string(p.UID)}, Memory: &stats.MemoryStats{WorkingSetBytes: &memory},
		Containers: []stats.ContainerStats{{Name: "c", Memory: &stats.MemoryStats{WorkingSetBytes: &memory}, Rootfs: &stats.FsStats{UsedBytes: &disk, InodesUsed: &inodes}}},
	}
}

const gibi = 1 << 30

// Where the two put pods into another order, on purpose.
func TestDifferentOrder(t *testing.T) {
	t.Parallel()
	request := func(p *corev1.Pod, name corev1.ResourceName, q string) {
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(q)
	}
	level := func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	}
	for name, c := range map[string]struct {
		signal nodepressure.Signal
		rank   func([]*corev1.Pod, statsFunc)
		pods   []*corev1.Pod
		use    func(pods []*corev1.Pod) []stats.PodStats
		first  firstPod // the kubelet's, ours
	}{
		"the kubelet subtracts requested bytes from inodes": {
			nodepressure.NodeFsInodesFree, inodes("root"),
			pair(func(a, _ *corev1.Pod) { request(a, corev1.ResourceEphemeralStorage, "1Gi") }),
			func(p []*corev1.Pod) []stats.PodStats {
				return []stats.PodStats{uses(p[0], 0, 0, 1000), uses(p[1], 0, 0, 10)}
			},
			firstPod{"b", "a"},
		},
		"to the kubelet, requests of the pod as a whole take away those for local disk": {
			nodepressure.NodeFsAvailable, disk("root"),
			pair(func(a, b *corev1.Pod) {
				level(a)
				request(a, corev1.ResourceEphemeralStorage, "1Gi")
				request(b, corev1.ResourceEphemeralStorage, "1Gi")
			}),
			func(p []*corev1.Pod) []stats.PodStats {
				return []stats.PodStats{uses(p[0], 0, gibi/2, 0), uses(p[1], 0, gibi+50, 0)}
			},
			firstPod{"a", "b"},
		},
		"to the kubelet, a request of CPU for the pod as a whole takes away its memory's": {
			nodepressure.MemoryAvailable, rankMemoryPressure,
			pair(func(a, b *corev1.Pod) {
				level(a)
				request(a, corev1.ResourceMemory, "1Gi")
				request(b, corev1.ResourceMemory, "1Gi")
			}),
			func(p []*corev1.Pod) []stats.PodStats {
				return []stats.PodStats{uses(p[0], gibi/2, 0, 0), uses(p[1], gibi+50, 0, 0)}
			},
			firstPod{"a", "b"},
		},
		"Usher rounds requests up to whole bytes": {
			nodepressure.MemoryAvailable, rankMemoryPressure,
			pair(func(a, b *corev1.Pod) {
				request(a, corev1.ResourceMemory, "4500m")
				a.Spec.Priority = new(int32(7))
				request(b, corev1.ResourceMemory, "100")
			}),
			func(p []*corev1.Pod) []stats.PodStats {
				return []stats.PodStats{uses(p[0], 5, 0, 0), uses(p[1], 5, 0, 0)}
			},
			firstPod{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := c.use(c.pods)
			ours := nodepressure.Rank(nodepressure.OrderKubelet, c.signal, nodepressure.Node{}, measured(t, c.pods, found))
			c.rank(c.pods, lookUp(found))
			if got := (firstPod{string(c.pods[0].UID), string(ours[0].Pod.UID)}); got != c.first {
				t.Errorf("first go %+v, want %+v", got, c.first)
			}
		})
	}
}

// firstPod is the pod that goes first, by UID.
type firstPod struct{ kubelet, usher string }

// short is a node that is short of memory, at the second look.
func short(t *testing.T, c nodepressure.Config, change func(p *corev1.Pod)) (*kubelet, nodepressure.Output) {
	t.Helper()
	g := gen{rand.New(rand.NewPCG(1, 2)), 1}
	their, our := bothRead(t, c)
	k := newKubelet(g, their, c.EvictionPressureTransitionPeriod.Duration, c.EvictionMaxPodGracePeriod)
	k.pods = pair(func(a, b *corev1.Pod) {
		a.Spec.TerminationGracePeriodSeconds = new(int64(600))
		b.Spec.Priority = new(int32(9))
		b.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("5")
		change(a)
	})
	found := []stats.PodStats{uses(k.pods[0], 9*gibi, 0, 0), uses(k.pods[1], 1, 0, 0)}
	var out nodepressure.Output
	var state nodepressure.State
	for range 2 { // the second look comes an hour later: any grace is over
		k.clock.Step(time.Hour)
		n := plenty()
		n.Memory = &stats.MemoryStats{AvailableBytes: new(uint64(5)), WorkingSetBytes: new(uint64(95))}
		k.summary = stats.Summary{Node: n, Pods: found}
		k.look(t)
		state, out = state.Step(nodepressure.Input{
			Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, k.pods, found), Thresholds: our, Config: c,
		})
	}
	return k, out
}

func unchanged(*corev1.Pod) {}

func memory(hard, soft string, longest int32) nodepressure.Config {
	c := nodepressure.Config{EvictionHard: map[string]string{}, EnforceNodeAllocatable: []string{"none"}, EvictionMaxPodGracePeriod: longest}
	c.EvictionPressureTransitionPeriod.Duration = time.Minute
	if hard != "" {
		c.EvictionHard["memory.available"] = hard
	}
	if soft != "" {
		c.EvictionSoft = map[string]string{"memory.available": soft}
		c.EvictionSoftGracePeriod = map[string]string{"memory.available": "30s"}
	}
	return c
}

// Where both thresholds of a signal are due, the kubelet mostly takes the grace of the soft one.
func TestHardBreachGetsHardGrace(t *testing.T) {
	t.Parallel()
	soft := 0
	for range 100 {
		k, out := short(t, memory("10", "20", 600), unchanged)
		if k.grace == 600 {
			soft++
		}
		if out.Victim.Grace != time.Second {
			t.Fatalf("Usher gives %s", out.Victim.Grace)
		}
	}
	t.Logf("the kubelet used the soft grace in %d of 100", soft)
	if soft == 0 {
		t.Error("the kubelet never used the soft grace: no difference any more")
	}
}

// Below 0 means the pod's own grace, as the kubelet's help says; the kubelet asks for -1 s, which becomes 1.
func TestNegativeGraceIsThePodsOwn(t *testing.T) {
	t.Parallel()
	k, out := short(t, memory("", "20", -1), unchanged)
	if k.grace != -1 || out.Victim.Grace != 600*time.Second {
		t.Errorf("the kubelet gives %d s, Usher %s", k.grace, out.Victim.Grace)
	}
}

// With 0 the pod would be taken off the books while it runs.
func TestNoGraceIsASecond(t *testing.T) {
	t.Parallel()
	k, out := short(t, memory("", "20", 0), unchanged)
	if k.grace != 0 || out.Victim.Grace != time.Second {
		t.Errorf("the kubelet gives %d s, Usher %s", k.grace, out.Victim.Grace)
	}
}

// Without a transition period, the kubelet's manager never reports a condition; its configuration has 5 minutes for 0.
func TestNoTransitionPeriodIsTheDefault(t *testing.T) {
	t.Parallel()
	c := memory("10", "", 0)
	c.EvictionPressureTransitionPeriod.Duration = 0
	k, out := short(t, c, unchanged)
	if len(k.conditions()) != 0 || !slices.Equal(out.Conditions, []corev1.NodeConditionType{corev1.NodeMemoryPressure}) {
		t.Errorf("the kubelet reports %v, Usher %v", k.conditions(), out.Conditions)
	}
}

// At its first look the kubelet does not know of containerfs yet, and one that was set by hand it takes then.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	c := nodepressure.Config{EvictionHard: map[string]string{"nodefs.available": "10"}}
	c.EvictionPressureTransitionPeriod.Duration = time.Minute
	their, our := bothRead(t, c)
	k := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, time.Minute, 0)
	k.layout = nodepressure.SplitImages
	k.pods = pair(func(_, _ *corev1.Pod) {})
	n := plenty()
	n.Runtime = &stats.RuntimeStats{ImageFs: n.Fs, ContainerFs: &stats.FsStats{AvailableBytes: new(uint64(5)), CapacityBytes: new(uint64(60))}}
	k.summary = stats.Summary{Node: n}
	k.look(t)
	at := k.conditions()
	_, out := nodepressure.State{}.Step(nodepressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Thresholds: our, Config: c})
	if len(at) != 0 || !slices.Equal(out.Conditions, []corev1.NodeConditionType{corev1.NodeDiskPressure}) {
		t.Errorf("at first the kubelet reports %v, Usher %v", at, out.Conditions)
	}
	k.look(t)
	if at := k.conditions(); !slices.Equal(at, out.Conditions) {
		t.Errorf("at its second look the kubelet reports %v, Usher %v", at, out.Conditions)
	}
}

// A pod without a grace of its own, which the apiserver never lets through, has the apiserver's default.
func TestUnsetGraceIsTheDefault(t *testing.T) {
	t.Parallel()
	k, out := short(t, memory("", "20", 600), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil })
	if k.grace != 600 || out.Victim.Grace != 30*time.Second {
		t.Errorf("the kubelet gives %d s, Usher %s", k.grace, out.Victim.Grace)
	}
}

// The kubelet blames a pod that does not exceed its own request, leaves out the overhead that it ranks by, writes requests
// as they were written, and takes containers in the order of the statistics.
func TestDifferentMessage(t *testing.T) {
	t.Parallel()
	level := func(request string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}}
			p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2")}
		}
	}
	for name, c := range map[string]struct {
		change      func(p *corev1.Pod)
		their, ours string
		notOurs     string
	}{
		"a pod below its request": {level("90Gi"), "Pod a was using 9Gi, request is 90Gi", "", "Pod a"},
		"overhead":                {level("3"), "Pod a was using 9Gi, request is 3,", "Pod a was using 9Gi, request is 5,", "is 3,"},
		"a request in another unit": {
			func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("2G")
			},
			"request is 2G,", "request is 1953125Ki,", "2G",
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, out := short(t, memory("10", "", 0), c.change)
			if ours := out.Victim.Message; !strings.Contains(k.message, c.their) || !strings.Contains(ours, c.ours) || strings.Contains(ours, c.notOurs) {
				t.Errorf("the kubelet says %q, Usher %q", k.message, ours)
			}
		})
	}
}

// Pods that nothing distinguishes go by name; with the kubelet it is chance, or the order in which they came.
func TestTiesGoByName(t *testing.T) {
	t.Parallel()
	pods := pair(func(_, _ *corev1.Pod) {})
	slices.Reverse(pods)
	found := []stats.PodStats{uses(pods[0], 5, 0, 0), uses(pods[1], 5, 0, 0)}
	ours := nodepressure.Rank(nodepressure.OrderKubelet, nodepressure.MemoryAvailable, nodepressure.Node{}, measured(t, pods, found))
	rankMemoryPressure(pods, lookUp(found))
	if pods[0].Name != "b" || ours[0].Pod.Name != "a" {
		t.Errorf("the kubelet takes %s first, Usher %s", pods[0].Name, ours[0].Pod.Name)
	}
}

// Containers are named in the order of the pod; the kubelet takes them as they come in the statistics.
func TestContainersAreNamedInOrder(t *testing.T) {
	t.Parallel()
	c := memory("10", "", 0)
	their, our := bothRead(t, c)
	k := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, time.Minute, 0)
	k.pods = pair(func(a, _ *corev1.Pod) {
		a.Spec.Containers = append(a.Spec.Containers, corev1.Container{Name: "d"})
	})[:1]
	use := uses(k.pods[0], 9, 0, 0)
	second := use.Containers[0]
	second.Name = "d"
	use.Containers = []stats.ContainerStats{second, use.Containers[0]}
	n := plenty()
	n.Memory = &stats.MemoryStats{AvailableBytes: new(uint64(5)), WorkingSetBytes: new(uint64(95))}
	k.summary = stats.Summary{Node: n, Pods: []stats.PodStats{use}}
	k.look(t)
	_, out := nodepressure.State{}.Step(nodepressure.Input{
		Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, k.pods, k.summary.Pods), Thresholds: our, Config: c,
	})
	c1 := func(s string) bool { return strings.Index(s, "Container c ") < strings.Index(s, "Container d ") }
	if c1(k.message) || !c1(out.Victim.Message) {
		t.Errorf("the kubelet says %q, Usher %q", k.message, out.Victim.Message)
	}
}

// Of what is due beside memory, Usher always takes the same; with the kubelet it is chance.
func TestWhatIsDueHasAnOrder(t *testing.T) {
	t.Parallel()
	c := nodepressure.Config{EvictionHard: map[string]string{"pid.available": "10", "nodefs.available": "10", "nodefs.inodesFree": "10"}}
	c.EvictionPressureTransitionPeriod.Duration = time.Minute
	said := map[string]int{}
	for range 100 {
		their, our := bothRead(t, c)
		k := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, time.Minute, 0)
		k.layout, k.pods = nodepressure.Single, pair(func(_, _ *corev1.Pod) {})
		n := plenty()
		n.Fs = &stats.FsStats{
			AvailableBytes: new(uint64(5)), CapacityBytes: new(uint64(60)), InodesFree: new(uint64(5)), Inodes: new(uint64(60)),
		}
		n.Rlimit = &stats.RlimitStats{MaxPID: new(int64(60)), NumOfRunningProcesses: new(int64(55))}
		k.summary = stats.Summary{Node: n}
		k.cleared = k.summary
		k.look(t)
		said[strings.Fields(strings.TrimPrefix(k.message, "The node was low on resource: "))[0]]++
		_, out := nodepressure.State{}.Step(nodepressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, k.pods, nil), Thresholds: our, Config: c})
		if got := out.Due[0].Signal; got != nodepressure.NodeFsAvailable {
			t.Fatalf("Usher acts on %s", got)
		}
	}
	t.Logf("the kubelet acted on %v", said)
	if len(said) < 2 {
		t.Error("the kubelet always acted on the same: no difference any more")
	}
}

// With a transition period below 0 the kubelet's manager never reports a condition; Usher refuses it.
func TestNegativeTransitionIsRefused(t *testing.T) {
	t.Parallel()
	k, _ := short(t, memory("10", "", 0), unchanged)
	their, _ := bothRead(t, memory("10", "", 0))
	never := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, -time.Minute, 0)
	never.pods, never.summary = k.pods, k.summary
	never.look(t)
	if len(k.conditions()) != 1 || len(never.conditions()) != 0 {
		t.Errorf("the kubelet reports %v with a period of a minute, %v with one below 0", k.conditions(), never.conditions())
	}
	c := memory("10", "", 0)
	c.EvictionPressureTransitionPeriod.Duration = -time.Minute
	if errs := c.Validate(); len(errs) != 1 || errs[0].Field != "evictionPressureTransitionPeriod" {
		t.Errorf("Usher says %v", errs)
	}
}
