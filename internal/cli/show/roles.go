package show

import (
	"fmt"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Roles is the list of built-in roles.
type Roles []v1alpha1.Role

// Lines is the list for people, a line for each role.
func (r Roles) Lines(width int, paint Paint) []string {
	var list []described
	for i := range r {
		list = append(list, described{r[i].Name, r[i].Description})
	}
	return append(descriptions(list, width, paint), "", "usher roles NAME shows when one may leave; -o yaml prints it to be changed and written into a policy")
}

// described is a name, and what it stands for.
type described struct{ name, about string }

// descriptions are the lines of a list of names, one below the other.
func descriptions(list []described, width int, paint Paint) []string {
	longest := 0
	for i := range list {
		longest = max(longest, len(list[i].name))
	}
	var lines []string
	for i := range list {
		about := wrap(list[i].about, max(0, width-longest-2))
		lines = append(lines, paint.strong(pad(list[i].name, longest)+"  ")+about[0])
		for _, more := range about[1:] {
			lines = append(lines, strings.Repeat(" ", longest+2)+more)
		}
	}
	return lines
}

// Role is one role in words.
type Role v1alpha1.Role

// Lines is the role for people: what it is, when it may leave, what is done first, what may take its place, and what is done where its node is off.
func (r Role) Lines(width int, paint Paint) []string {
	lines := []string{paint.strong(r.Name) + "  (" + r.System + ")"}
	lines = append(lines, wrap(r.Description, width)...)
	lines = append(lines, "", "state     "+stateWords[r.State], "identity  "+identityWords[r.Identity],
		"stays on a node that is not ready for "+patience(r.Tolerations.NotReady)+", on one that is not reachable for "+patience(r.Tolerations.Unreachable))
	lines = append(lines, "", paint.strong("May leave its node")+r.whenEvicted())
	lines = append(lines, ruleLines(r.Evict.Rules, width, paint)...)
	if len(r.Evict.Prepare) > 0 {
		lines = append(lines, "", paint.strong("What Usher has the system do, so that it may"))
		lines = append(lines, stepLines(r.Evict.Prepare, width, paint)...)
	}
	lines = append(lines, "", paint.strong("May be replaced by "+successorWords[r.Replace.Successor])+whenReplaced(r.Replace))
	lines = append(lines, ruleLines(r.Replace.Rules, width, paint)...)
	return append(lines, r.lostLines(width, paint)...)
}

// lostLines say what is done for a member whose node is proven off. Of a role that says nothing of that the rules of replacement decide.
func (r Role) lostLines(width int, paint Paint) []string {
	switch {
	case r.Lost == nil:
		return nil
	case len(r.Lost.Prepare) == 0:
		return append([]string{""}, indented("Once its node is proven off its pod may be removed: nothing is to be done for it.", "", width)...)
	}
	return append([]string{"", paint.strong("What Usher has the system do once its node is proven off")}, stepLines(r.Lost.Prepare, width, paint)...)
}

// stepLines are steps, each with when it is needed.
func stepLines(steps []v1alpha1.Preparation, width int, paint Paint) []string {
	var lines []string
	for i := range steps {
		lines = append(lines, "  "+paint.strong(steps[i].Name))
		lines = append(lines, indented("when "+oneLine(steps[i].When), "    ", width)...)
	}
	return lines
}

func (r Role) whenEvicted() string {
	if len(r.Evict.Rules) == 0 {
		return " always."
	}
	return ", " + r.atOnce() + ", when all of this holds:"
}

func (r Role) atOnce() string {
	n := int32(1)
	switch {
	case r.Evict.AtOnce != nil:
		n = *r.Evict.AtOnce
	case r.State == v1alpha1.StateNone:
		n = 0
	}
	switch n {
	case 0:
		return "any number at once"
	case 1:
		return "one at a time"
	}
	return fmt.Sprintf("%d at once", n)
}

func whenReplaced(r v1alpha1.Replace) string {
	switch {
	case r.Successor == v1alpha1.SuccessorNone:
		return ""
	case len(r.Rules) == 0:
		return " always."
	}
	return ", when all of this holds:"
}

// ruleLines prints rules with what is said where they do not hold.
func ruleLines(rules []v1alpha1.Rule, width int, paint Paint) []string {
	var lines []string
	for i := range rules {
		rule := &rules[i]
		head := "  " + paint.strong(rule.Name) + "  " + rule.Reason
		if rule.Never {
			head += "  " + paint.bad("never")
		}
		lines = append(lines, head)
		lines = append(lines, indented(oneLine(rule.Expression), "    ", width)...)
		lines = append(lines, indented("else: "+oneLine(rule.Message), "    ", width)...)
		if rule.Remedy != "" {
			lines = append(lines, indented("remedy: "+oneLine(rule.Remedy), "    ", width)...)
		}
	}
	return lines
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func patience(t *v1alpha1.Toleration) string {
	switch {
	case t == nil:
		return "as long as Kubernetes says (5m)"
	case t.Forever:
		return "ever"
	case t.Seconds != nil:
		return Span(snapshot.Seconds(*t.Seconds))
	}
	return "no time"
}

var stateWords = map[v1alpha1.State]string{
	v1alpha1.StateNone:       "none",
	v1alpha1.StateMemory:     "in memory, lost with the pod",
	v1alpha1.StatePersistent: "persistent, perhaps tied to the node",
}

var identityWords = map[v1alpha1.Identity]string{
	v1alpha1.IdentityNone:    "none",
	v1alpha1.IdentityAddress: "its address",
	v1alpha1.IdentityUnique:  "unique in its system",
}

var successorWords = map[v1alpha1.Successor]string{
	v1alpha1.SuccessorNewIdentity:  "a member with a new identity",
	v1alpha1.SuccessorSameIdentity: "the same member with a wiped disk",
	v1alpha1.SuccessorAnyPod:       "any pod",
	v1alpha1.SuccessorNone:         "no other member",
}
