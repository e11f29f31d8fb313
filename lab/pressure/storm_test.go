package pressure

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
)

// storm is a load, and what surrounds it.
type storm struct {
	name string
	node join.Options
	pods []resident
	// before and load are the tasks of pods, by name: what is measured and shows which pod would go, and what brings the node
	// into trouble.
	before, load map[string]string
	// known is what must be known to be used before usher pressure is asked which pod would go.
	known map[string]int64
	// suppose is the shortage of which usher pressure is asked; without one, no pod has to go.
	suppose string
	meter   func(*realnode.Node) meter
	// thresholds are the agent's.
	thresholds string
	// ours and theirs are where agent and kubelet act, after a grace that only the agent has.
	ours, theirs limit
	grace        time.Duration
}

// limit is an amount, or a share of the capacity.
type limit struct {
	amount int64
	share  float64
}

func (l limit) met(a amount) bool {
	return a.available < l.amount || float64(a.available) < l.share*float64(a.capacity)
}

// resident is one of a storm's pods.
type resident struct {
	name           string
	uses           int // MiB at start
	request, limit string
	lingers        time.Duration // after SIGTERM
	scratch        bool          // has an emptyDir at scratchDir
}

const scratchDir = "/scratch"

func (r resident) resources() corev1.ResourceRequirements {
	memory := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size), corev1.ResourceCPU: resource.MustParse("10m")}
	}
	var out corev1.ResourceRequirements
	if r.request != "" {
		out.Requests = memory(r.request)
	}
	if r.limit != "" {
		out.Limits = memory(r.limit)
	}
	return out
}

// innocents are pods of two classes that keep to what they asked for.
func innocents() []resident {
	return []resident{{name: "steady", uses: 20, request: "64Mi"}, {name: "quiet", uses: 10, request: "48Mi", limit: "48Mi"}}
}

const (
	mib       = 1 << 20
	theirHard = 100 * mib
	memory    = "allocatableMemory.available"
)

func hardMemory(mib int) string {
	return fmt.Sprintf("evictionHard: {memory.available: %dMi}\nevictionSoft: {}", mib)
}

func storms() []storm {
	return []storm{leak(), ramp(), ten(), filler(), inodes(), pids()}
}

// leak is slow enough for the agent's soft threshold.
func leak() storm {
	return storm{
		name: "slow leak", node: join.Options{Memory: resource.MustParse("400Mi")},
		pods:  append(innocents(), resident{name: "leak", uses: 60}),
		load:  map[string]string{"leak": "/memory?mib=800&rate=10"},
		known: map[string]int64{"leak": 60 * mib, "steady": 20 * mib, "quiet": 10 * mib}, suppose: memory + "=50Mi",
		meter: memoryOf, theirs: limit{amount: theirHard},
		thresholds: "evictionHard: {memory.available: 150Mi}\nevictionSoft: {" + memory + ": 220Mi}\nevictionSoftGracePeriod: {" + memory + ": 2s}",
		ours:       limit{amount: 220 * mib}, grace: 2 * time.Second,
	}
}

func ramp() storm {
	return storm{
		name: "fast ramp, 300 MiB/s", node: join.Options{Memory: resource.MustParse("1Gi")},
		pods:  append(innocents(), resident{name: "other", uses: 30}, resident{name: "ramp", uses: 60}),
		load:  map[string]string{"ramp": "/memory?mib=2000&rate=300"},
		known: map[string]int64{"ramp": 60 * mib, "other": 30 * mib, "steady": 20 * mib}, suppose: memory + "=50Mi",
		meter: memoryOf, thresholds: hardMemory(300), ours: limit{amount: 300 * mib}, theirs: limit{amount: theirHard},
	}
}

// ten are pods that all grow, of which one grows on.
func ten() storm {
	s := storm{
		name: "ten pods at once", node: join.Options{Memory: resource.MustParse("900Mi")},
		pods: []resident{{name: "pod-0", uses: 60}}, load: map[string]string{"pod-0": "/memory?mib=800&rate=20"},
		known: map[string]int64{"pod-0": 60 * mib}, suppose: memory + "=50Mi",
		meter: memoryOf, thresholds: hardMemory(200), ours: limit{amount: 200 * mib}, theirs: limit{amount: theirHard},
	}
	for i := 1; i < 10; i++ {
		name := fmt.Sprintf("pod-%d", i)
		s.pods = append(s.pods, resident{name: name, uses: 20})
		s.load[name], s.known[name] = "/memory?mib=45&rate=20", 20*mib
	}
	return s
}

// ownDisk is small enough to be filled and large enough for the images.
func ownDisk() join.Options {
	return join.Options{Disk: realnode.Disk{Size: resource.MustParse("1Gi"), Inodes: 20000}}
}

func filler() storm {
	return storm{
		name: "disk filler", node: ownDisk(), pods: append(innocents(), resident{name: "filler"}),
		before: map[string]string{"filler": "/disk?mib=60"}, load: map[string]string{"filler": "/disk?mib=1000&rate=50"},
		known: map[string]int64{"filler": 60 * mib}, suppose: "nodefs.available=1Mi",
		meter: spaceOf, thresholds: "evictionHard: {nodefs.available: 25%}\nevictionSoft: {}",
		ours: limit{share: 0.25}, theirs: limit{share: 0.1},
	}
}

func inodes() storm {
	return storm{
		name: "inode filler", node: ownDisk(), pods: append(innocents(), resident{name: "filler"}),
		before: map[string]string{"filler": "/inodes?count=1000"}, load: map[string]string{"filler": "/inodes?count=20000&rate=1000"},
		known: map[string]int64{"filler": 1000}, suppose: "nodefs.inodesFree=1",
		meter: inodesOf, thresholds: "evictionHard: {nodefs.inodesFree: 25%}\nevictionSoft: {}",
		ours: limit{share: 0.25}, theirs: limit{share: 0.1},
	}
}

// pids is a pod that uses up its own limit, which harms no other pod.
func pids() storm {
	return storm{
		name: "pod at its pid limit", node: join.Options{PodPIDs: 64}, pods: append(innocents(), resident{name: "forks"}),
		load:       map[string]string{"forks": "/pids?count=64"},
		thresholds: hardMemory(150),
	}
}
