package kubelet

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/summary"
)

// orders are the kubelet's rankings, each with the signal and the layout that make Usher choose it.
var orders = []struct {
	name   string
	signal nodepressure.Signal
	layout nodepressure.Layout
	rank   func([]*corev1.Pod, statsFunc)
	traits traits
}{
	{"memory", nodepressure.MemoryAvailable, nodepressure.Single, rankMemoryPressure, traits{podLevel: true, resized: true}},
	{"pids", nodepressure.PIDAvailable, nodepressure.Single, rankPIDPressure, traits{}},
	{"everything's bytes", nodepressure.NodeFsAvailable, nodepressure.Single, disk("root", "logs", "localVolumeSource"), traits{diskRequests: true, resized: true}},
	{"logs' and volumes' bytes", nodepressure.NodeFsAvailable, nodepressure.DedicatedImages, disk("logs", "localVolumeSource"), traits{diskRequests: true, resized: true}},
	{"writable layers' bytes", nodepressure.ImageFsAvailable, nodepressure.DedicatedImages, disk("root"), traits{diskRequests: true, resized: true}},
	{"images' bytes", nodepressure.ImageFsAvailable, nodepressure.SplitImages, disk("images"), traits{diskRequests: true, resized: true}},
	{"everything's inodes", nodepressure.NodeFsInodesFree, nodepressure.Single, inodes("root", "logs", "localVolumeSource"), traits{}},
	{"logs' and volumes' inodes", nodepressure.NodeFsInodesFree, nodepressure.DedicatedImages, inodes("logs", "localVolumeSource"), traits{}},
	{"writable layers' inodes", nodepressure.ImageFsInodesFree, nodepressure.DedicatedImages, inodes("root"), traits{}},
}

func disk(parts ...string) func([]*corev1.Pod, statsFunc) {
	return rankDiskPressureFunc(parts, corev1.ResourceEphemeralStorage)
}

// inodes are ranked under a name that the kubelet keeps to itself.
func inodes(parts ...string) func([]*corev1.Pod, statsFunc) {
	return rankDiskPressureFunc(parts, "inodes")
}

func TestRanking(t *testing.T) {
	t.Parallel()
	for _, o := range orders {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			each(t, *inputs/len(orders)+1, func(t *testing.T, g gen) {
				pods, found := g.node(t, 2+g.IntN(14), o.traits)
				o.rank(pods.kubelet, lookUp(found))
				ours := nodepressure.Rank(nodepressure.OrderKubelet, o.signal, nodepressure.Node{Layout: o.layout}, measured(t, pods.api, found))
				sameOrder(t, pods.kubelet, ours)
			})
		})
	}
}

// node is a node's pods and what was measured of them.
func (g gen) node(t *testing.T, n int, tr traits) (population, []stats.PodStats) {
	t.Helper()
	var pods []*corev1.Pod
	var found []stats.PodStats
	for i := range n {
		p := g.pod(i, tr)
		pods = append(pods, p)
		if !g.chance(10) {
			found = append(found, g.use(p, tr))
		}
	}
	return g.resize(t, pods, tr), found
}

func lookUp(found []stats.PodStats) statsFunc {
	return func(p *corev1.Pod) (stats.PodStats, bool) {
		i := slices.IndexFunc(found, func(s stats.PodStats) bool { return s.PodRef.UID == string(p.UID) })
		if i < 0 {
			return stats.PodStats{}, false
		}
		return found[i], true
	}
}

// measured reads what the kubelet would answer, as Usher does.
func measured(t *testing.T, pods []*corev1.Pod, found []stats.PodStats) []nodepressure.Pod {
	t.Helper()
	return read(t, stats.Summary{Node: stats.NodeStats{NodeName: "n"}, Pods: found}).Pods(objects(pods))
}

func read(t *testing.T, s stats.Summary) *summary.Summary {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := summary.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func objects(pods []*corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for _, p := range pods {
		out = append(out, *shown(p))
	}
	return out
}

// shown is a pod as the API shows it, which has of static pods only their mirrors.
func shown(p *corev1.Pod) *corev1.Pod {
	if source, known := p.Annotations["kubernetes.io/config.source"]; known && source != "api" {
		p = p.DeepCopy()
		p.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	}
	return p
}

// sameOrder wants the kubelet's order to be ours, but for pods that nothing but their names distinguishes: the kubelet
// leaves those as they come.
func sameOrder(t *testing.T, theirs []*corev1.Pod, ours []nodepressure.Ranked) {
	t.Helper()
	for i, group := 0, 0; i < len(ours); i = group {
		group = tied(ours, i)
		for _, p := range theirs[i:group] {
			if !slices.ContainsFunc(ours[i:group], func(r nodepressure.Ranked) bool { return r.Pod.UID == p.UID }) {
				t.Errorf("the kubelet has %s at place %d to %d, Usher %v", p.UID, i, group-1, places(ours))
				return
			}
		}
	}
}

// tied returns the end of the pods from i on that only names tell apart.
func tied(ours []nodepressure.Ranked, i int) int {
	for ; i < len(ours)-1; i++ {
		if ours[i].Rule != nodepressure.RuleName {
			break
		}
	}
	return i + 1
}

func places(ours []nodepressure.Ranked) []string {
	var out []string
	for _, r := range ours {
		out = append(out, string(r.Pod.UID)+" "+string(r.Rule))
	}
	return out
}
