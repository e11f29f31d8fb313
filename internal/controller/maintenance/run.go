package maintenance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// begin runs drains that begin at the same time, on what is observed for all of them; apart from the others those that have failed before, since
// what cannot be observed is so for all that are observed with it. The caller holds the lock.
func (d *Drains) begin(batch map[string]*run) {
	again := map[string]*run{}
	maps.DeleteFunc(batch, func(node string, r *run) bool {
		if known := d.known[node]; known == nil || known.state.Failure == "" {
			return false
		}
		again[node] = r
		return true
	})
	for _, part := range []map[string]*run{batch, again} {
		maps.Copy(d.known, part)
		if len(part) > 0 {
			d.running.Go(func() { d.runAll(part, new(atomic.Int32)) })
		}
	}
}

// runAll runs a batch of drains to their ends. One that cannot be observed is parted, unless as many parts of it have failed as are tried at once.
func (d *Drains) runAll(batch map[string]*run, failures *atomic.Int32) {
	names := slices.Sorted(maps.Keys(batch))
	source, stop, err := d.observe(d.ctx, names)
	if err != nil {
		if len(batch) == 1 || failures.Add(1) > mostFailures || d.ctx.Err() != nil {
			d.failed(batch, err)
			return
		}
		d.apart(batch, failures)
		return
	}
	defer stop()
	names = d.together(batch, source)
	if len(names) == 0 {
		return
	}
	share := newFan(source, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { d.run(batch[name], limited{share.parts[i], d, name}) })
	}
	stopped := make(chan struct{})
	go share.run(stopped)
	all.Wait()
	close(stopped)
}

// In how many parts a batch that cannot be observed is tried again, and how many of them may fail before the others wait for the next time: where
// no part can be observed, it is not the nodes.
const (
	partsOf      = 8
	mostFailures = 32
)

// apart runs a batch in parts, each observed by itself, down to single nodes: one that cannot be read keeps no other from being checked or
// drained, and is the one whose failure is said.
func (d *Drains) apart(batch map[string]*run, failures *atomic.Int32) {
	names := slices.Sorted(maps.Keys(batch))
	size := (len(names) + partsOf - 1) / partsOf
	var all sync.WaitGroup
	for part := range slices.Chunk(names, size) {
		all.Go(func() {
			runs := map[string]*run{}
			for _, name := range part {
				runs[name] = batch[name]
			}
			d.runAll(runs, failures)
		})
	}
	all.Wait()
}

// together returns the nodes of a batch whose drains are to run, in order: those that nothing objects to, each of which knows the others, so that
// all are cordoned before anything leaves one. It says of the others what objects.
func (d *Drains) together(batch map[string]*run, source runner.Source) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	var beside []string
	for _, name := range slices.Sorted(maps.Keys(batch)) {
		r := batch[name]
		r.state.Failure = ""
		if r.ending {
			names = append(names, name)
			continue
		}
		found := objections(source, r.request)
		if len(found) > 0 {
			r.retry = now.Add(afterObjection)
		}
		if len(found) > 0 || r.state.Checks {
			r.over, r.state.Checks, r.state.Checked, r.state.Blockers = true, true, true, found
			r.state.Warnings = drain.WarningsOf(found, r.request)
			continue
		}
		names, beside = append(names, name), append(beside, name)
	}
	for _, name := range beside {
		batch[name].request.Beside, batch[name].request.Started = beside, now
	}
	if len(names) < len(batch) {
		d.notify()
	}
	return names
}

// failed notes that drains could not be run. A node that nothing was done to takes no room: it is looked into before it is drained.
func (d *Drains) failed(batch map[string]*run, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range batch {
		r.over, r.state.Failure, r.retry = true, err.Error(), d.Now().Add(afterFailure)
		r.state.Checks = r.state.Checks || r.untouched
	}
	d.notify()
}

// run runs one drain to its end.
func (d *Drains) run(r *run, source runner.Source) {
	defer d.notify()
	ending := drain.Running
	if r.ending {
		ending = drain.Interrupted
	}
	loop := runner.Runner{
		Source: source, Writer: d.writer, Reporter: reporter{d, r}, Request: r.request, Shared: d.shared, Leave: r.leave, Ending: ending,
	}
	last := loop.Run(context.WithoutCancel(d.ctx))
	d.mu.Lock()
	defer d.mu.Unlock()
	r.over = true
	switch {
	case r.left:
		r.retry = time.Time{}
	case last.Outcome == drain.Left, !last.Settled:
		r.left, r.retry = true, d.Now().Add(afterFailure)
		r.state.Failure = strings.Join(append([]string{"something of its drain is still to be undone"}, last.Notes...), "; ")
		if last.Outcome == drain.Left {
			r.state.Failure = strings.Join(append([]string{"its drain is left to another process"}, last.Notes...), "; ")
		}
	case !r.ending:
		r.state.Outcome, r.retry = last.Outcome, time.Time{}
		if last.Outcome == drain.DeadlinePassed { // what was deleted at the deadline ends after it
			r.late = min(max(2*r.late, afterObjection), longestLate)
			r.retry = d.Now().Add(r.late)
		}
	}
}

// objections are what has to be cleared up before a node is touched: pods that would be lost, or lose data. Where a drain of a maintenance
// has begun it goes on.
func objections(source runner.Source, request drain.Request) (found []drain.Blocker) {
	source.Read(func(view snapshot.View) {
		if n := view.Cluster.Node(request.Nodes[0]); n != nil && !maintenance.Owned(n) {
			found = drain.Objections(view, request)
		}
	})
	return found
}

// How often the number of pods on a node is shown anew, and the words of its blockers, in which times go by: each is a write of a status.
const (
	showEvery  = 2 * time.Second
	wordsEvery = time.Minute
)

// reporter keeps what the controller goes by.
type reporter struct {
	drains *Drains
	run    *run
}

// Frame implements runner.Reporter.
func (p reporter) Frame(now time.Time, decision drain.Decision) {
	d, r := p.drains, p.run
	d.mu.Lock()
	defer d.mu.Unlock()
	count, blockers := 0, r.blockersOf(decision)
	for i := range decision.Nodes {
		count += decision.Nodes[i].Left
	}
	others := !slices.EqualFunc(blockers, r.state.Blockers, sameBlocker)
	r.state.Begun = true
	warnings := r.state.Warnings // what the end of a drain says no more
	if decision.Outcome == drain.Running {
		warnings = decision.Warnings
		p.warn(warnings)
	}
	others = others || !slices.EqualFunc(warnings, r.state.Warnings, sameWarning)
	if !others && (count == r.state.PodCount || now.Before(r.shown.Add(showEvery))) && now.Before(r.shown.Add(wordsEvery)) {
		return
	}
	r.state.PodCount, r.state.Blockers, r.state.Warnings, r.shown = count, blockers, warnings, now
	p.retryBlocked(now)
	d.notify()
}

// retryBlocked has a drain begun anew that has been kept for long by nothing but what does not clear by itself.
func (p reporter) retryBlocked(now time.Time) {
	r := p.run
	blockers := r.state.Blockers
	dead := len(blockers) > 0 && !slices.ContainsFunc(blockers, func(b drain.Blocker) bool { return !b.Dead })
	switch {
	case !dead || r.ending:
		r.retry = time.Time{}
	case r.retry.IsZero():
		r.retry = now.Add(afterBlocked)
	}
}

// blockersOf returns what holds the pods and nodes of a decision, and notes it of the pods. Of one that the drain has not come to, since its deadline
// had passed, it is what held that pod, and no other one of its name, in the drain that this one repeats.
func (r *run) blockersOf(decision drain.Decision) []drain.Blocker {
	var all []drain.Blocker
	heldBy := map[types.UID][]drain.Blocker{}
	for i := range decision.Pods {
		s := &decision.Pods[i]
		held := s.Blockers
		if former := r.former[s.Pod.UID]; len(former) > 0 && slices.ContainsFunc(held, func(b drain.Blocker) bool { return b.Reason == drain.DrainEnded }) {
			held = append(slices.DeleteFunc(slices.Clone(held), func(b drain.Blocker) bool { return b.Reason == drain.DrainEnded }), former...)
		}
		if len(held) > 0 {
			heldBy[s.Pod.UID] = held
		}
		all = append(all, held...)
	}
	for i := range decision.Nodes {
		all = append(all, decision.Nodes[i].Blockers...)
	}
	r.heldBy = heldBy
	return all
}

func sameBlocker(a, b drain.Blocker) bool {
	return a.Reason == b.Reason && a.Pod == b.Pod && a.Dead == b.Dead
}

func sameWarning(a, b drain.Warning) bool { return a.Reason == b.Reason && a.Pod == b.Pod }

// warner makes events of warnings.
type warner interface {
	Warn(ctx context.Context, warnings []drain.Warning)
}

// warned is what was said of a pod.
type warned struct {
	pod    types.UID
	reason drain.Reason
}

// warn has events made of what was not said before.
func (p reporter) warn(warnings []drain.Warning) {
	fresh := slices.DeleteFunc(slices.Clone(warnings), func(w drain.Warning) bool { return p.run.warned[warned{w.UID, w.Reason}] })
	if len(fresh) == 0 {
		return
	}
	if p.run.warned == nil {
		p.run.warned = map[warned]bool{}
	}
	for i := range fresh {
		p.run.warned[warned{fresh[i].UID, fresh[i].Reason}] = true
	}
	if w, records := p.drains.writer.(warner); records {
		w.Warn(p.drains.ctx, fresh)
	}
}

// Event implements runner.Reporter. What happens is in the status and in the events of nodes.
func (reporter) Event(drain.Event) {}

// fan hands what one source shows to several drains.
type fan struct {
	source runner.Source
	parts  []part
}

// part is what one drain sees. It implements runner.Source.
type part struct {
	runner.Source

	changed chan struct{}
}

// Changed implements runner.Source.
func (p part) Changed() <-chan struct{} { return p.changed }

func newFan(source runner.Source, parts int) *fan {
	f := &fan{source: source}
	for range parts {
		f.parts = append(f.parts, part{source, make(chan struct{}, 1)})
	}
	return f
}

// run passes changes on until it is stopped.
func (f *fan) run(stopped <-chan struct{}) {
	for {
		select {
		case <-f.source.Changed():
		case <-stopped:
			return
		}
		for _, p := range f.parts {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
	}
}
