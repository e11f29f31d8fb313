package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// scheduler finds nodes for pods: the fit node with the greatest share of its room
// free. Nothing is counted before the first pod asks.
type scheduler struct {
	cluster *snapshot.Cluster
	slots   map[string]*slot
	order   []*slot
	pools   map[string]*pool
	poolOf  map[snapshot.OwnerKey]*pool // by controller: its pods have one template
	queue   []types.UID                 // pods for which no node was found, in order
	room    uint64                      // counts the times at which room grew
	tried   uint64                      // room when the queue was last tried
	awake   bool
}

// slot is one node as the scheduler sees it.
type slot struct {
	name string
	node *snapshot.Node // nil once it was deleted
	at   int            // place in the order of names
	used snapshot.Resources
}

func (c *scheduler) start() {
	if c.slots != nil {
		return
	}
	c.slots, c.pools, c.poolOf = map[string]*slot{}, map[string]*pool{}, map[snapshot.OwnerKey]*pool{}
	for _, n := range c.cluster.Nodes() {
		c.slotFor(n.Name)
	}
}

func (c *scheduler) slotFor(node string) *slot {
	if at := c.slots[node]; at != nil {
		return at
	}
	at := &slot{name: node, node: c.cluster.Node(node), at: len(c.order)}
	for _, p := range c.cluster.PodsOn(node) {
		at.take(p, 1)
	}
	c.slots[node] = at
	c.order = append(c.order, at)
	return at
}

func (s *slot) take(p *snapshot.Pod, sign int64) {
	if p.Finished() {
		return
	}
	s.used.MilliCPU += sign * p.Requests.MilliCPU
	s.used.Memory += sign * p.Requests.Memory
	s.used.Pods += sign
}

// occupy and release follow pods as they come to nodes and leave them.
func (c *scheduler) occupy(p *snapshot.Pod) {
	if at := c.slots[p.Node]; at != nil {
		at.take(p, 1)
	}
}

func (c *scheduler) release(p *snapshot.Pod) {
	at := c.slots[p.Node]
	if at == nil {
		return
	}
	at.take(p, -1)
	c.offer(at)
}

// nodeChanged looks at a node again.
func (c *scheduler) nodeChanged(name string) {
	if c.slots == nil {
		return
	}
	at := c.slotFor(name)
	at.node = c.cluster.Node(name)
	c.offer(at)
}

// offer puts the node into every pool that it admits. Room on a node that admits none is no news.
func (c *scheduler) offer(at *slot) {
	grown := false
	for _, p := range c.pools {
		if p.admits(at.node) {
			p.heap.push(berth{at, at.free()})
			grown = true
		}
	}
	if grown {
		c.room++
	}
}

func (c *scheduler) roomGrew() bool { return c.room != c.tried && len(c.queue) > 0 }

// queue lets the scheduler look at a new pod.
func (s *Sim) queue(p *snapshot.Pod) {
	uid := p.UID
	s.after(s.takes(s.cfg.Schedule, p), func() {
		s.scheduler.start()
		if p := s.truth.Pod(uid); p != nil && p.Node == "" && !p.Terminating() && !s.place(p) {
			s.scheduler.queue = append(s.scheduler.queue, uid)
		}
	})
}

// wakeScheduler tries the pods again for which there was no room.
func (s *Sim) wakeScheduler() {
	if s.scheduler.awake {
		return
	}
	s.scheduler.awake = true
	s.after(0, func() {
		s.scheduler.awake = false
		s.scheduler.tried = s.scheduler.room
		s.scheduler.queue = slices.DeleteFunc(s.scheduler.queue, func(uid types.UID) bool {
			p := s.truth.Pod(uid)
			return p == nil || p.Node != "" || s.place(p)
		})
	})
}

// place binds a pod, or says on it why that cannot be.
func (s *Sim) place(p *snapshot.Pod) bool {
	node, why := s.scheduler.find(p)
	if node == "" {
		if !p.Unschedulable || p.NotReadyWhy != why {
			s.changePod(p.UID, func(p *snapshot.Pod) { p.Unschedulable, p.NotReadyWhy = true, why })
		}
		return false
	}
	bound := *p
	s.bind(&bound, node)
	s.setPod(&bound)
	s.bring(&bound)
	return true
}

func (s *Sim) bind(bound *snapshot.Pod, node string) {
	bound.Node, bound.Unschedulable, bound.NotReadyWhy = node, false, "ContainerCreating"
	if s.cfg.Boot == nil {
		bound.Phase, bound.NotReadyWhy = corev1.PodRunning, "ContainersNotReady"
	}
}

// find returns a node for the pod, or why there is none, in the scheduler's words.
func (c *scheduler) find(p *snapshot.Pod) (node, why string) {
	in := c.poolFor(p)
	if why, failed := in.failedBefore(p, c.room); failed {
		return "", why
	}
	if at := in.pick(c, p); at != nil {
		return at.name, ""
	}
	why = c.explain(in, p)
	in.remember(p, c.room, why)
	return "", why
}

func (c *scheduler) poolFor(p *snapshot.Pod) *pool {
	if known := c.poolOf[p.OwnerKey()]; known != nil && p.Owner.UID != "" {
		return known
	}
	sign := signature(p)
	in := c.pools[sign]
	if in == nil {
		in = newPool(p, c)
		c.pools[sign] = in
	}
	c.poolOf[p.OwnerKey()] = in
	return in
}

// signature is the same for pods that the same nodes admit.
func signature(p *snapshot.Pod) string {
	var text strings.Builder
	keys := make([]string, 0, len(p.NodeSelector))
	for key := range p.NodeSelector {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&text, "%s=%s;", key, p.NodeSelector[key])
	}
	text.WriteString(p.NodeAffinity.String())
	for i := range p.Tolerations {
		t := &p.Tolerations[i]
		fmt.Fprintf(&text, "%s|%s|%s|%s;", t.Key, t.Operator, t.Value, t.Effect)
	}
	return text.String()
}
