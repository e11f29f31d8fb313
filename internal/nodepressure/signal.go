package nodepressure

import corev1 "k8s.io/api/core/v1"

// Signal is something a node can run short of, named as in KubeletConfiguration.
type Signal string

// The signals.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available"
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Signals returns all signals, in the order in which they are shown and dealt with: memory first.
func Signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable,
		NodeFsAvailable, NodeFsInodesFree, ImageFsAvailable, ImageFsInodesFree, ContainerFsAvailable, ContainerFsInodesFree,
		PIDAvailable,
	}
}

// The resources behind signals.
const (
	resourceMemory = "memory"
	resourceDisk   = "ephemeral-storage"
	resourceInodes = "inodes"
	resourcePIDs   = "pids"
)

// Condition returns the condition that a node has while the signal is below a threshold, "" for an unknown signal.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s.Resource() {
	case resourceMemory:
		return corev1.NodeMemoryPressure
	case resourceDisk, resourceInodes:
		return corev1.NodeDiskPressure
	case resourcePIDs:
		return corev1.NodePIDPressure
	}
	return ""
}

// Resource returns what runs short: memory, ephemeral-storage, inodes or pids; "" for an unknown signal.
func (s Signal) Resource() string {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return resourceMemory
	case NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable:
		return resourceDisk
	case NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree:
		return resourceInodes
	case PIDAvailable:
		return resourcePIDs
	}
	return ""
}

// place is the signal's position in Signals.
func (s Signal) place() int {
	for i, other := range Signals() {
		if s == other {
			return i
		}
	}
	return len(Signals())
}
