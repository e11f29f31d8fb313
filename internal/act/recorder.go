package act

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// drainController is the name under which drains make events.
const drainController = "usher-drain"

// Recorder carries actions out like its writer, and makes an Event on a node whenever the
// node's place in a drain changes: two or three in a drain, whatever the number of pods. A pod has one only where it is deleted past budgets
// that have held a maintenance for longer than administrators let them.
// Events are best effort: one that cannot be made changes nothing.
type Recorder struct {
	*Writer

	Now func() time.Time
	By  string // who drains: user and host

	barred atomic.Bool // events may not be made: none is tried again
	writes sync.WaitGroup

	mu   sync.Mutex
	last map[types.UID]string // reason of each object's last event
}

// eventPatience bounds how long one event may take, and with it how long Wait does.
const eventPatience = time.Second

// Do carries an action out and returns what the cluster said. It waits for no event.
func (r *Recorder) Do(ctx context.Context, a drain.Action) answers.Answer {
	answer := r.Writer.Do(ctx, a)
	r.record(ctx, a, answer)
	return answer
}

// DoNode is Do of a write to a node, with the node as Writer.DoNode returns it.
func (r *Recorder) DoNode(ctx context.Context, a drain.Action) (answers.Answer, *corev1.Node) {
	answer, node := r.Writer.DoNode(ctx, a)
	r.record(ctx, a, answer)
	return answer, node
}

// record begins to make the event of an action that was carried out, if it has one.
func (r *Recorder) record(ctx context.Context, a drain.Action, answer answers.Answer) {
	what, some := nodeEventOf(a)
	if !some || answer.Code != answers.Accepted || r.DryRun || r.barred.Load() || !r.first(a.Target(), what.reason) {
		return
	}
	event := r.event(a, what)
	r.writes.Go(func() {
		r.make(context.WithoutCancel(ctx), event)
	})
}

// Warn begins to make an event of each warning, about its pod: its owners see no more of a drain. One follows the other, so that no eviction waits for them.
func (r *Recorder) Warn(ctx context.Context, warnings []drain.Warning) {
	if r.DryRun || r.barred.Load() {
		return
	}
	r.writes.Go(func() {
		for i := range warnings {
			w := &warnings[i]
			about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: w.UID}
			event := r.eventAbout(about, nodeEvent{corev1.EventTypeWarning, string(w.Reason), "Drain", w.Message})
			if !r.make(context.WithoutCancel(ctx), event) {
				return
			}
		}
	})
}

// make makes an event, and reports whether others may be made.
func (r *Recorder) make(ctx context.Context, event *eventsv1.Event) bool {
	ctx, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	if r.createEvent(ctx, event).Code == answers.Forbidden {
		r.barred.Store(true)
	}
	return !r.barred.Load()
}

// first reports whether this is not what the last event of a node, or a pod, says. A mark is written again
// when something else changed the node before the first one was seen.
func (r *Recorder) first(about types.UID, reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[about] == reason {
		return false
	}
	if r.last == nil {
		r.last = map[types.UID]string{}
	}
	r.last[about] = reason
	return true
}

// Wait returns when all events are made, or were given up.
func (r *Recorder) Wait() { r.writes.Wait() }

func (r *Recorder) event(a drain.Action, n nodeEvent) *eventsv1.Event {
	return r.eventAbout(regarding(a), n)
}

func (r *Recorder) eventAbout(about corev1.ObjectReference, n nodeEvent) *eventsv1.Event {
	at := r.Now()
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault), Name: eventName(about.Name)},
		EventTime:           metav1.NewMicroTime(at),
		ReportingController: drainController,
		ReportingInstance:   clip(cmp.Or(r.By, drainController), mostInstance),
		Type:                n.kind, Reason: n.reason, Action: n.action,
		Regarding: about,
		Note:      EventNote(n.note),
	}
}

// regarding is what the event of an action is about: a pod that it removes, or else a node.
func regarding(a drain.Action) corev1.ObjectReference {
	if p := a.Pod; p != nil {
		return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	}
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: a.Node.Name, UID: a.Node.UID}
}

// nodeEvent is what an event says.
type nodeEvent struct{ kind, reason, action, note string }

// endings are the events of the states in which a drain leaves a node.
var endings = map[string]nodeEvent{
	string(drain.NodeDrained):     {corev1.EventTypeNormal, "Drained", "Drain", "all pods that were to leave have left; it stays cordoned"},
	string(drain.NodeBlocked):     {corev1.EventTypeWarning, "DrainBlocked", "Drain", "nothing more can leave"},
	string(drain.NoAccess):        {corev1.EventTypeWarning, "DrainBlocked", "Drain", "the right to evict its pods is missing"},
	string(drain.NodeInterrupted): {corev1.EventTypeWarning, "DrainInterrupted", "Drain", "the drain was interrupted"},
	string(drain.NodeTimedOut):    {corev1.EventTypeWarning, "DrainTimedOut", "Drain", "the drain timed out"},
	string(drain.NodeLate):        {corev1.EventTypeWarning, "DrainDeadlinePassed", "Drain", "the drain was not done by its deadline"},
}

// nodeEventOf returns what an action that was carried out means for its node, if anything: a sign
// of life means nothing.
func nodeEventOf(a drain.Action) (nodeEvent, bool) {
	switch a.Kind {
	case drain.Cordon:
		n := nodeEvent{corev1.EventTypeNormal, "Draining", "Drain", "pods are moved off the node for " + a.Record.By}
		if a.Record.Why != "" {
			n.note += fmt.Sprintf(" (%s)", a.Record.Why)
		}
		return n, true
	case drain.Uncordon:
		return nodeEvent{corev1.EventTypeNormal, "Uncordoned", "Uncordon", "usher has taken its cordon away"}, true
	case drain.Mark:
		n, known := endings[a.Record.State]
		if !known || a.Node.Drain != nil && a.Node.Drain.State == a.Record.State {
			return nodeEvent{}, false
		}
		if a.Note != "" {
			n.note += "; " + a.Note
		}
		return n, true
	case drain.Delete:
		n := nodeEvent{corev1.EventTypeWarning, "HoldExpired", "Delete", "deleted past its PodDisruptionBudgets: " + a.HoldExpired}
		return n, a.HoldExpired != ""
	case drain.Unmark, drain.Evict, drain.LowerCost, drain.RestoreCost, drain.Scale, drain.ScaleMin, drain.Ask, drain.Withdraw,
		drain.RenewLease, drain.DeleteLease:
	}
	return nodeEvent{}, false
}
