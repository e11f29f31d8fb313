package maintenance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// begin runs drains that begin at the same time, on what is observed for all of them. The caller holds the lock.
func (d *Drains) begin(batch map[string]*run) {
	if len(batch) == 0 {
		return
	}
	maps.Copy(d.known, batch)
	d.running.Go(func() { d.runAll(batch) })
}

// runAll runs a batch of drains to their ends.
func (d *Drains) runAll(batch map[string]*run) {
	names := slices.Sorted(maps.Keys(batch))
	source, stop, err := d.observe(d.ctx, names)
	if err != nil {
		d.failed(batch, err)
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

// together returns the nodes of a batch whose drains are to run, in order: those that nothing objects to, each of which knows the others, so that
// all are cordoned before anything leaves one. It says of the others what objects.
func (d *Drains) together(batch map[string]*run, source runner.Source) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	var beside []string
	for _, name := range slices.Sorted(maps.Keys(batch)) {
		r := batch[name]
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

// failed notes that drains could not be run.
func (d *Drains) failed(batch map[string]*run, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range batch {
		r.over, r.state.Failure, r.retry = true, err.Error(), d.Now().Add(afterFailure)
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
	count, blockers := 0, withFormer(decision.Blockers(), r.former)
	for i := range decision.Nodes {
		count += decision.Nodes[i].Left
	}
	others := !slices.EqualFunc(blockers, r.state.Blockers, sameBlocker)
	r.state.Begun = true
	if !others && (count == r.state.PodCount || now.Before(r.shown.Add(showEvery))) && now.Before(r.shown.Add(wordsEvery)) {
		return
	}
	r.state.PodCount, r.state.Blockers, r.shown = count, blockers, now
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

// withFormer says of pods that a drain has not come to, since its deadline had passed, what held them in the drain that it repeats.
func withFormer(blockers, former []drain.Blocker) []drain.Blocker {
	var all []drain.Blocker
	for _, b := range blockers {
		held := []drain.Blocker{b}
		if b.Reason == drain.DrainEnded && slices.ContainsFunc(former, func(f drain.Blocker) bool { return f.Pod == b.Pod }) {
			held = slices.DeleteFunc(slices.Clone(former), func(f drain.Blocker) bool { return f.Pod != b.Pod })
		}
		all = append(all, held...)
	}
	return all
}

func sameBlocker(a, b drain.Blocker) bool {
	return a.Reason == b.Reason && a.Pod == b.Pod && a.Dead == b.Dead
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
