package agent

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// loop looks, lets decide, and hands over what is to be done. One goroutine runs it, and all that is here belongs to it.
type loop struct {
	agent *agent

	reader     *nodeReader
	thresholds []nodepressure.Threshold
	podUsage   *podUsage
	ledger     *ledger
	trend      trend

	relief    nodepressure.Relief
	idle      int  // looks at a hard breach since something was done
	inherited bool // what an agent before this one may have asked for is noted

	saidBlind bool
	waits     waits
	errors    spoken
}

// tick is the reason of a look that nothing but time called for.
const tick = "tick"

// run looks until ctx ends.
func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	reason := "start"
	for ctx.Err() == nil { // where several things have happened, the end comes first
		timer.Reset(l.look(ctx, reason))
		select {
		case <-ctx.Done():
		case <-timer.C:
			reason = tick
		case woken := <-l.agent.woken():
			reason, l.idle = string(woken), 0
		case o := <-l.agent.executor.outcomes:
			reason, l.idle = "outcome", 0
			l.settle(ctx, &o)
		case <-l.agent.podCache.changed:
			reason, l.idle = "pods", 0
		case <-l.agent.diskScanner.done:
			reason, l.idle = "disks", 0
		}
	}
	return nil
}

func (a *agent) woken() <-chan wake.Reason {
	if a.watcher == nil {
		return nil
	}
	return a.watcher.C()
}

// look is one look at the machine and all that follows from it. It returns when to look again.
func (l *loop) look(ctx context.Context, why string) time.Duration {
	now := time.Now()
	here, synced := l.agent.podCache.list()
	sight := l.reader.look(now, why != tick)
	l.errors.report(l.agent.Log, sight.errs)
	thresholds := sight.present(l.thresholds)
	rates := l.trend.add(sight.node.Readings)
	at := stand(sight.node, thresholds, rates, l.idle)
	l.reader.until = at.until
	pressed := at.hard || at.soft || len(l.relief.Breaches) > 0
	l.agent.metrics.look(now, why, &sight, thresholds)
	l.arm(&sight, thresholds)
	if !synced {
		l.blind(at)
		return min(l.reader.due(now), notSynced)
	}
	if wantsSurvey(sight.node, thresholds, rates, pressed) {
		l.agent.diskScanner.want()
	}
	l.prepare(ctx, here.all, pressed, now)
	l.ledger.settle(here.byUID, l.agent.apiserver.reachable())
	return l.decide(ctx, nodepressure.ReliefInput{
		Now: now, Node: sight.node, Pods: l.count(now, pressed), Thresholds: thresholds,
		Config: l.agent.Config.Config, Order: l.agent.Config.Order,
		Refused: l.ledger.refused, Leaving: l.ledger.list(), Reachable: l.agent.apiserver.reachable(),
		Busy: l.ledger.occupied(), Written: l.ledger.written.list(here.all, now),
		Rates: rates, Self: l.agent.Self,
	})
}

// blind logs, once, that nothing can be done before the pods are listed: the machine alone does not show which must never go.
func (l *loop) blind(at standing) {
	if (at.hard || at.soft) && !l.saidBlind {
		l.saidBlind = true
		l.agent.Log.Error("the node is short of something, and nothing is done: the pods of this node have not been listed yet")
	}
}

// notSynced is how long a look may wait for the first list of pods.
const notSynced = time.Second

func (l *loop) count(now time.Time, pressed bool) []nodepressure.Pod {
	age := useAtRest
	if pressed {
		age = useWhenPressed
	}
	return l.podUsage.count(now, age)
}

// arm sets the levels of memory at which the kernel is to wake the agent.
func (l *loop) arm(s *sight, thresholds []nodepressure.Threshold) {
	if l.agent.watcher == nil {
		return
	}
	m := l.agent.machine
	l.errors.report(l.agent.Log, []error{
		l.agent.watcher.Levels(m.RootFolder(), s.levels(thresholds, nodepressure.MemoryAvailable, s.all)),
		l.agent.watcher.Levels(m.PodsFolder(), s.levels(thresholds, nodepressure.AllocatableMemoryAvailable, s.pods)),
	})
}

// prepare sees to what is slow to ask and may soon be needed and, once, to what an agent before this one may have asked for.
func (l *loop) prepare(ctx context.Context, all []*resident, pressed bool, now time.Time) {
	if !l.inherited {
		l.inherited = true
		l.ledger.written.inherit(all, now)
	}
	age := time.Hour
	if pressed {
		age = policiesFor
	}
	l.agent.policies.refresh(ctx, all, now, age)
}

// decide asks the pure core and begins what it says. It returns when to look again.
func (l *loop) decide(ctx context.Context, in nodepressure.ReliefInput) time.Duration {
	relief, actions := l.relief.Next(in)
	if slices.ContainsFunc(actions, endsPod) {
		// What pods use may have been read a moment ago, and an eviction cannot be taken back.
		in.Pods = l.podUsage.count(in.Now, 0)
		relief, actions = l.relief.Next(in)
	}
	l.relief = relief
	next := l.reader.due(in.Now)
	l.idle++
	var waits []nodepressure.Action
	byPod := map[types.UID][]nodepressure.Action{}
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case nodepressure.Say:
			l.agent.announce(ctx, a)
		case nodepressure.Wait:
			waits = append(waits, *a)
			if a.For > 0 {
				next = min(next, max(a.For, pressedShortest))
			}
		case nodepressure.Evict, nodepressure.Request, nodepressure.Withdraw, nodepressure.Unbreak, nodepressure.Remove, nodepressure.KillLocally:
			l.begin(a, &in)
			byPod[a.Pod.UID] = append(byPod[a.Pod.UID], *a)
			next = min(next, pressedShortest)
		}
	}
	for _, batch := range byPod {
		l.agent.carry(ctx, batch...)
	}
	l.waits.report(l.agent.Log, waits)
	return next
}

func endsPod(a nodepressure.Action) bool {
	return a.Kind == nodepressure.Evict || a.Kind == nodepressure.Remove || a.Kind == nodepressure.KillLocally
}

// begin notes what is to be carried out, and keeps what it was decided on.
func (l *loop) begin(a *nodepressure.Action, in *nodepressure.ReliefInput) {
	l.idle = 0
	l.ledger.begin(a, in.Now)
	took := time.Since(in.Now)
	l.agent.metrics.decided(a, took)
	l.agent.Log.Warn(a.Message, "action", string(a.Kind), "pod", a.Pod.Key(), "uid", string(a.Pod.UID), "reason", string(a.Reason), "decidedAfter", took)
	if len(a.Ranking) > 0 {
		here, _ := l.agent.podCache.list()
		l.agent.records.keep(l.agent.Log, l.agent.machine, newRecord(a, in), here)
	}
}

// settle enters what became of an action.
func (l *loop) settle(ctx context.Context, o *outcome) {
	l.ledger.end(o, time.Now())
	l.agent.metrics.ended(o)
	log := l.agent.Log.With("action", string(o.action.Kind), "pod", o.action.Pod.Key(), "took", o.took, "answer", string(o.answer.Code))
	if o.action.Kind == nodepressure.KillLocally {
		log = log.With("killed", o.killed)
	}
	if o.local != nil {
		log = log.With("error", o.local.Error())
	}
	log.Info("answered", "message", o.answer.Message)
	if e, ok := newEvent(o); ok {
		l.agent.begun.Go(func() { l.agent.Cluster.Record(ctx, e) })
	}
}
