package nodepressure

import "time"

// Reading is what was seen of a signal at one moment: bytes, inodes or pids.
type Reading struct {
	Available int64     `json:"available"`
	Capacity  int64     `json:"capacity"`
	At        time.Time `json:"at"`
}

// Layout says which file systems a node's images and containers are on.
type Layout string

// The layouts.
const (
	// Single: everything is on the kubelet's file system.
	Single Layout = "Single"
	// DedicatedImages: images and writable layers share a file system of their own.
	DedicatedImages Layout = "DedicatedImages"
	// SplitImages: images have a file system of their own, writable layers are on the kubelet's.
	SplitImages Layout = "SplitImages"
)

// Daemons compares what the node's system daemons use with what is reserved for them, in bytes.
type Daemons struct {
	Known          bool  `json:"known"`
	MemoryUsage    int64 `json:"memoryUsage"`
	MemoryReserved int64 `json:"memoryReserved"`
}

// over reports whether the daemons are known to use more than is reserved for them.
func (d Daemons) over() bool { return d.Known && d.MemoryUsage > d.MemoryReserved }

// Node is what is known of a node at one moment.
type Node struct {
	Name string `json:"name"`
	// Memory is all of the machine's memory, in bytes (MemTotal).
	Memory int64 `json:"memory"`
	// Swap is all of the machine's swap, in bytes.
	Swap int64 `json:"swap,omitempty"`
	// Layout is Single where it is empty.
	Layout Layout `json:"layout,omitempty"`
	// Readings has no entry for what could not be read.
	Readings map[Signal]Reading `json:"readings"`
	Daemons  Daemons            `json:"daemons,omitzero"`
}
