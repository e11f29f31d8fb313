package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/snapshot"
)

// outcome is what became of an action.
type outcome struct {
	action nodepressure.Action
	began  time.Time
	took   time.Duration
	answer answers.Answer
	// killed counts processes, and local says why they could not be killed.
	killed int
	local  error
}

// executor carries actions out.
type executor struct {
	cluster   Cluster
	node      string
	machine   *machine.Machine
	cgroup    func(types.UID) types.UID // the UID in the name of a pod's cgroup
	blank     func(types.UID) bool      // the pod's annotation that breaks the glass is there and lets nothing through
	apiserver *apiserverHealth
	outcomes  chan outcome
}

// carry carries out actions on one pod, one after the other, and returns when that is done; what becomes of each arrives
// among the outcomes. Once ctx has ended it begins none.
func (c *executor) carry(ctx context.Context, actions ...nodepressure.Action) {
	for _, a := range actions {
		if ctx.Err() != nil {
			return
		}
		select {
		case c.outcomes <- c.one(ctx, a):
		case <-ctx.Done():
		}
	}
}

func (c *executor) one(ctx context.Context, a nodepressure.Action) outcome {
	o := outcome{action: a, began: time.Now()}
	patient, cancel := context.WithTimeout(ctx, patienceFor(&a))
	defer cancel()
	c.do(patient, &o)
	o.took = time.Since(o.began)
	return o
}

func (c *executor) do(ctx context.Context, o *outcome) {
	pod := refOf(o.action.Pod)
	switch o.action.Kind {
	case nodepressure.Evict:
		o.answer = c.record(ctx, c.cluster.Evict(ctx, pod, o.action.Grace))
	case nodepressure.Request:
		o.answer = c.record(ctx, c.cluster.Ask(ctx, pod))
	case nodepressure.Withdraw:
		o.answer = c.record(ctx, c.cluster.Withdraw(ctx, pod))
	case nodepressure.Unbreak:
		o.answer = c.record(ctx, c.cluster.Unbreak(ctx, pod, o.action.Value))
	case nodepressure.Remove:
		o.answer = c.remove(ctx, &o.action)
	case nodepressure.KillLocally:
		c.kill(ctx, o)
	case nodepressure.Wait, nodepressure.Say:
	}
}

// remove deletes a pod past its budgets and, where its policy allows that, past its verdict. An annotation that did not
// help is taken back at once: it would let every caller through. Where that fails, or the answer to the write was lost, the pod
// shows the annotation, and it is taken back on that account.
func (c *executor) remove(ctx context.Context, a *nodepressure.Action) answers.Answer {
	pod, glass := refOf(a.Pod), nodepressure.GlassOf(c.node, a.Message)
	broken := false
	if a.BreakGlass {
		answer := c.record(ctx, c.cluster.BreakGlass(ctx, pod, glass, c.blank(pod.UID)))
		if answer.Code != answers.Accepted && answer.Code != answers.Conflict { // another's value lets it through as well, and stays
			return answer
		}
		broken = answer.Code == answers.Accepted
	}
	answer := c.record(ctx, c.cluster.Remove(ctx, pod, a.Grace))
	if broken && answer.Code != answers.Accepted && answer.Code != answers.Gone {
		c.unbreak(ctx, pod, glass)
	}
	if answer.Code == answers.Accepted {
		c.cluster.Disrupted(ctx, pod, time.Now(), a.Message)
	}
	return answer
}

// unbreak takes the annotation back even where the agent is about to end. An apiserver that does not answer holds nothing up.
func (c *executor) unbreak(ctx context.Context, pod *snapshot.Pod, glass string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hardPatience)
	defer cancel()
	c.cluster.Unbreak(ctx, pod, glass)
}

// kill ends the pod's processes, and then the pod, so that they are not started again.
func (c *executor) kill(ctx context.Context, o *outcome) {
	a := &o.action
	o.killed, o.local = c.machine.Kill(c.cgroup(a.Pod.UID))
	if errors.Is(o.local, machine.ErrNoCgroup) {
		o.local = nil // it has ended by itself
	}
	if !c.apiserver.reachable() {
		o.answer = answers.Answer{Code: answers.Unavailable, Message: "the apiserver does not answer"}
		return
	}
	o.answer = c.remove(ctx, a)
}

// errUnanswered stands for whatever kept an answer away.
var errUnanswered = errors.New("no answer")

// webhookDown reports whether the apiserver answered that a webhook did not: nothing was carried out, and it is not away.
func webhookDown(answer answers.Answer) bool {
	return answer.Code == answers.Unavailable && strings.Contains(answer.Message, "failed calling webhook")
}

// record notes whether the apiserver answered, and returns the answer. Where the agent itself gave up, that is not known.
func (c *executor) record(ctx context.Context, answer answers.Answer) answers.Answer {
	switch unanswered := answer.Code == answers.Unavailable && !webhookDown(answer); {
	case !unanswered:
		c.apiserver.record(nil)
	case !errors.Is(ctx.Err(), context.Canceled):
		c.apiserver.record(fmt.Errorf("%w: %s", errUnanswered, answer.Message))
	}
	return answer
}

// newEvent words an outcome for those who look at the pod.
func newEvent(o *outcome) (act.Event, bool) {
	e := act.Event{At: o.began, Pod: refOf(o.action.Pod), Action: string(o.action.Kind), Note: o.action.Message}
	switch accepted := o.answer.Code == answers.Accepted; {
	case o.action.Kind == nodepressure.KillLocally && (o.local == nil || accepted):
		e.Reason = "KilledForPressure"
	case o.action.Kind == nodepressure.Remove && accepted:
		e.Reason = "RemovedForPressure"
	case o.action.Kind == nodepressure.Evict && accepted:
		e.Reason = "EvictedForPressure"
	case o.action.Kind == nodepressure.Request && accepted:
		e.Reason, e.Normal = "PreparedForPressure", true
	default:
		return act.Event{}, false
	}
	return e, true
}
