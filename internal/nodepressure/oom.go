package nodepressure

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OOM is a container as the kernel's OOM killer sees it.
type OOM struct {
	Pod       Pod    `json:"pod"`
	Container string `json:"container"`
	// Adj is oom_score_adj, from -1000 to 1000.
	Adj int `json:"adj"`
	// Usage is resident memory and swap, in bytes; -1: unknown, counted as nothing.
	Usage int64 `json:"usage"`
	// Score is usage in thousandths of the memory and swap that run out (OOMWithin), plus Adj: what the kernel compares,
	// rounded down.
	Score int `json:"score"`
	// Restart is the restart policy that decides whether the container is started again on its node, "" where it is not known:
	// with Never it stays ended.
	Restart corev1.RestartPolicy `json:"restart,omitempty"`
}

// OOMWithin says whose memory is used up first if it goes on: the machine's, or what all pods together may use. In the latter case
// the kernel chooses among the pods alone, and its scores are shares of their limit (mm/oom_kill.c, constrained_alloc), so that
// Adj weighs less.
func OOMWithin(node Node) Signal {
	pods, limited := node.Readings[AllocatableMemoryAvailable]
	all, known := node.Readings[MemoryAvailable]
	if limited && known && pods.Capacity > 0 && pods.Capacity < node.Memory && pods.Available < all.Available {
		return AllocatableMemoryAvailable
	}
	return MemoryAvailable
}

// OOMTable names a release and so how it sets oom_score_adj.
type OOMTable string

// The tables.
const (
	OOM137 OOMTable = "1.37" // Kubernetes 1.37 (pkg/kubelet/qos)
	OOM311 OOMTable = "3.11" // OpenShift 3.11 (its chapter on pod eviction)
)

// OOMScores returns the containers of all pods in the order in which the kernel would take them when the memory of OOMWithin
// is used up and oom_score_adj is set by a table, first goes first. Init containers other than sidecars count only where they
// are known to use something.
func OOMScores(table OOMTable, node Node, pods []Pod) []OOM {
	var out []OOM
	for i := range pods {
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			if c.Init && !c.Sidecar && c.Usage <= 0 {
				continue
			}
			o := OOM{Pod: pods[i], Container: c.Name, Adj: c.adj(table, &pods[i], node.Memory), Usage: c.Usage, Restart: c.restart(&pods[i])}
			o.Score = int(o.badness(node) * 1000 / total(node))
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b OOM) int {
		return cmp.Or(
			-cmp.Compare(a.badness(node), b.badness(node)),
			cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name),
			cmp.Compare(a.Pod.UID, b.Pod.UID), cmp.Compare(a.Container, b.Container),
		)
	})
	return out
}

const page = 4096

// total is what the kernel's scores are shares of, in pages.
func total(node Node) int64 {
	memory := node.Memory
	if OOMWithin(node) == AllocatableMemoryAvailable {
		memory = node.Readings[AllocatableMemoryAvailable].Capacity
	}
	return max((memory+node.Swap)/page, 1)
}

// never is the adjustment of a process that the kernel does not take.
const never = -1000

// badness is the kernel's score, in pages: what would be freed, moved by Adj thousandths of the total.
func (o *OOM) badness(node Node) int64 {
	if o.Adj == never {
		return never * total(node) / 1000
	}
	return max(o.Usage, 0)/page + int64(o.Adj)*(total(node)/1000)
}

// The scores that the kubelet of 1.37 sets.
const (
	adjGuaranteed = -997
	adjBestEffort = 1000
	adjLeast      = 3 // of Burstable: a Guaranteed pod with all of the memory must still be below
	adjMost       = 999
)

// adj is what the machine shows or the kubelet would set, by today's table; what it would be by that of OpenShift 3.11.
func (c *Container) adj(table OOMTable, p *Pod, memory int64) int {
	switch {
	case table == OOM311:
		return adjust311(p.QoS, c.MemoryRequest, memory)
	case c.OOMScoreAdj != nil:
		return *c.OOMScoreAdj
	}
	return scoreAdj(p.QoS, p.NodeCritical, c.OOMRequest, memory)
}

func scoreAdj(class corev1.PodQOSClass, nodeCritical bool, request, memory int64) int {
	switch {
	case nodeCritical || class == corev1.PodQOSGuaranteed:
		return adjGuaranteed
	case class == corev1.PodQOSBestEffort:
		return adjBestEffort
	}
	return min(max(spared(request, memory), adjLeast), adjMost)
}

// spared is 1000 less the thousandths of memory that were requested.
func spared(request, memory int64) int {
	switch {
	case memory <= 0:
		return 1000 // nothing is known of the machine
	case request >= memory:
		return 0
	}
	return int(1000 - 1000*request/memory)
}

// adjust311 is what OpenShift 3.11 sets, by its chapter on pod eviction: a container's own request counts, and no pod is spared for being critical.
func adjust311(class corev1.PodQOSClass, request, memory int64) int {
	switch class {
	case corev1.PodQOSGuaranteed:
		return -998
	case corev1.PodQOSBestEffort:
		return adjBestEffort
	default:
		return min(max(2, spared(request, memory)), adjMost)
	}
}

// oomRequest returns the memory for which a container is spared, in bytes: its request and its share of what the pod asks
// for beyond its containers; for a sidecar, which must outlive the main containers, not less than the smallest of those.
func oomRequest(p *corev1.Pod, c *corev1.Container) int64 {
	request := c.Resources.Requests.Memory().Value()
	if sidecar(p, c) {
		request = max(request, smallestMain(p))
	}
	return request + shareOfPod(p)
}

// sidecar reports whether a container is one of the pod's init containers and keeps running.
func sidecar(p *corev1.Pod, c *corev1.Container) bool {
	return restartable(c) && slices.ContainsFunc(p.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

func smallestMain(p *corev1.Pod) int64 {
	smallest := int64(0)
	for i := range p.Spec.Containers {
		request := p.Spec.Containers[i].Resources.Requests.Memory().Value()
		if i == 0 || request < smallest {
			smallest = request
		}
	}
	return smallest
}

// shareOfPod is a container's part of what the pod asks for beyond its containers.
func shareOfPod(p *corev1.Pod) int64 {
	count := int64(len(p.Spec.Containers) + len(p.Spec.InitContainers))
	if p.Spec.Resources == nil || count == 0 {
		return 0
	}
	own := p.Spec.Resources.Requests.Memory().Value()
	containers := containersRequest(p, corev1.ResourceMemory)
	return max(0, own-containers.Value()) / count
}
