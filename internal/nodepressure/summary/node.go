package summary

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"usher.sh/usher/internal/nodepressure"
)

// Node returns what was measured of the node. The API object adds how much memory the machine has; without it (nil) that
// is what was available and in use together, which is less than all where pages are set aside as huge ones.
func (s *Summary) Node(object *corev1.Node) nodepressure.Node {
	n := nodepressure.Node{Name: s.stats.Node.NodeName, Layout: s.layout(), Readings: s.readings(), Daemons: s.daemons()}
	n.Memory = n.Readings[nodepressure.MemoryAvailable].Capacity
	if object != nil {
		if memory := object.Status.Capacity.Memory(); memory.Sign() > 0 {
			n.Memory = memory.Value()
		}
	}
	if swap := s.stats.Node.Swap; swap != nil {
		n.Swap = number(swap.SwapAvailableBytes) + number(swap.SwapUsageBytes)
	}
	return n
}

// At is when the newest of the node's readings was taken; zero where none has a time.
func (s *Summary) At() time.Time {
	var newest time.Time
	for _, r := range s.readings() {
		if r.At.After(newest) {
			newest = r.At
		}
	}
	return newest
}

func (s *Summary) readings() map[nodepressure.Signal]nodepressure.Reading {
	found := map[nodepressure.Signal]nodepressure.Reading{}
	addMemory(found, nodepressure.MemoryAvailable, s.stats.Node.Memory)
	if pods := s.podsCgroup(); pods != nil {
		addMemory(found, nodepressure.AllocatableMemoryAvailable, pods.Memory)
	}
	addFs(found, nodepressure.NodeFsAvailable, nodepressure.NodeFsInodesFree, s.stats.Node.Fs)
	if runtime := s.stats.Node.Runtime; runtime != nil {
		addFs(found, nodepressure.ImageFsAvailable, nodepressure.ImageFsInodesFree, runtime.ImageFs)
		addFs(found, nodepressure.ContainerFsAvailable, nodepressure.ContainerFsInodesFree, runtime.ContainerFs)
	}
	if limit := s.stats.Node.Rlimit; limit != nil && limit.MaxPID != nil && limit.NumOfRunningProcesses != nil {
		found[nodepressure.PIDAvailable] = nodepressure.Reading{
			Available: *limit.MaxPID - *limit.NumOfRunningProcesses, Capacity: *limit.MaxPID, At: limit.Time.Time,
		}
	}
	return found
}

// addMemory counts as the kubelet does. Its own subtraction has no sign, so a use beyond the limit arrives as a huge
// number; read with a sign, it is below 0 as it should be.
func addMemory(found map[nodepressure.Signal]nodepressure.Reading, s nodepressure.Signal, m *stats.MemoryStats) {
	if m == nil || m.AvailableBytes == nil || m.WorkingSetBytes == nil {
		return
	}
	found[s] = nodepressure.Reading{Available: number(m.AvailableBytes), Capacity: number(m.AvailableBytes) + number(m.WorkingSetBytes), At: m.Time.Time}
}

func addFs(found map[nodepressure.Signal]nodepressure.Reading, bytes, inodes nodepressure.Signal, fs *stats.FsStats) {
	if fs == nil {
		return
	}
	if fs.AvailableBytes != nil && fs.CapacityBytes != nil {
		found[bytes] = nodepressure.Reading{Available: number(fs.AvailableBytes), Capacity: number(fs.CapacityBytes), At: fs.Time.Time}
	}
	if fs.InodesFree != nil && fs.Inodes != nil {
		found[inodes] = nodepressure.Reading{Available: number(fs.InodesFree), Capacity: number(fs.Inodes), At: fs.Time.Time}
	}
}

// podsCgroup is the cgroup of all pods together, nil where it was not measured.
func (s *Summary) podsCgroup() *stats.ContainerStats {
	for i := range s.stats.Node.SystemContainers {
		if c := &s.stats.Node.SystemContainers[i]; c.Name == stats.SystemContainerPods {
			return c
		}
	}
	return nil
}

// daemons takes all memory in use outside of the pods for the daemons', and what the limit of the pods' cgroup leaves for
// what is reserved. Where nothing is reserved there is nothing to be exceeded, and nothing is known.
func (s *Summary) daemons() nodepressure.Daemons {
	readings := s.readings()
	node, measured := readings[nodepressure.MemoryAvailable]
	pods, limited := readings[nodepressure.AllocatableMemoryAvailable]
	if !measured || !limited || node.Capacity <= pods.Capacity {
		return nodepressure.Daemons{}
	}
	usage := (node.Capacity - node.Available) - (pods.Capacity - pods.Available)
	return nodepressure.Daemons{Known: true, MemoryUsage: max(0, usage), MemoryReserved: node.Capacity - pods.Capacity}
}

// layout distinguishes file systems by their measures: the summary has no names for them.
func (s *Summary) layout() nodepressure.Layout {
	node, runtime := s.stats.Node.Fs, s.stats.Node.Runtime
	switch {
	case runtime == nil || same(node, runtime.ImageFs):
		return nodepressure.Single
	case same(runtime.ImageFs, runtime.ContainerFs):
		return nodepressure.DedicatedImages
	}
	return nodepressure.SplitImages
}

// same reports whether two measures can be of one file system: its size does not change between the two, and what is
// available changes little. What was not measured is taken to be no other one.
func same(a, b *stats.FsStats) bool {
	if a == nil || b == nil || a.CapacityBytes == nil || b.CapacityBytes == nil {
		return true
	}
	if number(a.CapacityBytes) != number(b.CapacityBytes) || number(a.Inodes) != number(b.Inodes) {
		return false
	}
	const little = 100 // one part in so many
	difference := number(a.AvailableBytes) - number(b.AvailableBytes)
	return max(difference, -difference) <= number(a.CapacityBytes)/little
}

// number reads what was measured; nothing is 0.
func number(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return int64(*n) //nolint:gosec // addMemory says why a number that does not fit has to wrap
}
