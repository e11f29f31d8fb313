package show

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
)

// LostNode is the answer to what is waited for on a node.
type LostNode struct {
	Name  string
	Ready corev1.ConditionStatus
	Since time.Time
	Fence *v1alpha1.NodeFence // nil: none is under way
	// Policy is what a policy says of it where there is no fence, "" where none does.
	Policy string
	Now    time.Time
}

// Waits reports whether the node is lost and not cleared.
func (n LostNode) Waits() bool {
	if n.Fence != nil {
		return n.Fence.Status.ClearedTime == nil || n.Fence.Status.Step == v1alpha1.FenceSameBoot
	}
	return n.Ready == corev1.ConditionUnknown
}

// Lines is the answer for people.
func (n LostNode) Lines() []string {
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
