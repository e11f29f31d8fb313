package sim

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/snapshot"
)

// pool holds the nodes that admit pods with one node selector, one affinity and one set
// of tolerations, the freest on top. What it says of a node's room may be out of date:
// too good, which is mended when the node comes to the top, or a second entry.
type pool struct {
	placement snapshot.Placement
	heap      heap[berth]
	failures  []failure
	failedAt  uint64 // the scheduler's room when they failed
}

// berth is a node with the share of its room that was free.
type berth struct {
	*slot
	share float64
}

// failure is a pod for which no node had room.
type failure struct {
	needs snapshot.Resources
	why   string
}

func newPool(p *snapshot.Pod, c *scheduler) *pool {
	in := &pool{
		placement: snapshot.PlacementOf(p),
		heap: heap[berth]{less: func(a, b *berth) bool {
			if a.share != b.share {
				return a.share > b.share
			}
			return a.at < b.at
		}},
	}
	for _, at := range c.order {
		if in.admits(at.node) {
			in.heap.push(berth{at, at.free()})
		}
	}
	return in
}

// admits reports whether the scheduler may put the pods of the pool on the node, as far as room does not matter.
func (in *pool) admits(n *snapshot.Node) bool { return n != nil && in.placement.Refusal(n) == "" }

// pick takes the freest node that fits.
func (in *pool) pick(c *scheduler, p *snapshot.Pod) *slot {
	kin := c.kinOf(p)
	var aside []berth
	var found *slot
	for len(in.heap.items) > 0 {
		top := &in.heap.items[0]
		if !in.admits(top.node) {
			in.heap.pop()
			continue
		}
		if share := top.free(); share < top.share {
			top.share = share
			in.heap.sink()
			continue
		}
		if top.fits(p) && !kin[top.name] {
			found = top.slot
			break
		}
		aside = append(aside, in.heap.pop())
	}
	for _, b := range aside {
		in.heap.push(b)
	}
	return found
}

// kinOf returns the nodes that hold pods next to which this one may not be.
func (c *scheduler) kinOf(p *snapshot.Pod) map[string]bool {
	if !p.SpreadHosts {
		return nil
	}
	nodes := map[string]bool{}
	for _, kin := range c.cluster.PodsOf(p.OwnerKey()) {
		nodes[kin.Node] = nodes[kin.Node] || !kin.Finished()
	}
	return nodes
}

// free returns the least free share of the node's resources, at most 1.
func (s *slot) free() float64 {
	has := s.node.Allocatable
	share := func(used, has int64) float64 {
		if has <= 0 {
			return 1
		}
		return 1 - float64(used)/float64(has)
	}
	return min(share(s.used.MilliCPU, has.MilliCPU), share(s.used.Memory, has.Memory), share(s.used.Pods, has.Pods))
}

// fits reports whether the node has room. A node that says nothing of what it offers
// is taken to have it.
func (s *slot) fits(p *snapshot.Pod) bool {
	has := s.node.Allocatable
	if has == (snapshot.Resources{}) {
		return true
	}
	return s.used.Pods < has.Pods && within(s.used.MilliCPU, p.Requests.MilliCPU, has.MilliCPU) &&
		within(s.used.Memory, p.Requests.Memory, has.Memory)
}

func within(used, asked, has int64) bool { return asked == 0 || used+asked <= has }

// failedBefore reports whether a pod that needs no more has failed since room grew.
func (in *pool) failedBefore(p *snapshot.Pod, room uint64) (why string, failed bool) {
	if in.failedAt != room {
		in.failures, in.failedAt = nil, room
	}
	for i := range in.failures {
		f := &in.failures[i]
		if f.needs.MilliCPU <= p.Requests.MilliCPU && f.needs.Memory <= p.Requests.Memory {
			return f.why, true
		}
	}
	return "", false
}

func (in *pool) remember(p *snapshot.Pod, room uint64, why string) {
	if !p.SpreadHosts && in.failedAt == room {
		in.failures = append(in.failures, failure{p.Requests, why})
	}
}

// explain says why no node takes the pod, in the scheduler's words.
func (c *scheduler) explain(in *pool, p *snapshot.Pod) string {
	kin := c.kinOf(p)
	counts := map[string]int{}
	for _, at := range c.order {
		if at.node != nil {
			counts[in.obstacle(at, p, kin[at.name])]++
		}
	}
	total := 0
	parts := make([]string, 0, len(counts))
	for reason, n := range counts {
		total += n
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", total, strings.Join(parts, ", "))
}

func (in *pool) obstacle(at *slot, p *snapshot.Pod, kin bool) string {
	has := at.node.Allocatable
	switch obstacle := in.placement.Refusal(at.node); {
	case obstacle != "":
		return obstacle
	case kin:
		return "node(s) didn't match pod anti-affinity rules"
	case at.used.Pods >= has.Pods:
		return "Too many pods"
	case !within(at.used.MilliCPU, p.Requests.MilliCPU, has.MilliCPU):
		return "Insufficient cpu"
	}
	return "Insufficient memory"
}
