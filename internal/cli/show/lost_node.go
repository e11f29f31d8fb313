package show

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// LostNode is the answer to what is waited for on a node.
type LostNode struct {
	Name  string
	Ready corev1.ConditionStatus
	Since time.Time
	Fence *v1alpha1.NodeFence // nil: none is under way
	// Policy is what a policy says of it where there is no fence, "" where none does.
	Policy string
	// Steps are what is done for members on it, of which Done says that nothing is left to do.
	Steps []drain.Blocker
	Done  []string
	// Unread says that steps may stand which could not be read.
	Unread string
	// Warnings are what its maintenances say of its pods.
	Warnings []NodeWarnings
	// Orders are those in which the members on it leave it.
	Orders   []snapshot.RoleOrder
	Now      time.Time
	Commands Commands // how to type those that are named
}

// Waits reports whether the node is lost and not cleared, or something is still being done for members on it.
func (n LostNode) Waits() bool {
	if len(n.Steps) > 0 {
		return true
	}
	if n.Fence != nil {
		return n.Fence.Status.ClearedTime == nil || n.Fence.Status.Step == v1alpha1.FenceSameBoot
	}
	return n.Ready == corev1.ConditionUnknown
}

// Lines is the answer for people.
func (n LostNode) Lines(width int, paint Paint) []string {
	var lines []string
	for _, line := range n.lines() {
		lines = append(lines, indented(n.Commands.In(line), "", width)...)
	}
	lines = append(lines, LostStepLines(n.Steps, n.Done, n.Now, width, paint)...)
	for i := range n.Warnings {
		lines = append(lines, n.Warnings[i].lines(width)...)
	}
	if n.Unread != "" {
		lines = append(lines, indented(n.Commands.In(clean(n.Unread)), "", width)...)
	}
	if len(n.Orders) > 0 {
		lines = append(append(lines, "", paint.strong("Order of roles")), OrderLines(n.Orders, width)...)
	}
	return lines
}

// LostStepLines are what is done for members on lost nodes: what it waits for, and what is done.
func LostStepLines(steps []drain.Blocker, done []string, now time.Time, width int, paint Paint) []string {
	lines := BlockerLines(steps, now, width, paint)
	for _, words := range done {
		body := indented(clean(words), "       ", width)
		body[0] = paint.good("done") + "   " + strings.TrimLeft(body[0], " ")
		lines = append(lines, body...)
	}
	return lines
}

func (n LostNode) lines() []string {
	head := fmt.Sprintf("node %s: Ready is %s", n.Name, n.Ready)
	if !n.Since.IsZero() {
		head += fmt.Sprintf(" since %s", Span(max(0, n.Now.Sub(n.Since))))
	}
	switch {
	case n.Fence != nil:
		lines := []string{head, FenceLine(n.Fence)}
		if s := &n.Fence.Status; s.ProvenTime != nil {
			lines = append(lines, fmt.Sprintf("proven off %s ago by %s", Span(max(0, n.Now.Sub(s.ProvenTime.Time))), clean(s.ProvenBy)))
		}
		return lines
	case n.Ready != corev1.ConditionUnknown:
		return []string{head, "it is not lost: no fence is under way"}
	case n.Policy != "":
		return []string{head, clean(n.Policy)}
	}
	return []string{head, fmt.Sprintf("no LostNodePolicy selects it, and nothing with a disk leaves it. When the machine is certainly off: usher fence %s --confirm", n.Name)}
}

// FenceLine says which step of a fence is waited for.
func FenceLine(fence *v1alpha1.NodeFence) string {
	step, message := string(fence.Status.Step), "nothing was done yet; is Usher's manager running, with the role usher-lost-nodes?"
	if c := meta.FindStatusCondition(fence.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		message = c.Message
	}
	if step == "" {
		step = string(v1alpha1.FenceBegun)
	}
	return fmt.Sprintf("fence %s, %s: %s", clean(fence.Name), clean(step), clean(message))
}
