package nodepressure

import (
	"fmt"
	"strings"
)

// message says in the kubelet's words why a pod was evicted. due is what called for it.
func message(s Signal, due []Threshold, node Node, p *Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. ", s.Resource())
	for _, t := range due {
		if reading, found := node.Readings[t.Signal]; found && t.Signal.Resource() == s.Resource() {
			limit := t.Below.of(reading.Capacity)
			fmt.Fprintf(&b, "Threshold quantity: %s, available: %s. ", limit.String(), exact(s, reading.Available))
			break
		}
	}
	blame := func(kind, name string, usage, request int64) {
		if usage > request {
			fmt.Fprintf(&b, "%s %s was using %s, request is %s, has larger consumption of %s. ", kind, name, exact(s, usage), exact(s, request), s.Resource())
		}
	}
	if s.Resource() == resourceMemory && p.Requests.PodMemory && p.Usage != nil {
		blame("Pod", p.Name, p.Usage.Memory, p.Requests.Memory)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		switch s.Resource() {
		case resourceMemory:
			blame("Container", c.Name, c.WorkingSet, c.MemoryRequest)
		case resourceDisk:
			blame("Container", c.Name, c.Disk, c.DiskRequest)
		}
	}
	return b.String()
}
