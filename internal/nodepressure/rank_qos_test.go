package nodepressure

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each case quotes the sentence that it comes from: OpenShift's chapter "Pod eviction", translated.
func TestRankQoS(t *testing.T) {
	const b, u, g = corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	mem := func(name string, class corev1.PodQOSClass, request, usage int64) Pod {
		return memoryPod(name, class, request*mi, usage*mi)
	}
	disk := func(name string, class corev1.PodQOSClass, request, bytes, inodes int64) Pod {
		p := diskPod(name, 0, request*mi, FsUse{Bytes: bytes * mi, Inodes: inodes}, FsUse{}, FsUse{})
		p.QoS = class
		return p
	}
	daemon := func(p Pod) Pod { p.DaemonSet = true; return p }
	within := Node{Daemons: Daemons{Known: true, MemoryUsage: 5, MemoryReserved: 5}}
	beyond := Node{Daemons: Daemons{Known: true, MemoryUsage: 6, MemoryReserved: 5}}
	guaranteed := []string{"guaranteed"}
	for name, test := range map[string]rankTest{
		"The node ranks pods for eviction by QoS.": {
			rules: []Rule{RuleClass, RuleClass, RuleLast},
			pods:  []Pod{mem("best-effort", b, 0, 1), mem("burstable", u, 100, 900), mem("guaranteed", g, 999, 999)},
		},
		"Among pods of the same QoS, the node ranks pods by their consumption of the resource relative to their scheduling request.": {
			rules: []Rule{RuleOverage, RuleOverRequest},
			pods:  []Pod{mem("200-over", u, 100, 300), mem("100-over", u, 800, 900), mem("1000-below", u, 2000, 1000)},
		},
		"Burstable: the pod that consumes most of the resource relative to its request fails first.": {
			rules: []Rule{RuleOverage},
			pods:  []Pod{mem("2-over", u, 1, 3), mem("1-over", u, 500, 501)},
		},
		"Burstable: if no pod exceeds its request, the strategy targets the largest consumer of the resource.": {
			rules: []Rule{RuleConsumption, RuleConsumption},
			pods:  []Pod{mem("500-of-1000", u, 1000, 500), mem("400-of-400", u, 400, 400), mem("300-of-301", u, 301, 300)},
		},
		"BestEffort: the pod that consumes most of the resource fails first.": {
			rules: []Rule{RuleConsumption, RuleConsumption},
			pods:  []Pod{mem("300", b, 0, 300), mem("200", b, 0, 200), mem("0", b, 0, 0)},
		},
		"Guaranteed: the pod that consumes most relative to its request fails first; if none exceeds it, the largest consumer.": {
			rules: []Rule{RuleOverRequest, RuleConsumption},
			pods:  []Pod{mem("over", g, 10, 11), mem("large", g, 900, 800), mem("small", g, 900, 700)},
		},
		"Guaranteed pods are not evicted because of another pod's consumption, unless system daemons consume more than their reservation.": {
			node: within, passed: guaranteed,
			pods: []Pod{mem("best-effort", b, 0, 1), mem("guaranteed", g, 900, 900)},
		},
		"… the same while nothing is known of the daemons": {
			passed: guaranteed,
			pods:   []Pod{mem("best-effort", b, 0, 1), mem("guaranteed", g, 900, 900)},
		},
		"… and if the daemons do, they are evicted in their turn": {
			node: beyond, passed: []string{},
			pods: []Pod{mem("best-effort", b, 0, 1), mem("guaranteed", g, 900, 900)},
		},
		"… or a Guaranteed pod's own consumption is the reason": {
			node: within, passed: []string{},
			pods: []Pod{mem("best-effort", b, 0, 1), mem("guaranteed", g, 900, 901)},
		},
		"If only Guaranteed pods remain on the node, the node evicts the pod that least impacts its stability …": {
			node: within, passed: []string{},
			rules: []Rule{RulePriority, RuleConsumption, RuleDaemonSet},
			pods: []Pod{
				withPriority(mem("unimportant", g, 900, 100), -1), mem("large", g, 900, 900), mem("small", g, 900, 50), daemon(withPriority(mem("serves-the-node", g, 900, 900), -2)),
			},
		},
		"… and limits the impact of the unexpected consumption on the other Guaranteed pods.": {
			node: within, passed: []string{}, rules: []Rule{RuleOverRequest},
			pods: []Pod{withPriority(mem("unexpected", g, 100, 101), 1000), withPriority(mem("as-expected", g, 900, 900), -1)},
		},
		"… which critical pods of lower classes do not change": {
			node: within, passed: []string{"a-static"},
			pods: []Pod{func() Pod { p := mem("a-static", b, 0, 1); p.Exempt = ExemptMirror; return p }(), mem("guaranteed", g, 900, 900)},
		},
		"Local disk is a best-effort resource; if the node is short of disk, it ranks the pods within a QoS by their consumption of local disk and evicts the largest first.": {
			signal: NodeFsAvailable, passed: []string{},
			rules: []Rule{RuleClass, RuleConsumption, RuleClass},
			pods: []Pod{
				disk("best-effort", b, 0, 1, 0), disk("500-of-1000", u, 1000, 500, 0), disk("400-of-nothing", u, 0, 400, 0), disk("guaranteed", g, 0, 900, 0),
			},
		},
		"If the node is short of inodes, it evicts the pods of the lowest QoS first.": {
			signal: NodeFsInodesFree, passed: []string{},
			rules: []Rule{RuleClass, RuleConsumption, RuleClass},
			pods: []Pod{
				disk("best-effort", b, 0, 0, 1), disk("many", u, 0, 0, 500), disk("few", u, 900, 800, 400), disk("guaranteed", g, 0, 0, 900),
			},
		},
		"what is not known comes last in its class": {
			rules: []Rule{RuleStats, RuleClass},
			pods:  []Pod{mem("best-effort", b, 0, 0), unknown(mem("best-effort-unknown", b, 0, 0)), mem("burstable", u, 0, 900)},
		},
		"priority does not count, names settle what is equal": {
			rules: []Rule{RuleName},
			pods:  []Pod{withPriority(mem("a", b, 0, 5), 100), withPriority(mem("b", b, 0, 5), -100)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.order = OrderQoS
			if test.signal == "" {
				test.signal = MemoryAvailable
			}
			test.run(t)
		})
	}
}

func TestWhy(t *testing.T) {
	const b, u = corev1.PodQOSBestEffort, corev1.PodQOSBurstable
	disk := func(name string, n int64) Pod {
		p := diskPod(name, 0, 0, FsUse{Bytes: n}, FsUse{}, FsUse{})
		p.QoS = u
		return p
	}
	for _, test := range []struct {
		order Order
		s     Signal
		a, b  Pod
		want  string
	}{
		{OrderQoS, MemoryAvailable, memoryPod("a", b, 0, mi), memoryPod("b", u, 0, gi), "it is BestEffort, default/b is Burstable"},
		{OrderQoS, MemoryAvailable, memoryPod("a", u, mi, 3*mi), memoryPod("b", u, gi, gi), "it uses 3Mi of memory, 2Mi over its request, and default/b stays within its request"},
		{OrderKubelet, MemoryAvailable, memoryPod("a", u, gi, 3*mi), memoryPod("b", u, 2*gi, mi), "it uses 3Mi of memory, 1021Mi below its request; default/b uses 1Mi, 2Gi below its request"},
		{OrderKubelet, MemoryAvailable, memoryPod("a", u, gi, mi), withPriority(memoryPod("b", u, gi, mi), 5), "its priority is 0, that of default/b is 5"},
		{OrderQoS, NodeFsAvailable, disk("a", 5*gi), disk("b", 4*gi), "it uses 5Gi of local disk, default/b uses 4Gi"},
		{OrderQoS, MemoryAvailable, memoryPod("a", b, 0, 300*mi), memoryPod("b", b, 0, 300*mi-36<<10), "it uses 300Mi of memory, default/b uses 300Mi (36Ki less)"},
		{OrderKubelet, MemoryAvailable, memoryPod("a", u, gi, mi), memoryPod("b", u, 2*gi, gi+mi-1), "it uses 1Mi of memory, 1023Mi below its request; default/b uses 1Gi, 1023Mi below its request (1 less)"},
		{OrderKubelet, MemoryAvailable, unknown(memoryPod("a", u, 0, 0)), memoryPod("b", u, 0, 0), "nothing is known of what it uses, unlike default/b"},
		{OrderQoS, MemoryAvailable, memoryPod("a", u, 0, 0), unknown(memoryPod("b", u, 0, 0)), "nothing is known of what default/b uses"},
		{OrderQoS, MemoryAvailable, memoryPod("a", u, 0, 0), memoryPod("b", u, 0, 0), "nothing distinguishes it from default/b but its name"},
	} {
		got := Rank(test.order, test.s, Node{}, []Pod{test.b, test.a})
		if got[0].Pod.Name != "a" || got[0].Why != test.want {
			t.Errorf("%s: %q, want %q", got[0].Pod.Name, got[0].Why, test.want)
		}
	}
}
