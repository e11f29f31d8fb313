package notices

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/notice/metadata"
)

// Report is what one source says at a moment.
type Report struct {
	Source notice.Source
	// Notices are the events that stand, and those that were withdrawn since a report was stored, by event.
	Notices []notice.Notice
	// Whole: all of the source's questions have been answered in whole, by now or before. An event that an earlier process of this node has
	// stored and that is not among Notices does not stand any more.
	Whole bool
}

// mostWithdrawn is how many events that no longer stand one question keeps until they are stored. The earliest withdrawn go first: of an event
// that is not among Notices, a whole report says as much.
const mostWithdrawn = 100

// Board holds what the sources of one node have said. It may be used by several goroutines at once.
type Board struct {
	log     *slog.Logger
	changed chan struct{} // has room for one

	mu        sync.Mutex
	questions map[string]*answered // by name
	drained   map[event]bool
	left      chan struct{} // closed at the next event of which the node is drained
}

// event identifies one on this node.
type event struct {
	source notice.Source
	id     string
}

// answered is what is known by one question to a source.
type answered struct {
	source    notice.Source
	whole     bool // the question was answered in whole
	failed    bool // the last time it was not answered
	standing  map[string]notice.Notice
	withdrawn []notice.Notice
}

func newBoard(log *slog.Logger) *Board {
	return &Board{
		log: log, changed: make(chan struct{}, 1), questions: map[string]*answered{}, drained: map[event]bool{}, left: make(chan struct{}),
	}
}

// add has a question be one that is to be answered.
func (b *Board) add(name string, source notice.Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions[name] = &answered{source: source, standing: map[string]notice.Notice{}}
}

// Changed has a value once reports have changed since it was last received from.
func (b *Board) Changed() <-chan struct{} { return b.changed }

// Reports are what each source says, in the order of their names.
func (b *Board) Reports() []Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	reports := map[notice.Source]*Report{}
	for _, q := range b.questions {
		r, known := reports[q.source]
		if !known {
			r = &Report{Source: q.source, Whole: true}
			reports[q.source] = r
		}
		r.Whole = r.Whole && q.whole
		r.Notices = slices.AppendSeq(r.Notices, maps.Values(q.standing))
		r.Notices = append(r.Notices, q.withdrawn...)
	}
	var all []Report
	for _, source := range slices.Sorted(maps.Keys(reports)) {
		r := reports[source]
		slices.SortStableFunc(r.Notices, func(a, b notice.Notice) int { return cmp.Compare(a.Event, b.Event) })
		all = append(all, *r)
	}
	return all
}

// Stored forgets the events that a report had as withdrawn: whatever follows from them is stored.
func (b *Board) Stored(r *Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.questions {
		if q.source == r.Source {
			q.withdrawn = slices.DeleteFunc(q.withdrawn, func(n notice.Notice) bool { return slices.Contains(r.Notices, n) })
		}
	}
}

// Drained notes that the node is drained on account of a standing event: what its source waits for may be done.
func (b *Board) Drained(source notice.Source, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := event{source, id}
	if b.drained[e] || !b.stands(e) {
		return
	}
	b.drained[e] = true
	close(b.left)
	b.left = make(chan struct{})
}

// isDrained reports whether the node is drained on account of a standing event; the channel is closed when that is so of another.
func (b *Board) isDrained(source notice.Source, id string) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drained[event{source, id}], b.left
}

func (b *Board) stands(e event) bool {
	for _, q := range b.questions {
		if _, stands := q.standing[e.id]; stands && q.source == e.source {
			return true
		}
	}
	return false
}

// enter takes in the answer to a question. The times in it are on the cluster's clock.
func (b *Board) enter(name string, answer metadata.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.questions[name]
	if q.failed {
		b.log.Info("the source of notices answers again", "question", name)
	}
	q.failed = false
	changed := q.take(answer)
	if whole := answer.Unread == ""; whole && !q.whole {
		q.whole, changed = true, true
	}
	maps.DeleteFunc(b.drained, func(e event, _ bool) bool { return !b.stands(e) })
	if changed {
		b.wake()
	}
}

// fail notes that a question was not answered: what stood by it stands.
func (b *Board) fail(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.questions[name]
	if !q.failed {
		b.log.Warn("the source of notices does not answer, and is asked again: what it has announced stands", "question", name, "error", err.Error(), "standing", len(q.standing))
	}
	q.failed = true
}

func (b *Board) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// take reports whether anything is other than it was before the answer.
func (q *answered) take(answer metadata.Answer) (changed bool) {
	named := map[string]bool{}
	for _, n := range answer.Notices {
		named[n.Event] = !n.Withdrawn
		switch before, stood := q.standing[n.Event]; {
		case n.Withdrawn && stood:
			q.withdraw(before)
		case n.Withdrawn:
			continue // over before it was known here
		case stood && !tightens(&before, &n):
			continue
		default:
			q.stand(&before, n)
		}
		changed = true
	}
	if answer.Unread != "" {
		return changed
	}
	for _, id := range slices.Sorted(maps.Keys(q.standing)) {
		if !named[id] {
			q.withdraw(q.standing[id])
			changed = true
		}
	}
	return changed
}

// tightens reports whether what is said of a standing event now adds anything to what was said before.
func tightens(before, now *notice.Notice) bool {
	return now.Kind != before.Kind || !now.EffectiveTime.IsZero() && (before.EffectiveTime.IsZero() || now.EffectiveTime.Before(before.EffectiveTime))
}

// stand has an event stand; the earliest time of it counts.
func (q *answered) stand(before *notice.Notice, now notice.Notice) {
	if !before.EffectiveTime.IsZero() && (now.EffectiveTime.IsZero() || before.EffectiveTime.Before(now.EffectiveTime)) {
		now.EffectiveTime = before.EffectiveTime
	}
	q.standing[now.Event] = now
	q.withdrawn = slices.DeleteFunc(q.withdrawn, func(n notice.Notice) bool { return n.Event == now.Event })
}

func (q *answered) withdraw(n notice.Notice) {
	delete(q.standing, n.Event)
	n.Withdrawn = true
	q.withdrawn = append(q.withdrawn, n)
	q.withdrawn = q.withdrawn[max(0, len(q.withdrawn)-mostWithdrawn):]
}

// onClusterClock puts the times of an answer on the cluster's clock, where the service's differs from it by more than both can be told apart.
func onClusterClock(answer metadata.Answer, service, cluster time.Time) metadata.Answer {
	by := cluster.Sub(service).Round(time.Second)
	if by.Abs() <= clocksAgree {
		return answer
	}
	answer.Notices = slices.Clone(answer.Notices)
	for i := range answer.Notices {
		if n := &answer.Notices[i]; !n.EffectiveTime.IsZero() {
			n.EffectiveTime = n.EffectiveTime.Add(by)
		}
	}
	return answer
}

// clocksAgree is by how much clocks may differ that are taken to agree: each is known from dates in whole seconds.
const clocksAgree = 2 * time.Second
