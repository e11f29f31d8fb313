package evictionrequest

import (
	"slices"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const furthest = 10 * 365 * 24 * time.Hour

// State returns the state of a responder in an eviction; empty when the eviction does not have it.
func State(e *api.Eviction, responder string) api.ResponderStateType {
	if i := slices.IndexFunc(e.Status.TargetResponders, named(responder)); i >= 0 {
		return e.Status.TargetResponders[i].State
	}
	return ""
}

// Entry returns what a responder has written; nil when the eviction does not have it.
func Entry(e *api.Eviction, responder string) *api.ResponderStatus {
	return statusOf(&e.Status, responder)
}

// Active reports whether it is the responder's turn: to work and to report. A responder that has completed is done,
// although it stays Active until the controller has seen it.
func Active(e *api.Eviction, responder string) bool {
	entry := Entry(e, responder)
	return !Final(e) && e.Status.ObservedGeneration != nil && State(e, responder) == api.ResponderStateActive &&
		entry != nil && entry.StartTime != nil && entry.CompletionTime == nil
}

// Report is what a responder has to say.
type Report struct {
	Message  string    // for people; blockers, say. Cut to 4000 characters
	Expected time.Time // when it will probably be done; zero or past for unknown
	Done     bool      // it will do nothing more: the pod is gone, or the responder declines
}

// NextEntry returns a responder's next entry, whether it must be written, and in what time the responder must speak again
// although nothing changed. Only an Active responder may write; for others nothing is to be written.
func NextEntry(e *api.Eviction, responder string, report Report, now time.Time) (entry api.ResponderStatus, write bool, again time.Duration) {
	if !Active(e, responder) {
		return api.ResponderStatus{}, false, 0
	}
	old := Entry(e, responder)
	entry = *old.DeepCopy()
	entry.Message = message(report.Message)
	entry.ExpectedCompletionTime = expected(old, report.Expected, now)
	if report.Done {
		// With a heartbeat, for the eviction may be read from a cache that lacks the last one, and none may be taken back.
		entry.CompletionTime, entry.HeartbeatTime = present(old, now), present(old, now)
		return entry, true, 0
	}
	write = differ(old, &entry)
	if age := heartbeatAge(old, now); age >= Beat || write && age >= Quiet {
		entry.HeartbeatTime, write = present(old, now), true
	}
	return entry, write, Beat - heartbeatAge(&entry, now)
}

// WithEntry returns the eviction with the entry that its responder has written a moment ago, for an eviction that was read from a cache which
// may be behind. One that shows a later entry stays as it is.
func WithEntry(e *api.Eviction, entry api.ResponderStatus) *api.Eviction {
	old := Entry(e, entry.Name)
	if old == nil || old.CompletionTime != nil || entry.HeartbeatTime.Before(old.HeartbeatTime) {
		return e
	}
	known := *e
	known.Status.Responders = slices.Clone(e.Status.Responders)
	*statusOf(&known.Status, entry.Name) = entry
	return &known
}

// heartbeatAge is Beat for a responder that never spoke: its first word is due.
func heartbeatAge(r *api.ResponderStatus, now time.Time) time.Duration {
	if r.HeartbeatTime == nil {
		return Beat
	}
	return now.Sub(r.HeartbeatTime.Time)
}

// present is now, or a little later where the clock of the last writer runs ahead: times never run backwards.
func present(old *api.ResponderStatus, now time.Time) *metav1.Time {
	latest := now.Truncate(time.Second)
	for _, t := range []*metav1.Time{old.StartTime, old.HeartbeatTime} {
		if t != nil && t.After(latest) {
			latest = t.Time
		}
	}
	return &metav1.Time{Time: latest}
}

// expected keeps an estimate that moved by less than a heartbeat, since every word costs a write.
func expected(old *api.ResponderStatus, at, now time.Time) *metav1.Time {
	if at.Before(now) || at.Before(old.StartTime.Time) || at.After(now.Add(furthest)) {
		return nil
	}
	if before := old.ExpectedCompletionTime; before != nil && before.Sub(at).Abs() < Quiet {
		return before
	}
	return &metav1.Time{Time: at.Truncate(time.Second).Add(time.Second)}
}

func differ(a, b *api.ResponderStatus) bool {
	sameText := (a.Message == nil) == (b.Message == nil) && (a.Message == nil || *a.Message == *b.Message)
	return !sameText || !a.ExpectedCompletionTime.Equal(b.ExpectedCompletionTime)
}
