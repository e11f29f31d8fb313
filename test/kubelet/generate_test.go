package kubelet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

var (
	inputs = flag.Int("inputs", 100_000, "random inputs for each comparison")
	// The same inputs wherever the tests run, so that a tree that passes them does so everywhere; others are looked for with 0.
	seed = flag.Uint64("seed", 1, "seed of the first input; 0: any")
)

// epoch is when the random nodes live.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// each calls check with n random sources, a tenth of them where tests are to be short, each with a seed that shows its input again (-seed N -inputs 1).
func each(t *testing.T, n int, check func(t *testing.T, g gen)) {
	t.Helper()
	begin := *seed
	if begin == 0 {
		begin = rand.Uint64() >> 1
	}
	if testing.Short() {
		n /= 10
	}
	t.Logf("%d inputs from seed %d", n, begin)
	for i := range uint64(max(n, 1)) {
		check(t, gen{rand.New(rand.NewPCG(begin+i, 0)), begin + i})
		if t.Failed() {
			t.Fatalf("seed %d", begin+i)
		}
	}
}

// gen draws small numbers, so that what is compared is often equal or off by one.
type gen struct {
	*rand.Rand
	seed uint64
}

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

func oneOf[T any](g gen, from ...T) T { return from[g.IntN(len(from))] }

func (g gen) amount(below int) *uint64 {
	if g.chance(5) {
		return nil
	}
	n := uint64(g.IntN(below))
	return &n
}

// traits say what the pods of an input may have; where Usher differs on purpose, it is left out and shown elsewhere.
type traits struct{ podLevel, diskRequests, qosInStatus, allMeasured, resized bool }

func (g gen) quantity() resource.Quantity {
	return *resource.NewQuantity(int64(g.IntN(12)), resource.BinarySI)
}

func (g gen) list(percent int, names ...corev1.ResourceName) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range names {
		if g.chance(percent) {
			out[name] = g.quantity()
		}
	}
	return out
}

func (g gen) resources(tr traits) corev1.ResourceRequirements {
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	if tr.diskRequests {
		names = append(names, corev1.ResourceEphemeralStorage)
	}
	out := corev1.ResourceRequirements{Requests: g.list(60, names...), Limits: g.list(30, names...)}
	if g.chance(30) {
		out.Limits = out.Requests.DeepCopy()
	}
	return out
}

func (g gen) container(name string, tr traits) corev1.Container {
	return corev1.Container{Name: name, Resources: g.resources(tr)}
}

// restarts gives some containers a restart policy of their own, and some of those rules.
func (g gen) restarts(c corev1.Container) corev1.Container {
	if !g.chance(30) {
		return c
	}
	c.RestartPolicy = new(oneOf(g, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever))
	for range g.IntN(3) {
		rule := corev1.ContainerRestartRule{Action: oneOf(g, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)}
		if g.chance(90) {
			rule.ExitCodes = &corev1.ContainerRestartRuleOnExitCodes{
				Operator: oneOf(g, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
				Values:   oneOf(g, nil, []int32{137}, []int32{1, 137}, []int32{1}),
			}
		}
		c.RestartPolicyRules = append(c.RestartPolicyRules, rule)
	}
	return c
}

func (g gen) pod(i int, tr traits) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: oneOf(g, "a", "b"), Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i)),
		Annotations: map[string]string{},
	}}
	p.Spec.RestartPolicy = oneOf(g, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever, "")
	for c := range 1 + g.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, g.restarts(g.container(fmt.Sprintf("c%d", c), tr)))
	}
	for c := range g.IntN(3) {
		init := g.restarts(g.container(fmt.Sprintf("i%d", c), tr))
		if g.chance(50) {
			init.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
	g.class(p, tr)
	if g.chance(15) {
		p.Spec.Overhead = g.list(70, corev1.ResourceMemory, corev1.ResourceCPU)
		if tr.diskRequests {
			p.Spec.Overhead[corev1.ResourceEphemeralStorage] = g.quantity()
		}
	}
	p.Spec.TerminationGracePeriodSeconds = new(int64(g.IntN(60))) // the apiserver always sets it
	if g.chance(10) {
		p.DeletionTimestamp = &metav1.Time{Time: epoch}
		p.DeletionGracePeriodSeconds = new(int64(g.IntN(60)))
	}
	g.volumes(p)
	return p
}

// class sets all that makes a pod dearer or cheaper.
func (g gen) class(p *corev1.Pod, tr traits) {
	if g.chance(80) {
		p.Spec.Priority = new(oneOf(g, int32(0), 0, 1, -5, 1000, 1_999_999_999, 2_000_000_000, 2_000_001_000))
	}
	if g.chance(10) {
		p.Spec.PriorityClassName = oneOf(g, "system-node-critical", "system-cluster-critical")
	}
	if g.chance(8) {
		p.Annotations["kubernetes.io/config.source"] = oneOf(g, "file", "http", "api")
	}
	if g.chance(4) {
		p.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	}
	if tr.qosInStatus && g.chance(20) {
		p.Status.QOSClass = oneOf(g, corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed)
	}
	if tr.podLevel && g.chance(25) {
		p.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: g.quantity()}, Limits: g.list(50, corev1.ResourceCPU, corev1.ResourceMemory),
		}
	}
}

func (g gen) volumes(p *corev1.Pod) {
	for v := range g.IntN(4) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", v), VolumeSource: oneOf(g,
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}},
		)})
	}
}

func (g gen) fs() *stats.FsStats {
	if g.chance(10) {
		return nil
	}
	return &stats.FsStats{UsedBytes: g.amount(12), InodesUsed: g.amount(12)}
}

// use is what the kubelet measured of a pod.
func (g gen) use(p *corev1.Pod, tr traits) stats.PodStats {
	out := stats.PodStats{PodRef: stats.PodReference{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}}
	if !g.chance(5) {
		out.Memory = &stats.MemoryStats{WorkingSetBytes: g.amount(30)}
	}
	if !g.chance(5) {
		out.ProcessStats = &stats.ProcessStats{ProcessCount: g.amount(12)}
	}
	for _, c := range p.Spec.Containers {
		use := stats.ContainerStats{Name: c.Name, Rootfs: g.fs(), Logs: g.fs(), Memory: &stats.MemoryStats{WorkingSetBytes: g.amount(12)}}
		if tr.allMeasured {
			use.Rootfs, use.Logs = &stats.FsStats{UsedBytes: new(uint64(g.IntN(12)))}, &stats.FsStats{UsedBytes: new(uint64(g.IntN(12)))}
		}
		out.Containers = append(out.Containers, use)
	}
	for _, v := range p.Spec.Volumes {
		if fs := g.fs(); fs != nil {
			out.VolumeStats = append(out.VolumeStats, stats.VolumeStats{Name: v.Name, FsStats: *fs})
		}
	}
	return out
}
