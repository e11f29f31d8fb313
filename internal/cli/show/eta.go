package show

import (
	"time"

	"usher.sh/usher/internal/drain"
)

// expected is when the drain is expected to be done; zero where that is not known. A
// forecast knows nothing of what only a person, a webhook or another system ends, and it
// takes pods to stop sooner than their grace allows: the table, which shows both, must
// not contradict it.
func (p Picture) expected() time.Time {
	if p.Done.IsZero() {
		return time.Time{}
	}
	for _, b := range p.Decision.Blockers() {
		if b.Dead || !foreseen(b.Reason) {
			return time.Time{}
		}
	}
	done := p.Done
	for i := range p.Decision.Pods {
		if s := &p.Decision.Pods[i]; s.State == drain.Terminating && s.Pod.Deletion.After(done) {
			done = s.Pod.Deletion
		}
	}
	return done
}

// foreseen reports whether a forecast takes into account how long this lasts.
func foreseen(r drain.Reason) bool {
	switch r {
	case drain.BudgetExhausted, drain.BudgetNotObserved, drain.ServerAskedToWait, drain.ChangedMeanwhile,
		drain.Leaving, drain.VolumeAttached, drain.EarlierWave, drain.NodeWaitsTurn,
		drain.SurgeStarting, drain.ReplacementPending, drain.RolloutUnderway, drain.NotReplaced:
		return true
	default: // what ends this is outside of the cluster's own controllers: a person, a webhook, a kubelet
		return false
	}
}
