package agent

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/nodepressure"
)

// How old what is known of pods may be: while a pod may have to go, and otherwise. Reading a hundred pods costs some
// milliseconds.
const (
	useWhenPressed = 100 * time.Millisecond
	useAtRest      = time.Minute
)

// podUsage is what is known of the pods of this node. It belongs to the loop.
type podUsage struct {
	machine *machine.Machine
	cache   *podCache
	// policyOf says of a pod with the label whether a policy governs it, and what that says of node pressure.
	policyOf func(*resident, time.Time) (bool, v1alpha1.PressureMode)
	// stays says of such a pod whether its policy has it stay.
	stays func(*resident) bool
	disk  func(types.UID) (nodepressure.Usage, bool)

	seen *podList
	at   time.Time // of the use
	use  map[types.UID]*nodepressure.Usage
	pods []nodepressure.Pod
}

// count returns the pods with what they use, known not longer ago than age. The slice is not changed later. A pod that is
// new is measured at once; that another has changed is no reason to measure all.
func (c *podUsage) count(now time.Time, age time.Duration) []nodepressure.Pod {
	here, _ := c.cache.list()
	measure := c.use == nil || now.Sub(c.at) > age
	if !measure && here == c.seen {
		return c.pods
	}
	known := c.use
	if measure {
		c.at, known = now, nil
	}
	c.seen, c.use = here, make(map[types.UID]*nodepressure.Usage, len(here.all))
	c.pods = make([]nodepressure.Pod, 0, len(here.all))
	for _, r := range here.all {
		pod := r.pod
		usage, ok := known[r.pod.UID]
		if !ok {
			usage = c.measure(r, now)
		}
		c.use[r.pod.UID], pod.Usage = usage, usage
		if pod.Governed {
			pod.Governed, pod.OnPressure = c.policyOf(r, now)
			if pod.Exempt == "" && c.stays(r) {
				pod.Exempt = nodepressure.ExemptLoad
			}
		}
		c.pods = append(c.pods, pod)
	}
	return c.pods
}

// measure returns nil where nothing can be known. A pod without a cgroup is known to use nothing here.
func (c *podUsage) measure(r *resident, now time.Time) *nodepressure.Usage {
	used, err := c.machine.Pod(r.cgroup)
	if err != nil && !errors.Is(err, machine.ErrNoCgroup) {
		return nil
	}
	usage := &nodepressure.Usage{At: now, Memory: used.Memory.WorkingSet, PIDs: max(used.PIDs, 0)}
	if measured, ok := c.disk(r.pod.UID); ok {
		usage.Disk, usage.DiskAt = measured.Disk, measured.DiskAt
	}
	return usage
}

// withContainers fills in what each container uses. It reads a file or two for each, which only a record is worth.
func withContainers(m *machine.Machine, here *podList, pods []nodepressure.Pod) []nodepressure.Pod {
	filled := make([]nodepressure.Pod, len(pods))
	for i, pod := range pods {
		filled[i] = pod
		r := here.byUID[pod.UID]
		if r == nil {
			continue
		}
		filled[i].Containers = make([]nodepressure.Container, len(pod.Containers))
		for j, container := range pod.Containers {
			if used, err := m.Container(r.cgroup, r.containers[container.Name]); err == nil {
				container.Usage, container.WorkingSet = used.Resident, used.WorkingSet
			}
			filled[i].Containers[j] = container
		}
	}
	return filled
}
