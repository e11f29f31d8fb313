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

	"usher.sh/usher/internal/pressure"
)

// What the two read differently, on purpose. The kubelet takes the value, or does not, and Usher does otherwise.
func TestDifferentReading(t *testing.T) {
	t.Parallel()
	hard := func(value string) pressure.Config {
		return pressure.Config{EvictionHard: map[string]string{"nodefs.available": value}}
	}
	soft := func(grace string) pressure.Config {
		return pressure.Config{
			EvictionHard: map[string]string{}, EvictionSoft: map[string]string{"nodefs.available": "1Gi"},
			EvictionSoftGracePeriod: map[string]string{"nodefs.available": grace},
		}
	}
	reclaim := func(value string) pressure.Config {
		return pressure.Config{
			EvictionHard: map[string]string{"nodefs.available": "1Gi"}, EvictionMinimumReclaim: map[string]string{"nodefs.available": value},
		}
	}
	for name, c := range map[string]struct {
		config       pressure.Config
		their, ours  int // thresholds; -1: refused
		sentenceOurs string
	}{
		"not a number":                          {hard("NaN%"), 1, -1, "percentage such as"},
		"percent signs without end":             {hard("10%%"), 1, -1, "percentage such as"},
		"an exponent":                           {hard("1e1%"), 1, -1, "percentage such as"},
		"hexadecimal":                           {hard("0x1p3%"), 1, -1, "percentage such as"},
		"minus nothing":                         {hard("-0%"), 1, -1, "percentage such as"},
		"nothing, written long":                 {hard("0.0%"), 1, 0, ""},
		"all, written long":                     {hard("100.0%"), 1, 0, ""},
		"a number that takes long to reckon":    {hard("1e999"), 1, -1, "fits a machine"},
		"a soft threshold with a grace of 0":    {soft("0s"), 1, -1, "belongs into evictionHard"},
		"to reclaim more than there is":         {reclaim("500%"), 1, -1, "above 100%"},
		"to reclaim what is not a number":       {reclaim("NaN%"), 1, -1, "percentage such as"},
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
		Containers: []stats.ContainerStats{{Name: "c", Rootfs: &stats.FsStats{UsedBytes: &disk, InodesUsed: &inodes}}},
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
		signal pressure.Signal
		rank   func([]*corev1.Pod, statsFunc)
		pods   []*corev1.Pod
		use    func(pods []*corev1.Pod) []stats.PodStats
		first  firstPod // the kubelet's, ours
	}{
		"the kubelet subtracts requested bytes from inodes": {
			pressure.NodeFsInodesFree, inodes("root"),
			pair(func(a, _ *corev1.Pod) { request(a, corev1.ResourceEphemeralStorage, "1Gi") }),
			func(p []*corev1.Pod) []stats.PodStats {
				return []stats.PodStats{uses(p[0], 0, 0, 1000), uses(p[1], 0, 0, 10)}
			},
			firstPod{"b", "a"},
		},
		"to the kubelet, requests of the pod as a whole take away those for local disk": {
			pressure.NodeFsAvailable, disk("root"),
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
			pressure.MemoryAvailable, rankMemoryPressure,
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
			pressure.MemoryAvailable, rankMemoryPressure,
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
			ours := pressure.Rank(pressure.OrderKubelet, c.signal, pressure.Node{}, measured(t, c.pods, found))
			c.rank(c.pods, lookUp(found))
			if got := (firstPod{string(c.pods[0].UID), string(ours[0].Pod.UID)}); got != c.first {
				t.Errorf("first go %+v, want %+v", got, c.first)
			}
		})
	}
}

// firstPod is who goes first, by UID.
type firstPod struct{ kubelet, usher string }

// short is a node that is short of memory, with one pod.
func short(t *testing.T, c pressure.Config, at time.Time) (*kubelet, pressure.Output) {
	t.Helper()
	g := gen{rand.New(rand.NewPCG(1, 2)), 1}
	their, our := bothRead(t, c)
	k := newKubelet(g, their, c.EvictionPressureTransitionPeriod.Duration, c.EvictionMaxPodGracePeriod)
	k.pods = pair(func(a, b *corev1.Pod) {
		a.Spec.TerminationGracePeriodSeconds = new(int64(600))
		b.Spec.Priority = new(int32(9))
	})
	found := []stats.PodStats{uses(k.pods[0], 9, 0, 0), uses(k.pods[1], 1, 0, 0)}
	var out pressure.Output
	var state pressure.State
	for range 2 { // the second look comes an hour later: any grace is over
		k.clock.Step(at.Sub(epoch))
		n := plenty()
		n.Memory = &stats.MemoryStats{AvailableBytes: new(uint64(5)), WorkingSetBytes: new(uint64(95))}
		k.summary = stats.Summary{Node: n, Pods: found}
		k.look(t)
		state, out = state.Step(pressure.Input{
			Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, k.pods, found), Thresholds: our, Config: c,
		})
	}
	return k, out
}

func memory(hard, soft string, longest int32) pressure.Config {
	c := pressure.Config{EvictionHard: map[string]string{}, EnforceNodeAllocatable: []string{"none"}, EvictionMaxPodGracePeriod: longest}
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
		k, out := short(t, memory("10", "20", 600), epoch.Add(time.Hour))
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
	k, out := short(t, memory("", "20", -1), epoch.Add(time.Hour))
	if k.grace != -1 || out.Victim.Grace != 600*time.Second {
		t.Errorf("the kubelet gives %d s, Usher %s", k.grace, out.Victim.Grace)
	}
}

// With 0 the pod would be taken off the books while it runs.
func TestNoGraceIsASecond(t *testing.T) {
	t.Parallel()
	k, out := short(t, memory("", "20", 0), epoch.Add(time.Hour))
	if k.grace != 0 || out.Victim.Grace != time.Second {
		t.Errorf("the kubelet gives %d s, Usher %s", k.grace, out.Victim.Grace)
	}
}

// Without a transition period, the kubelet's manager never reports a condition; its configuration has 5 minutes for 0.
func TestNoTransitionPeriodIsTheDefault(t *testing.T) {
	t.Parallel()
	c := memory("10", "", 0)
	c.EvictionPressureTransitionPeriod.Duration = 0
	k, out := short(t, c, epoch.Add(time.Hour))
	if len(k.conditions()) != 0 || !slices.Equal(out.Conditions, []corev1.NodeConditionType{corev1.NodeMemoryPressure}) {
		t.Errorf("the kubelet reports %v, Usher %v", k.conditions(), out.Conditions)
	}
}

// At its first look the kubelet does not know of containerfs yet, and one that was set by hand it takes then.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	c := pressure.Config{EvictionHard: map[string]string{"nodefs.available": "10"}}
	c.EvictionPressureTransitionPeriod.Duration = time.Minute
	their, our := bothRead(t, c)
	k := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, time.Minute, 0)
	k.layout = pressure.SplitImages
	k.pods = pair(func(_, _ *corev1.Pod) {})
	n := plenty()
	n.Runtime = &stats.RuntimeStats{ImageFs: n.Fs, ContainerFs: &stats.FsStats{AvailableBytes: new(uint64(5)), CapacityBytes: new(uint64(60))}}
	k.summary = stats.Summary{Node: n}
	k.look(t)
	at := k.conditions()
	_, out := pressure.State{}.Step(pressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Thresholds: our, Config: c})
	if len(at) != 0 || !slices.Equal(out.Conditions, []corev1.NodeConditionType{corev1.NodeDiskPressure}) {
		t.Errorf("at first the kubelet reports %v, Usher %v", at, out.Conditions)
	}
	k.look(t)
	if at := k.conditions(); !slices.Equal(at, out.Conditions) {
		t.Errorf("at its second look the kubelet reports %v, Usher %v", at, out.Conditions)
	}
}

// The kubelet's message names a pod's own request without the overhead that it ranks by, and blames pods that do not
// exceed it; of a container of which only layers or only logs were measured it says nothing.
func TestDifferentMessage(t *testing.T) {
	t.Parallel()
	c := memory("10", "", 0)
	their, our := bothRead(t, c)
	k := newKubelet(gen{rand.New(rand.NewPCG(1, 2)), 1}, their, time.Minute, 0)
	k.pods = pair(func(a, _ *corev1.Pod) {
		a.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("9")}}
	})[:1]
	found := []stats.PodStats{uses(k.pods[0], 5, 0, 0)}
	n := plenty()
	n.Memory = &stats.MemoryStats{AvailableBytes: new(uint64(5)), WorkingSetBytes: new(uint64(95))}
	k.summary = stats.Summary{Node: n, Pods: found}
	k.look(t)
	_, out := pressure.State{}.Step(pressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, k.pods, found), Thresholds: our, Config: c})
	const blame = "was using 5, request is 9, has larger consumption"
	if !strings.Contains(k.message, blame) || strings.Contains(out.Victim.Message, blame) {
		t.Errorf("the kubelet says %q, Usher %q", k.message, out.Victim.Message)
	}
}
