package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure"
)

// written is what agents of this node may have written for its pods, and what became of taking it back. EvictionRequests are
// kept until a withdrawal was accepted; annotations are seen on the pods.
type written struct {
	// asked are pods for which a request may stand, and until when one that went unanswered may still be carried out.
	asked map[types.UID]time.Time
	// later is what is known of taking back what may still stand.
	later map[takenBack]again
}

type takenBack struct {
	uid  types.UID
	kind nodepressure.ActionKind
}

// again is when something is to be taken back once more, and what came of the last try.
type again struct {
	at      time.Time
	refused bool
	late    bool // it was taken back, and what was asked for before may still be carried out until then
}

func newWritten() written {
	return written{asked: map[types.UID]time.Time{}, later: map[takenBack]again{}}
}

const (
	// takeBackAgain is how long is waited after something was taken back and may still stand; where that is not allowed, it is
	// forbiddenStands.
	takeBackAgain = 5 * time.Second
	// carriedOutWithin is how long after its client has given up an apiserver may still carry out a request: by default it
	// gives up itself after as long.
	carriedOutWithin = time.Minute
)

// inherit notes pods for which an agent before this one may have asked. What it asked for last may still be carried out: a
// withdrawal that finds nothing confirms nothing yet.
func (w *written) inherit(all []*resident, now time.Time) {
	for _, r := range all {
		if r.pod.Governed && !r.pod.Terminating {
			w.asked[r.pod.UID] = now.Add(carriedOutWithin)
		}
	}
}

// ask notes a request that may stand from now on, and leaves what is known of an earlier one but that it was taken back.
func (w *written) ask(uid types.UID) {
	if _, known := w.asked[uid]; !known {
		w.asked[uid] = time.Time{}
	}
	back := takenBack{uid, nodepressure.Withdraw}
	if tried, known := w.later[back]; known {
		tried.late = false
		w.later[back] = tried
	}
}

func (w *written) begin(a *nodepressure.Action) {
	if a.Kind == nodepressure.Request {
		w.ask(a.Pod.UID)
	}
}

func (w *written) end(o *outcome, now time.Time) {
	uid, code := o.action.Pod.UID, o.answer.Code
	back := takenBack{uid, o.action.Kind}
	switch {
	case o.action.Kind == nodepressure.Request && code == answers.Unavailable:
		w.asked[uid] = now.Add(carriedOutWithin)
	case o.action.Kind != nodepressure.Withdraw && o.action.Kind != nodepressure.Unbreak:
	case code == answers.Forbidden || code == answers.Denied || code == answers.Rejected:
		w.later[back] = again{at: now.Add(forbiddenStands), refused: true}
	case o.action.Kind == nodepressure.Unbreak || code != answers.Accepted && code != answers.Gone:
		// A pod shows its annotation until the watch has brought the change.
		w.later[back] = again{at: now.Add(takeBackAgain)}
	case now.Before(w.asked[uid]):
		w.later[back] = again{at: w.asked[uid], late: true}
	default:
		delete(w.asked, uid)
		delete(w.later, back)
	}
}

// settle forgets pods that are gone: their requests have ended with them.
func (w *written) settle(here map[types.UID]*resident) {
	maps.DeleteFunc(w.asked, func(uid types.UID, _ time.Time) bool { return here[uid] == nil })
	maps.DeleteFunc(w.later, func(back takenBack, _ again) bool { return here[back.uid] == nil })
}

// list returns what may stand now, in an order that does not depend on chance.
func (w *written) list(all []*resident, now time.Time) []nodepressure.Written {
	var out []nodepressure.Written
	add := func(uid types.UID, kind nodepressure.ActionKind, value string) {
		tried := w.later[takenBack{uid, kind}]
		out = append(out, nodepressure.Written{
			UID: uid, Kind: kind, Value: value, Later: now.Before(tried.at), Refused: tried.refused, Late: tried.late,
		})
	}
	for uid := range w.asked {
		add(uid, nodepressure.Withdraw, "")
	}
	for _, r := range all {
		if r.glass != "" {
			add(r.pod.UID, nodepressure.Unbreak, r.glass)
		}
	}
	slices.SortFunc(out, func(a, b nodepressure.Written) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
