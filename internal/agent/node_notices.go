package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent/notices"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// NoticeReader reads what decides about notices. It is observe.NodeNotices but for tests.
type NoticeReader interface {
	Look(ctx context.Context) (observe.NoticeView, error)
	Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.NodeMaintenance) (enough bool)) error
}

// NoticeWriter carries out what package notice decides. It is act.Notices but for tests.
type NoticeWriter interface {
	Begin(ctx context.Context, m *v1alpha1.NodeMaintenance) answers.Answer
	Change(ctx context.Context, c notice.Change) answers.Answer
	Withdraw(ctx context.Context, m *v1alpha1.NodeMaintenance) answers.Answer
	Record(ctx context.Context, e notice.Event) answers.Answer
}

var (
	_ NoticeReader = (*observe.NodeNotices)(nil)
	_ NoticeWriter = (*act.Notices)(nil)
)

const (
	// noticePatience is how long reading and writing for notices may take in all.
	noticePatience = 15 * time.Second
	// noticeAgain is how long is waited after something could not be read or written; each failure that follows doubles it, up to
	// noticeLongestAgain.
	noticeAgain        = 500 * time.Millisecond
	noticeLongestAgain = 10 * time.Second
	// noticeWaits is when it is looked again whether a notice can be stored that an earlier one keeps from it.
	noticeWaits = time.Second
	// noticeSeen is when a maintenance that was made is looked for.
	noticeSeen = 200 * time.Millisecond
)

// noticeKeeper has the notices of this node be NodeMaintenances, or Events, and has their sources know once the node is drained.
// One goroutine runs it.
type noticeKeeper struct {
	sources []notice.Source
	board   *notices.Board
	reader  NoticeReader
	writer  NoticeWriter
	now     func() time.Time // as the cluster has it
	log     *slog.Logger

	recorded  map[string]bool   // names of the notices that have their Events
	reported  map[string]string // what was last logged of each, by name
	followed  map[string]func() // by the maintenance's name; ends it
	ended     chan string       // names of those that were followed
	following sync.WaitGroup
	failures  int
	said      string // what was last said to be wrong with the configuration
}

func newNoticeKeeper(sources []notice.Source, board *notices.Board, o *Options) *noticeKeeper {
	return &noticeKeeper{
		sources: sources, board: board, reader: o.NoticeReader, writer: o.NoticeWriter, now: o.Now, log: o.Log,
		recorded: map[string]bool{}, followed: map[string]func(){}, ended: make(chan string),
	}
}

// run keeps until ctx ends. What stands then stays: the next agent of the node goes on from it.
func (k *noticeKeeper) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer k.following.Wait()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.board.Changed():
		case <-timer.C:
		case name := <-k.ended:
			delete(k.followed, name)
		}
		timer.Stop()
		if wait, again := k.look(ctx); again {
			timer.Reset(wait)
		}
	}
}

// look does what is to be done now, and returns when to look again without a change.
func (k *noticeKeeper) look(ctx context.Context) (wait time.Duration, again bool) {
	within, cancel := context.WithTimeout(ctx, noticePatience)
	defer cancel()
	next, err := k.keep(ctx, within)
	switch {
	case ctx.Err() != nil:
		return 0, false
	case err == nil:
		k.failures = 0
		return max(next.Sub(k.now()), noticeSeen), !next.IsZero()
	}
	wait = min(noticeAgain<<min(k.failures, 10), noticeLongestAgain)
	if k.failures == 0 {
		k.log.Error("a notice of this node could not be stored, and is tried again", "error", err.Error())
	}
	k.failures++
	return wait, true
}

// keep reads, decides and writes, within its context; what is followed is so until ctx ends.
func (k *noticeKeeper) keep(ctx, within context.Context) (next time.Time, err error) {
	reports := k.board.Reports()
	if !slices.ContainsFunc(reports, says) {
		return time.Time{}, nil
	}
	view, err := k.reader.Look(within)
	if err != nil {
		return time.Time{}, err
	}
	k.complain(view.ConfigError)
	decision := notice.Decide(k.input(reports, &view))
	if err := k.carryOut(within, &decision); err != nil {
		return time.Time{}, err
	}
	for i := range reports {
		k.board.Stored(&reports[i])
	}
	k.follow(ctx, &decision, &view)
	k.report(&decision)
	switch {
	case len(decision.Create) > 0:
		return k.now().Add(noticeSeen), nil
	case slices.ContainsFunc(decision.Outcomes, func(o notice.Outcome) bool { return o.Result == notice.Waits }):
		return k.now().Add(noticeWaits), nil
	}
	return decision.Next, nil
}

// report logs what comes of each notice, where that is news.
func (k *noticeKeeper) report(d *notice.Decision) {
	reported := map[string]string{}
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		reported[o.Name()] = o.Message
		if k.reported[o.Name()] != o.Message {
			k.log.Warn("a notice of this node: "+o.Message, "source", string(o.Source), "event", o.Event, "result", string(o.Result))
		}
	}
	k.reported = reported
}

// says reports whether anything can follow from a report.
func says(r notices.Report) bool { return r.Whole || len(r.Notices) > 0 }

// complain says what is wrong with the configuration, once. Notices of nodes are then what they are without one.
func (k *noticeKeeper) complain(wrong error) {
	said := ""
	if wrong != nil {
		said = wrong.Error()
	}
	if said != "" && said != k.said {
		k.log.Error("notices of this node lead to what they do by default", "why", said)
	}
	k.said = said
}

// input is what is decided on: this node's notices, and the maintenances of its own sources alone.
func (k *noticeKeeper) input(reports []notices.Report, view *observe.NoticeView) notice.Input {
	in := notice.Input{Now: k.now(), Config: view.Config, Reported: k.recorded}
	if view.Node != nil {
		in.Nodes = []notice.Node{*view.Node}
	}
	for i := range reports {
		for _, n := range reports[i].Notices {
			in.Notices = append(in.Notices, notice.Reported{Notice: n})
		}
		if reports[i].Whole {
			in.Complete = append(in.Complete, reports[i].Source)
		}
	}
	for _, m := range view.Maintenances {
		if source, _, is := notice.Of(m.Spec.Requester); is && slices.Contains(k.sources, source) {
			in.Maintenances = append(in.Maintenances, m)
		}
	}
	return in
}

// carryOut does all of it, whatever fails.
func (k *noticeKeeper) carryOut(ctx context.Context, d *notice.Decision) error {
	var failed []error
	done := func(what, name string, answer answers.Answer, also ...answers.Code) bool {
		if answer.Code == answers.Accepted || slices.Contains(also, answer.Code) {
			k.log.Info("a notice: "+what, "name", name)
			return true
		}
		failed = append(failed, fmt.Errorf("%s %s: %s: %s", what, name, answer.Code, answer.Message))
		return false
	}
	for _, m := range d.Create {
		done("creating NodeMaintenance", m.Name, k.writer.Begin(ctx, m))
	}
	for _, c := range d.Change {
		done("changing NodeMaintenance", c.To.Name, k.writer.Change(ctx, c))
	}
	for _, m := range d.Delete {
		done("deleting NodeMaintenance", m.Name, k.writer.Withdraw(ctx, m), answers.Gone)
	}
	recorded := map[string]bool{}
	for i := range d.Outcomes {
		name := d.Outcomes[i].Name()
		recorded[name] = k.recorded[name] && d.Outcomes[i].Result == notice.Reports
	}
	for i := range d.Events {
		recorded[d.Events[i].Name] = done("making the Event", d.Events[i].Name, k.writer.Record(ctx, d.Events[i]))
	}
	k.recorded = recorded
	return errors.Join(failed...)
}

// follow watches the maintenances of notices whose source waits for the node to be drained.
func (k *noticeKeeper) follow(ctx context.Context, d *notice.Decision, view *observe.NoticeView) {
	wanted := map[string]bool{}
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if o.Result != notice.Acts || o.Source != notice.Azure && o.Source != notice.Logind {
			continue
		}
		at := slices.IndexFunc(view.Maintenances, func(m *v1alpha1.NodeMaintenance) bool { return m.Name == o.Name() })
		if at < 0 {
			continue // made just now
		}
		wanted[o.Name()] = true
		if k.followed[o.Name()] == nil {
			k.begin(ctx, view.Maintenances[at], o.Notice, view.Node.UID)
		}
	}
	for name, end := range k.followed {
		if !wanted[name] {
			end()
			delete(k.followed, name)
		}
	}
}

// begin follows one maintenance until it has drained the node, or is gone.
func (k *noticeKeeper) begin(ctx context.Context, m *v1alpha1.NodeMaintenance, n notice.Notice, node types.UID) {
	ctx, end := context.WithCancel(ctx)
	k.followed[m.Name] = end
	k.following.Go(func() {
		defer end()
		err := k.reader.Follow(ctx, m.Name, m.UID, func(now *v1alpha1.NodeMaintenance) bool {
			if now != nil && drained(now, node) {
				k.board.Drained(n.Source, n.Event)
			}
			return now == nil
		})
		if err != nil && ctx.Err() == nil {
			k.log.Error("it is not seen whether the node is drained", "maintenance", m.Name, "error", err.Error(), "again", noticeLongestAgain)
			pause(ctx, noticeLongestAgain)
		}
		select {
		case <-ctx.Done():
		case k.ended <- m.Name:
		}
	})
}

// pause waits so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// drained reports whether a maintenance has drained the node of the UID: what follows the drain has begun, or is all that is left.
func drained(m *v1alpha1.NodeMaintenance, node types.UID) bool {
	return slices.ContainsFunc(m.Status.Nodes, func(n v1alpha1.MaintainedNode) bool {
		return n.UID == node && n.Step != v1alpha1.StepDraining
	})
}
