package drain

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// criticalPriority is the lowest priority of the system-*-critical classes
// (scheduling.SystemCriticalPriority upstream).
const criticalPriority = 2_000_000_000

// waveKey orders the pods of a node over all namespaces: DaemonSet pods after all others,
// before them the system-*-critical ones; within these, by priority.
type waveKey struct {
	daemon   bool
	critical bool
	priority int32
}

func (k waveKey) compare(other waveKey) int {
	return cmp.Or(lastTrue(k.daemon, other.daemon), lastTrue(k.critical, other.critical), cmp.Compare(k.priority, other.priority))
}

func lastTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// rank orders the pods of one namespace within a wave: by the owner's annotation, then by priority.
type rank struct {
	order    int
	priority int32
}

func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(r.order, other.order), cmp.Compare(r.priority, other.priority))
}

// queued is a pod that is to leave a node, with its place in the order of leaving.
type queued struct {
	pod      *snapshot.Pod
	filtered filterResult
	wave     waveKey
	rank     rank
	member   snapshot.Membership // zero: no policy says more of it than that it governs it
	depth    int                 // how many roles of its policy leave one after the other before its own
	number   int                 // of its wave, from 0
	behind   line                // earlier pods that it waits for
	earlier  line                // those of roles that leave before its own
	data     line                // members of its policy whose data the node has alone, which are asked for before it
}

func (q *queued) compare(other *queued) int {
	return cmp.Or(q.wave.compare(other.wave), q.rank.compare(other.rank), cmp.Compare(q.depth, other.depth))
}

// inOrder sorts pods into their order of leaving. Pods of one wave stay sorted by
// namespace and name, so that the same snapshot gives the same order.
func (d *decider) inOrder(pods []*snapshot.Pod) (leaving []queued, staying []PodStatus) {
	ordered, roles := false, false
	for _, p := range pods {
		f := d.fateOf(p)
		if f.stays != "" {
			staying = append(staying, PodStatus{Pod: p, State: f.state(), Note: f.stays})
			continue
		}
		member, some := d.Cluster.MembershipOf(p)
		roles = roles || some
		leaving = append(leaving, queued{
			pod: p, filtered: f, rank: rank{p.Order, p.Priority}, member: member,
			wave: waveKey{daemon: p.Owner.DaemonSet() && !f.load, critical: p.Priority >= criticalPriority, priority: p.Priority},
		})
		ordered = ordered || p.Order != 0
	}
	if roles {
		keepRoles(leaving)
	}
	if ordered || roles {
		keepOrders(leaving)
	}
	slices.SortStableFunc(leaving, func(a, b queued) int { return a.compare(&b) })
	for i := 1; i < len(leaving); i++ {
		leaving[i].number = leaving[i-1].number
		if leaving[i].compare(&leaving[i-1]) != 0 {
			leaving[i].number++
		}
	}
	return leaving, staying
}

// keepOrders lets a namespace's annotations come before its priorities: what is to leave after a pod of a higher priority
// waits as that one does. So an annotation can put off pods of its own namespace only, and no two pods wait for each other.
func keepOrders(leaving []queued) {
	byRank := make([]*queued, len(leaving))
	for i := range leaving {
		byRank[i] = &leaving[i]
	}
	slices.SortStableFunc(byRank, func(a, b *queued) int { return a.rank.compare(b.rank) })
	type class struct {
		namespace        string
		daemon, critical bool
	}
	highest := map[class]int32{}
	for _, q := range byRank {
		in := class{q.pod.Namespace, q.wave.daemon, q.wave.critical}
		if before, some := highest[in]; some {
			q.wave.priority = max(q.wave.priority, before)
		}
		highest[in] = q.wave.priority
	}
}

// patience is how long pods of a node, or a surge, wait for what does not move: for pods of earlier waves, for a rollout.
// It counts from when a pod that was on the node before its cordon was last asked to leave, or seen gone.
const patience = 5 * time.Minute

// patient reports whether what waits on the node goes on waiting, and when that ends.
func (d *decider) patient(node string) (time.Time, bool) {
	moved := d.led.moved[node]
	if moved.IsZero() {
		return d.Now.Add(patience), true
	}
	return moved.Add(patience), d.Now.Before(moved.Add(patience))
}

// line is what later pods of a node wait for.
type line struct {
	first *snapshot.Pod // nil: nothing
	pods  int           // exact only with words
}

func (l *line) join(p *snapshot.Pod) {
	if l.first == nil {
		l.first = p
	}
	l.pods++
}

// lineUp finds for each pod of the node the earlier ones that it waits for: those that are leaving or about to, and for
// what serves the node, all that run there.
func (d *decider) lineUp(t *target) {
	_, patient := d.patient(t.status.Name)
	moving := func(q *queued) bool { return patient && d.moves(q, t) }
	var before line
	for from := 0; from < len(t.queue); {
		wave := firstWave(t.queue[from:])
		if wave[0].wave.daemon {
			before = d.inLine(t.queue[:from], func(q *queued) bool { return moving(q) || d.runs(q.pod, t.node) })
		}
		d.lineUpWave(wave, before, t)
		from += len(wave)
		if from < len(t.queue) && (d.verbose || before.first == nil) {
			before.add(d.inLine(wave, moving))
		}
	}
	if patient {
		d.lineUpRoles(t)
	}
	d.lineUpData(t)
}

// lineUpWave lets the pods of one wave wait for those before it, and for those of their own namespace with a lower rank, unless
// the deadline does not. Pods that only a role's order has put among those that serve the node wait no longer than others.
func (d *decider) lineUpWave(wave []queued, before line, t *target) {
	until, patient := d.patient(t.status.Name)
	for i := range wave {
		if patient || wave[i].pod.Owner.DaemonSet() {
			wave[i].behind = before
		}
	}
	if patient {
		d.lineUpRanks(wave, t)
	}
	for i := range wave {
		if wave[i].behind.first != nil && d.mustGo(wave[i].pod) {
			wave[i].behind = line{}
		}
	}
	if !patient {
		return
	}
	if slices.ContainsFunc(wave, func(q queued) bool { return q.behind.first != nil }) {
		d.wake(until)
	}
}

// firstWave returns the pods that are in one wave with the first.
func firstWave(queue []queued) []queued {
	if next := slices.IndexFunc(queue, func(q queued) bool { return q.wave != queue[0].wave }); next > 0 {
		return queue[:next]
	}
	return queue
}

// lineUpRanks lets the pods of one wave wait for those of their own namespace with a lower rank.
func (d *decider) lineUpRanks(wave []queued, t *target) {
	if wave[0].rank == wave[len(wave)-1].rank {
		return
	}
	lines := map[string]line{}
	for from, i := 0, 0; i < len(wave); i++ {
		if wave[i].rank != wave[from].rank {
			for j := from; j < i; j++ {
				if p := wave[j].pod; d.inTurn(&wave[j], t) {
					in := lines[p.Namespace]
					in.join(p)
					lines[p.Namespace] = in
				}
			}
			from = i
		}
		wave[i].behind.add(lines[wave[i].pod.Namespace])
	}
}

// inLine returns those of the pods that are waited for; without words, the first one only.
func (d *decider) inLine(pods []queued, waitedFor func(*queued) bool) line {
	var l line
	for i := range pods {
		if !waitedFor(&pods[i]) {
			continue
		}
		if l.join(pods[i].pod); !d.verbose {
			break
		}
	}
	return l
}

func (l *line) add(other line) {
	if l.first == nil {
		l.first = other.first
	}
	l.pods += other.pods
}
