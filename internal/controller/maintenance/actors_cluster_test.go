package maintenance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// cluster is a simulated cluster with the objects of requesters, in the time of a bubble. It judges what processes do there.
type cluster struct {
	mu       sync.Mutex
	sim      *sim.Sim
	lags     bool // what is seen may be late
	before   snapshot.View
	seed     uint64
	drawn    map[string]int
	alarm    *time.Timer
	sources  map[chan struct{}]bool
	looks    chan struct{} // something changed that the controller watches
	versions string        // of the nodes, as seen
	leader   *leader
	pause    time.Duration // until another process leads

	objects map[string]*v1alpha1.NodeMaintenance
	serial  int
	asked   map[string]bool      // nodes whose drain a live object asks for
	unasked map[string]time.Time // since when none does
	held    map[string]time.Time // nodes that a live object has, since when

	ids              map[string]bool // of all drains
	refused, excused int             // evictions that budgets refused, and those of them that no process could know of
	looked           int
	reads            map[time.Time]int
	wrong, log       []string
}

// reaction is within what time a change of an object, once written, reaches every drain of the process that leads.
const reaction = 500 * time.Millisecond

func now() time.Time { return time.Now().Round(0).UTC() }

func newCluster(view snapshot.View, cfg sim.Config) *cluster {
	c := &cluster{
		sim: sim.New(view, cfg), lags: cfg.Lag != sim.Lag{}, before: view, seed: cfg.Seed, drawn: map[string]int{},
		sources: map[chan struct{}]bool{}, looks: make(chan struct{}, 1), objects: map[string]*v1alpha1.NodeMaintenance{},
		asked: map[string]bool{}, unasked: map[string]time.Time{}, held: map[string]time.Time{}, ids: map[string]bool{}, reads: map[time.Time]int{},
	}
	c.rearm()
	return c
}

// dice draws a number below n. The caller holds the lock.
func (c *cluster) dice(key string, n uint64) uint64 {
	c.drawn[key]++
	h := fnv.New64a()
	fmt.Fprint(h, c.seed, key, c.drawn[key])
	return h.Sum64() / 7 % n
}

// upTo draws how long something takes.
func (c *cluster) upTo(key string, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.dice(key, uint64(most))) + 1
}

// note logs a line. The caller holds the lock.
func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%8s  ", now().Sub(c.before.Now).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// fail notes what must not be. The caller holds the lock.
func (c *cluster) fail(format string, args ...any) {
	c.note("!! "+format, args...)
	c.wrong = append(c.wrong, c.log[len(c.log)-1])
}

// rearm has the simulation go on when something is due. The caller holds the lock.
func (c *cluster) rearm() {
	if c.alarm != nil {
		c.alarm.Stop()
	}
	if next, some := c.sim.Next(); some {
		c.alarm = time.AfterFunc(max(0, next.Sub(now())), c.tick)
	}
}

func (c *cluster) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed()
}

// advance brings the simulation to this moment. The controller looks again where a node is seen changed. The caller holds the lock.
func (c *cluster) advance() {
	c.sim.Advance(now())
	versions := ""
	for _, n := range c.sim.View().Cluster.Nodes() {
		versions += n.ResourceVersion + " "
	}
	if versions != c.versions {
		c.versions = versions
		poke(c.looks)
	}
}

// changed has every drain look again. The caller holds the lock.
func (c *cluster) changed() {
	c.advance()
	for source := range c.sources {
		poke(source)
	}
	c.rearm()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// shown is what one batch of drains observes. It implements runner.Source.
type shown struct {
	*cluster

	changes chan struct{}
}

func (s shown) Changed() <-chan struct{} { return s.changes }

// mostReads is how often the cluster may be read at one moment.
const mostReads = 2000

func (s shown) Read(look func(snapshot.View)) {
	s.mu.Lock()
	s.advance()
	look(s.sim.View())
	s.reads[now()]++
	hot := s.reads[now()] > mostReads
	if hot {
		s.fail("hot loop: read %d times at one moment", mostReads)
	}
	s.mu.Unlock()
	if hot {
		<-time.After(time.Minute)
	}
}

// observe implements observing.
func (c *cluster) observe(context.Context, []string) (runner.Source, func(), error) {
	<-time.After(c.upTo("observing", 300*time.Millisecond))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dice("observed", 25) == 0 {
		return nil, nil, errors.New("no answer from the server")
	}
	changes := make(chan struct{}, 1)
	c.sources[changes] = true
	return shown{c, changes}, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sources, changes)
	}, nil
}

// put makes an object true. The caller holds the lock.
func (c *cluster) put(m *v1alpha1.NodeMaintenance) {
	c.serial++
	m.ResourceVersion = fmt.Sprint(c.serial)
	c.objects[m.Name] = m
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		c.note("-- %s is gone", m.Name)
		delete(c.objects, m.Name)
	}
	c.reckon()
	poke(c.looks)
}

// reckon notes which nodes live objects have, and which they want drained. The caller holds the lock.
func (c *cluster) reckon() {
	asked, held := map[string]bool{}, map[string]time.Time{}
	for _, m := range c.objects {
		for _, e := range m.Status.Nodes {
			if m.DeletionTimestamp != nil {
				continue
			}
			held[e.Name] = now()
			if since, some := c.held[e.Name]; some {
				held[e.Name] = since
			}
			if !m.Spec.Suspend && e.Step == v1alpha1.StepDraining {
				asked[e.Name] = true
			}
		}
	}
	for node := range c.asked {
		if !asked[node] {
			c.unasked[node] = now()
		}
	}
	c.asked, c.held = asked, held
}

// judge looks at what a process is about to send. The caller holds the lock.
func (c *cluster) judge(a drain.Action) {
	switch a.Kind {
	case drain.Cordon:
		c.ids[a.Record.ID] = true
		c.mustBeAsked(a, a.Node.Name)
	case drain.Evict, drain.Delete, drain.Ask, drain.LowerCost:
		c.mustBeAsked(a, a.Pod.Node)
	case drain.Uncordon, drain.Unmark:
		if since, held := c.held[a.Node.Name]; held && now().Sub(since) > reaction {
			c.fail("%s of %s, which an object has since %s", a.Kind, a.Node.Name, now().Sub(since))
		}
	case drain.RenewLease:
		c.ids[a.Lease.ID] = true
	case drain.Scale:
		for _, p := range c.sim.View().Cluster.MarkedPods() {
			if a.Replicas < a.Workload.Replicas && p.Labels["app"] == a.Workload.Name && !p.Terminating() {
				c.mustBeAsked(a, p.Node)
			}
		}
	case drain.Mark, drain.RestoreCost, drain.ScaleMin, drain.Withdraw, drain.DeleteLease:
	}
}

func (c *cluster) mustBeAsked(a drain.Action, node string) {
	if since, some := c.unasked[node]; !c.asked[node] && (!some || now().Sub(since) > reaction) {
		c.fail("%s %s on %s, whose drain no object asks for", a.Kind, a.Target(), node)
	}
}

// carryOut carries an action out. The caller holds the lock.
func (c *cluster) carryOut(a drain.Action) answers.Answer {
	c.advance()
	started := false // since it was decided: the server may ask a budget for the pod that was not asked then
	if a.Kind == drain.Evict {
		p := c.sim.Truth().Cluster.Pod(a.Pod.UID)
		started = p != nil && (p.Ready && !a.Pod.Ready || p.Phase != a.Pod.Phase)
	}
	answer := c.sim.Do(a)
	c.note("%s %s: %s %s", a.Kind, describe(a), answer.Code, answer.Message)
	switch {
	case a.Kind == drain.Evict && a.Pod.Ready && answer.Code == answers.RefusedByBudget:
		c.refused++
	case started, a.Kind == drain.Scale, a.Kind == drain.Delete:
		c.excused++
	}
	c.changed()
	return answer
}

func describe(a drain.Action) string {
	switch {
	case a.Pod != nil:
		return fmt.Sprintf("%s on %s (%s, ready %t)", a.Pod.Name, a.Pod.Node, a.Pod.Phase, a.Pod.Ready)
	case a.Record != nil:
		return a.Node.Name + " " + a.Record.State + " " + a.Record.ID
	case a.Node != nil:
		return a.Node.Name
	case a.Workload != nil:
		return fmt.Sprintf("%s to %d", a.Workload.Name, a.Replicas)
	}
	return ""
}

// left is what the drains of maintenances have left, and what of the objects. The caller holds the lock.
func (c *cluster) left() (found []string) {
	for name := range c.objects {
		found = append(found, "object "+name)
	}
	truth, before := c.sim.Truth().Cluster, c.before.Cluster
	for _, n := range truth.Nodes() {
		if maintenance.Owned(n) || n.Unschedulable != before.Node(n.Name).Unschedulable {
			found = append(found, fmt.Sprintf("node %s, unschedulable %v, record %+v", n.Name, n.Unschedulable, n.Drain))
		}
	}
	for _, w := range before.Workloads() {
		if is := truth.Workload(w.UID); w.Replicas != is.Replicas {
			found = append(found, fmt.Sprintf("%s has %d replicas, had %d", w.Name, is.Replicas, w.Replicas))
		}
	}
	for id := range c.ids {
		lease, _ := truth.LeaseOf(id)
		expired := lease != nil && !lease.LiveAt(now()) // of a drain that was left once its node was drained: the next drain deletes it
		found = append(found, slices.DeleteFunc(c.sim.Leftovers(id), func(what string) bool { return expired && what == "the Lease of the drain" })...)
	}
	slices.Sort(found)
	return found
}
