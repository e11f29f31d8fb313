package kubelet

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	clocktesting "k8s.io/utils/clock/testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/nodepressure"
)

// kubelet is the kubelet's eviction manager on a node made up of what is set here.
type kubelet struct {
	manager eviction.Manager
	clock   *clocktesting.FakeClock
	layout  nodepressure.Layout
	pods    []*corev1.Pod
	summary stats.Summary
	// cleared is what is measured once something was cleared away.
	cleared stats.Summary
	asked   int

	victim  *corev1.Pod
	grace   int64
	message string
}

func newKubelet(g gen, thresholds []evictionapi.Threshold, transition time.Duration, longest int32) *kubelet {
	k := &kubelet{clock: clocktesting.NewFakeClock(epoch), layout: oneOf(g, nodepressure.Single, nodepressure.DedicatedImages, nodepressure.SplitImages)}
	k.manager, _ = eviction.NewManager(k, eviction.Config{
		PressureTransitionPeriod: transition, MaxPodGracePeriodSeconds: int64(longest), Thresholds: thresholds,
	}, k.kill, k, k, &record.FakeRecorder{}, &corev1.ObjectReference{}, k.clock, false)
	return k
}

func (k *kubelet) Get(context.Context, bool) (*stats.Summary, error) {
	k.asked++
	if k.asked > 1 {
		return &k.cleared, nil
	}
	return &k.summary, nil
}

func (k *kubelet) GetCPUAndMemoryStats(context.Context) (*stats.Summary, error) {
	return &k.summary, nil
}

func (k *kubelet) HasDedicatedImageFs(context.Context) (bool, error) {
	return k.layout != nodepressure.Single, nil
}

func (k *kubelet) HasDedicatedContainerFs(context.Context) (bool, error) {
	return k.layout == nodepressure.SplitImages, nil
}
func (k *kubelet) DeleteUnusedImages(context.Context) error        { return nil }
func (k *kubelet) DeleteAllUnusedContainers(context.Context) error { return nil }

func (k *kubelet) kill(p *corev1.Pod, _ bool, grace *int64, status func(*corev1.PodStatus)) error {
	var s corev1.PodStatus
	status(&s)
	k.victim, k.grace, k.message = p, *grace, s.Message
	return nil
}

// look lets the kubelet look at its node.
func (k *kubelet) look(t *testing.T) {
	t.Helper()
	k.asked, k.victim = 0, nil
	ctx := klog.NewContext(t.Context(), logr.Discard())
	if _, err := synchronize(ctx, k.manager, k, func() []*corev1.Pod { return slices.Clone(k.pods) }); err != nil {
		t.Fatal(err)
	}
}

func (k *kubelet) conditions() []corev1.NodeConditionType {
	var out []corev1.NodeConditionType
	for _, c := range []struct {
		on   bool
		name corev1.NodeConditionType
	}{
		{k.manager.IsUnderDiskPressure(), corev1.NodeDiskPressure},
		{k.manager.IsUnderMemoryPressure(), corev1.NodeMemoryPressure},
		{k.manager.IsUnderPIDPressure(), corev1.NodePIDPressure},
	} {
		if c.on {
			out = append(out, c.name)
		}
	}
	return out
}

// machine is what was measured of a node at a time.
func (g gen) machine(at time.Time) stats.NodeStats {
	when := func() metav1.Time {
		if g.chance(4) {
			return metav1.Time{}
		}
		return metav1.NewTime(at.Add(-time.Duration(g.IntN(12)) * time.Second))
	}
	fs := func() *stats.FsStats {
		if g.chance(4) {
			return nil
		}
		return &stats.FsStats{
			Time: when(), AvailableBytes: g.amount(50), CapacityBytes: new(uint64(60)), InodesFree: g.amount(50), Inodes: new(uint64(60)),
		}
	}
	memory := func() *stats.MemoryStats {
		return &stats.MemoryStats{Time: when(), AvailableBytes: g.amount(50), WorkingSetBytes: g.amount(50)}
	}
	n := stats.NodeStats{NodeName: "n", Memory: memory(), Fs: fs(), Runtime: &stats.RuntimeStats{ImageFs: fs(), ContainerFs: fs()}}
	if g.chance(80) {
		n.SystemContainers = []stats.ContainerStats{{Name: stats.SystemContainerPods, Memory: memory()}}
	}
	if g.chance(90) {
		n.Rlimit = &stats.RlimitStats{Time: when(), MaxPID: new(int64(60)), NumOfRunningProcesses: new(int64(g.IntN(60)))}
	}
	return n
}

// plenty is a node that is short of nothing.
func plenty() stats.NodeStats {
	much := uint64(1 << 40)
	fs := &stats.FsStats{AvailableBytes: &much, CapacityBytes: &much, InodesFree: &much, Inodes: &much}
	return stats.NodeStats{
		NodeName: "n", Memory: &stats.MemoryStats{AvailableBytes: &much, WorkingSetBytes: new(uint64(0))}, Fs: fs,
		Runtime: &stats.RuntimeStats{ImageFs: fs, ContainerFs: fs},
	}
}

const looks = 12

func TestSteps(t *testing.T) {
	t.Parallel()
	var kills, clears int
	each(t, *inputs/looks+1, func(t *testing.T, g gen) {
		c := g.config(0)
		for _, derived := range []string{"containerfs.available", "containerfs.inodesFree"} {
			delete(c.EvictionHard, derived)
			delete(c.EvictionSoft, derived)
		}
		c.EvictionPressureTransitionPeriod.Duration = time.Duration(1+g.IntN(60)) * time.Second
		c.EvictionMaxPodGracePeriod = int32(g.IntN(40))
		their, our := bothRead(t, c)
		if len(their) == 0 {
			return
		}
		killed, cleared := timeline(t, g, c, their, our)
		kills += killed
		clears += cleared
	})
	t.Logf("%d pods were evicted, %d times it was enough to clear away", kills, clears)
}

// timeline lets both look at one node for a while.
func timeline(t *testing.T, g gen, c nodepressure.Config, their []evictionapi.Threshold, our []nodepressure.Threshold) (kills, clears int) {
	t.Helper()
	k := newKubelet(g, their, c.EvictionPressureTransitionPeriod.Duration, c.EvictionMaxPodGracePeriod)
	// At its first look the kubelet does not know of containerfs yet; TestFirstLook shows it.
	k.summary = stats.Summary{Node: plenty()}
	k.look(t)
	var state nodepressure.State
	state, _ = state.Step(nodepressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Thresholds: our, Config: c})
	for range looks {
		k.clock.Step(time.Duration(g.IntN(25)) * time.Second)
		pods, found := g.node(t, 1+g.IntN(6), traits{podLevel: g.chance(50), allMeasured: true, resized: true})
		k.pods, k.summary = pods.kubelet, stats.Summary{Node: g.machine(k.clock.Now()), Pods: found}
		k.cleared = k.summary
		if g.chance(30) {
			k.cleared = stats.Summary{Node: oneOf(g, plenty(), g.machine(k.clock.Now())), Pods: found}
		}
		k.look(t)
		var out nodepressure.Output
		in := nodepressure.Input{Now: k.clock.Now(), Node: node(t, k, k.summary), Pods: measured(t, pods.api, found), Thresholds: our, Config: c}
		state, out = state.Step(in)
		sameStep(t, k, in, out)
		switch {
		case k.victim != nil:
			kills++
		case len(out.Due) > 0 && k.asked > 1:
			clears++
		}
		if t.Failed() {
			return kills, clears
		}
	}
	return kills, clears
}

func node(t *testing.T, k *kubelet, s stats.Summary) nodepressure.Node {
	t.Helper()
	n := read(t, s).Node(nil)
	n.Layout = k.layout
	return n
}

func sameStep(t *testing.T, k *kubelet, in nodepressure.Input, out nodepressure.Output) {
	t.Helper()
	if theirs := k.conditions(); !slices.Equal(theirs, out.Conditions) {
		t.Errorf("the kubelet reports %v, Usher %v", theirs, out.Conditions)
	}
	answers := answers(t, k, in, out)
	if !slices.ContainsFunc(answers, func(a answer) bool { return a.is(k) }) {
		t.Errorf("the kubelet evicts %s with %d s; Usher would say one of %+v", name(k.victim), k.grace, answers)
	}
	if len(out.Due) == 0 {
		return
	}
	first := answers[0]
	switch {
	case out.Victim == nil:
		if len(first.victims) > 0 {
			t.Errorf("Usher's step has no victim, its ranking %v", first.victims)
		}
	case !slices.Contains(first.victims, string(out.Victim.Pod.UID)):
		t.Errorf("Usher's victim is %s, its ranking begins with %v", out.Victim.Pod.UID, first.victims)
	case out.Victim.Grace != first.effective(k, string(out.Victim.Pod.UID)):
		t.Errorf("Usher gives %s for %+v, want %s", out.Victim.Grace, out.Due[0], first.effective(k, string(out.Victim.Pod.UID)))
	case len(out.Due) == 1 && sameWords(k, out.Victim) && k.message != out.Victim.Message:
		t.Errorf("the kubelet says %q, Usher %q", k.message, out.Victim.Message)
	}
	if (len(out.Reclaim) > 0) != first.clears {
		t.Errorf("Usher would clear away %v for %s", out.Reclaim, out.Due[0].Signal)
	}
}

// sameWords reports whether both speak of one pod, and neither of a request of its own for memory: TestDifferentMessage has
// those, and a status does not distinguish one that is pending from one that comes to what the containers have.
func sameWords(k *kubelet, ours *nodepressure.Victim) bool {
	if name(k.victim) != string(ours.Pod.UID) || ours.Pod.Requests.PodMemory {
		return false
	}
	if k.victim.Spec.Resources == nil {
		return true
	}
	_, own := k.victim.Spec.Resources.Requests[corev1.ResourceMemory]
	return !own
}

func name(p *corev1.Pod) string {
	if p == nil {
		return "none"
	}
	return string(p.UID)
}

// answer is what the kubelet may do: where several thresholds are due, it takes one by chance, if memory is among them one
// of memory.
type answer struct {
	threshold nodepressure.Threshold
	victims   []string // more than one where they are alike to the kubelet
	none      bool
	clears    bool // something is cleared away first
	longest   int64
	own       map[string]int64
}

// is reports whether the kubelet did this.
func (a answer) is(k *kubelet) bool {
	if k.victim == nil {
		return a.none
	}
	uid := string(k.victim.UID)
	return !a.none && slices.Contains(a.victims, uid) && k.grace == a.grace(uid)
}

// grace is what the kubelet asks for; what is below a second becomes one later.
func (a answer) grace(uid string) int64 {
	if a.threshold.Hard() {
		return 1
	}
	if own, found := a.own[uid]; found {
		return min(own, a.longest)
	}
	return a.longest
}

// effective is what the kubelet's pod worker makes of what it is asked for: at least a second, and no more than the pod was
// deleted with.
func (a answer) effective(k *kubelet, uid string) time.Duration {
	seconds := a.grace(uid)
	i := slices.IndexFunc(k.pods, func(p *corev1.Pod) bool { return string(p.UID) == uid })
	if deleted := k.pods[i].DeletionGracePeriodSeconds; deleted != nil {
		seconds = min(seconds, *deleted)
	}
	return time.Duration(max(1, seconds)) * time.Second
}

func answers(t *testing.T, k *kubelet, in nodepressure.Input, out nodepressure.Output) []answer {
	t.Helper()
	if len(out.Due) == 0 {
		return []answer{{none: true}}
	}
	own := map[string]int64{}
	for _, p := range k.pods {
		if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
			own[string(p.UID)] = *s
		}
	}
	isEnough := enough(node(t, k, k.cleared), in.Thresholds)
	memory := slices.ContainsFunc(out.Due, func(due nodepressure.Threshold) bool { return due.Signal.Condition() == corev1.NodeMemoryPressure })
	var all []answer
	for _, due := range out.Due {
		if memory && due.Signal.Condition() != corev1.NodeMemoryPressure {
			continue
		}
		a := answer{threshold: due, longest: int64(in.Config.EvictionMaxPodGracePeriod), own: own, clears: clears(due.Signal, k.layout)}
		a.victims = firstOf(nodepressure.Rank(nodepressure.OrderKubelet, due.Signal, in.Node, in.Pods))
		a.none = len(a.victims) == 0 || a.clears && isEnough
		all = append(all, a)
	}
	return all
}

// enough reports whether a node is above all thresholds and their minimum reclaim, so that no pod has to go. What could
// not be read counts as above.
func enough(node nodepressure.Node, thresholds []nodepressure.Threshold) bool {
	return !slices.ContainsFunc(nodepressure.ForLayout(thresholds, node.Layout), func(t nodepressure.Threshold) bool {
		r, found := node.Readings[t.Signal]
		return found && t.MetWithReclaim(r)
	})
}

// clears reports whether the kubelet has something to clear away for a signal.
func clears(s nodepressure.Signal, layout nodepressure.Layout) bool {
	nodefs := s == nodepressure.NodeFsAvailable || s == nodepressure.NodeFsInodesFree
	return s.Condition() == corev1.NodeDiskPressure && (!nodefs || layout != nodepressure.DedicatedImages)
}

// firstOf returns those of which one goes: the first that may, and those that differ from it in their names only.
func firstOf(ranked []nodepressure.Ranked) []string {
	for i, group := 0, 0; i < len(ranked); i = group {
		group = tied(ranked, i)
		var out []string
		for _, r := range ranked[i:group] {
			if r.Exempt == "" {
				out = append(out, string(r.Pod.UID))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
