package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// follow prints what becomes of a request until the member is replaced, or it has been stalled for a while.
func (o *replaceOptions) follow(ctx context.Context, objects dynamic.Interface, q *v1alpha1.ReplacementRequest) error {
	ctx, stop, done := o.limit.follow(ctx)
	defer done()
	f := &replacementFollower{options: o, last: q, stop: stop}
	code := exitDone
	err := observe.Replacements{Client: objects, Namespace: q.Namespace}.Follow(ctx, q.Name, q.UID, func(now *v1alpha1.ReplacementRequest) bool {
		if now == nil {
			code = f.gone()
			return true
		}
		f.show(now)
		if !now.Status.Over() {
			return false
		}
		code = f.over(now)
		return true
	})
	f.end()
	if err == nil {
		return exitWith(code)
	}
	return f.ended(ctx, err)
}

// replacementFollower prints a line for each change.
type replacementFollower struct {
	options *replaceOptions
	last    *v1alpha1.ReplacementRequest
	said    string
	stuck   *time.Timer
	stop    context.CancelCauseFunc
}

// show prints what is new, and bounds how long nothing may happen.
func (f *replacementFollower) show(q *v1alpha1.ReplacementRequest) {
	f.last = q
	f.end()
	switch {
	case q.Status.ObservedGeneration == 0:
		f.stuck = time.AfterFunc(unseenFor, func() { f.stop(errUnseen) })
		return
	case meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionStalled):
		f.stuck = time.AfterFunc(stalledFor, func() { f.stop(errStalled) })
	}
	lines := replacementLines(q)
	if said := strings.Join(lines, "\n"); said != f.said {
		f.said = said
		for _, line := range lines {
			fmt.Fprintf(f.options.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), f.options.commands.In(line))
		}
	}
}

// replacementLines say how far a replacement is and what it waits for, each with what a person can do.
func replacementLines(q *v1alpha1.ReplacementRequest) []string {
	who := "member " + text.Line(q.Spec.Member.ID)
	switch q.Status.Step {
	case v1alpha1.ReplacementComplete:
		return []string{who + " is replaced" + onNode(q) + keptVolumes(q)}
	case v1alpha1.ReplacementCancelled:
		if q.Status.Predecessor != nil {
			return []string{who + ": the replacement is cancelled, and the predecessor is removed" + keptVolumes(q)}
		}
		return []string{who + ": the replacement is cancelled, and nothing was removed"}
	case v1alpha1.ReplacementWaiting, v1alpha1.ReplacementRemoving, v1alpha1.ReplacementJoining:
	}
	lines := waivedLines(q)
	for _, b := range q.Status.Blockers {
		line := fmt.Sprintf("%s: %s: %s: %s", who, q.Status.Step, b.Reason, text.Line(b.Message))
		if b.Remedy != "" && b.Remedy != "wait" {
			line += " (" + text.Line(b.Remedy) + ")"
		}
		lines = append(lines, line)
	}
	if len(q.Status.Blockers) == 0 && q.Status.Step != "" {
		lines = append(lines, fmt.Sprintf("%s: %s", who, q.Status.Step))
	}
	return lines
}

// waivedLines say what does not hold a replacement since it was given up.
func waivedLines(q *v1alpha1.ReplacementRequest) []string {
	if q.Spec.Abandonment == nil {
		return nil
	}
	var lines []string
	for _, b := range q.Status.Waived {
		lines = append(lines, fmt.Sprintf("member %s: %s: given up by %s: %s: %s", text.Line(q.Spec.Member.ID), q.Status.Step, text.Line(q.Spec.Abandonment.Requester), b.Reason, text.Line(b.Message)))
	}
	return lines
}

func onNode(q *v1alpha1.ReplacementRequest) string {
	if q.Status.Successor == nil || q.Status.Successor.Node == "" {
		return ""
	}
	return fmt.Sprintf(": pod %s is on node %s", q.Status.Successor.PodName, q.Status.Successor.Node)
}

// keptVolumes names the volumes of the claims that were deleted.
func keptVolumes(q *v1alpha1.ReplacementRequest) string {
	var names []string
	if q.Status.Predecessor != nil {
		for _, c := range q.Status.Predecessor.Claims {
			if c.Volume != "" {
				names = append(names, c.Volume)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; its former volumes, unless the policy has them deleted: " + text.List(names, 5)
}

// over says why a request has ended that was not deleted, and returns the exit code: nothing more is done for it, whether the object goes or stays.
func (f *replacementFollower) over(q *v1alpha1.ReplacementRequest) int {
	if q.Status.Step == v1alpha1.ReplacementComplete {
		return exitDone
	}
	if q.DeletionTimestamp == nil {
		why := "see its status"
		if ready := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			why = text.Line(ready.Message)
		}
		fmt.Fprintf(f.options.Out, "it was not deleted, and ended: %s. To have the member replaced all the same, type the command again\n", why)
	}
	return exitBlocked
}

// gone says what the end of a request means, and returns the exit code.
func (f *replacementFollower) gone() int {
	fmt.Fprintf(f.options.Out, "ReplacementRequest %s was deleted\n", f.last.Name)
	if f.last.Status.Step == v1alpha1.ReplacementJoining {
		fmt.Fprintln(f.options.Out, "nothing of the predecessor was left by then: kubectl get pods shows its successor")
	}
	return exitBlocked
}

func (f *replacementFollower) end() {
	if f.stuck != nil {
		f.stuck.Stop()
	}
}

// ended says why following has ended before the replacement, and that the request stands.
func (f *replacementFollower) ended(ctx context.Context, err error) error {
	var code int
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		code = exitBlocked
	case errors.Is(cause, errUnseen):
		code = exitBlocked
		fmt.Fprintln(f.options.Out, unseen)
	case errors.Is(cause, errLate):
		code = exitLate
		fmt.Fprintf(f.options.Out, "timed out after %s (--timeout)\n", f.options.timeout)
	case ctx.Err() != nil:
		code = exitInterrupted
	default:
		return err
	}
	f.options.sayStands(f.last)
	return exitWith(code)
}

// sayStands says what becomes of a request that is followed no longer.
func (o *replaceOptions) sayStands(q *v1alpha1.ReplacementRequest) {
	var cancels string
	switch step := q.Status.Step; {
	case step == v1alpha1.ReplacementJoining:
		cancels = "goes on: nothing of the predecessor is left"
	case q.DeletionTimestamp != nil:
		cancels = "is being deleted, and goes on if something of the predecessor was removed by then"
	default:
		cancels = fmt.Sprintf("stands; kubectl delete replacementrequest %s -n %s cancels it as long as nothing was removed", q.Name, q.Namespace)
	}
	fmt.Fprintf(o.Out, "ReplacementRequest %s %s\n", q.Name, cancels)
}
