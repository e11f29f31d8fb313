package nodepressure

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// standing is what a pod uses of one resource.
type standing struct {
	known          bool
	usage, request int64
}

func (s standing) over() int64   { return s.usage - s.request }
func (s standing) exceeds() bool { return s.known && s.usage > s.request }

// measure returns what a pod uses of what a signal is about, and what it requests. Pods do not request inodes and pids.
func measure(s Signal, layout Layout, p *Pod) standing {
	out := standing{known: p.Usage != nil}
	switch s.Resource() {
	case resourceMemory:
		out.request = p.Requests.Memory
	case resourceDisk:
		out.request = p.Requests.Disk
	}
	if p.Usage == nil {
		return out
	}
	switch s.Resource() {
	case resourceMemory:
		out.usage = p.Usage.Memory
	case resourcePIDs:
		out.usage = p.Usage.PIDs
	case resourceDisk:
		for _, part := range partsOn(s, layout) {
			out.usage += p.Usage.Disk[part].Bytes
		}
	case resourceInodes:
		for _, part := range partsOn(s, layout) {
			out.usage += p.Usage.Disk[part].Inodes
		}
	}
	return out
}

// onDisk reports whether a signal is about a file system.
func onDisk(s Signal) bool { return s.Resource() == resourceDisk || s.Resource() == resourceInodes }

// exact writes an amount of a signal's resource as Kubernetes does.
func exact(s Signal, n int64) string {
	format := resource.BinarySI
	if s.Resource() == resourceInodes || s.Resource() == resourcePIDs {
		format = resource.DecimalSI
	}
	return resource.NewQuantity(n, format).String()
}
