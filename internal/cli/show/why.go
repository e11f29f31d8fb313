package show

import (
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Why is the answer to whether one pod may be evicted now, or replaced.
type Why struct {
	Pod      *snapshot.Pod
	Blockers []drain.Blocker
	Now      time.Time
	Replace  bool
	// Verdict is what its system says of a governed pod; nil: no policy governs it, or no replica could be asked. Its blockers
	// are among Blockers.
	Verdict *Verdict
	// Unfounded says that the pod carries the label of governed pods in a namespace that no policy governs.
	Unfounded bool
	// Fence says what the fence of the pod's node waits for, "" where none is under way.
	Fence string
	// Lost are what is done for its member since its node is proven off, of which LostDone says that nothing is left to do.
	Lost     []drain.Blocker
	LostDone []string
	// Replacements says of each ReplacementRequest for its member how far it is.
	Replacements []string
	// Set says that the MemberSet that runs the pod has not formed its system, and what that waits for; "": it has, or none runs it.
	Set      string
	Commands Commands // how to type those that are named
}

// Verdict is what is shown of an answer about a member.
type Verdict struct {
	Answer       string // Allowed, Blocked or Never
	Role, Member string // "" where that is not known
	Evidence     time.Time
	BreakGlass   string // the reason on the pod that lets it go in spite of its blockers
	// Audit names the policies of the verdict where they are in mode Audit, and Refusals is what would keep the pod in mode Enforce.
	Audit    string
	Refusals []drain.Blocker
}

func (w Why) mayGo() bool { return len(w.Blockers) == 0 }

// deed is what the pod may or may not be. A replacement waits for more than rules, of which the requests for it say.
func (w Why) deed() string {
	switch {
	case w.Replace && w.mayGo():
		return "be replaced, by the rules of its role"
	case w.Replace:
		return "be replaced now"
	}
	return "be evicted now"
}

// policyLine says what the fence of its node waits for, and which policy governs the pod.
func (w Why) policyLine() []string {
	if w.Fence != "" {
		line := w.Commands.In("its node is lost: " + w.Fence)
		w.Fence = ""
		return append([]string{line}, w.policyLine()...)
	}
	if !w.Pod.Labelled() {
		return w.auditLine()
	}
	if w.Unfounded {
		return []string{fmt.Sprintf("its label %s=%q has no effect: no policy governs its namespace; remove it: ", v1alpha1.PolicyLabel, w.Pod.Policy()) +
			w.Commands.In(fmt.Sprintf("kubectl label pod -n %s %s %s-", w.Pod.Namespace, w.Pod.Name, v1alpha1.PolicyLabel))}
	}
	line := "governed by policy " + w.Pod.Policy()
	if w.Pod.Policy() == "" {
		line = fmt.Sprintf("its label %s is empty and names no policy", v1alpha1.PolicyLabel)
	}
	return []string{line + w.asked()}
}

// auditLine says which policies let the pod go whatever they say of it.
func (w Why) auditLine() []string {
	switch {
	case !w.Pod.Audited():
		return nil
	case w.Verdict == nil:
		return []string{"a policy in mode Audit claims it, which lets everything through; its verdict was not to be had"}
	}
	return []string{clean(w.Verdict.Audit) + " claims it" + w.asked() + "; everything is let through"}
}

// asked says as what the pod was judged, and when its system was asked.
func (w Why) asked() string {
	v, line := w.Verdict, ""
	if v == nil {
		return ""
	}
	if v.Role != "" {
		line += " as " + clean(v.Role+" "+v.Member)
	}
	if !v.Evidence.IsZero() {
		line += fmt.Sprintf("; its system was asked %s ago", Span(max(0, w.Now.Sub(v.Evidence))))
	}
	if v.BreakGlass != "" {
		line += "; its glass is broken, and everything is let through: " + clean(v.BreakGlass)
	}
	return line
}

// Lines is the answer for people.
func (w Why) Lines(width int, paint Paint) []string {
	who := w.Pod.Key().String()
	if w.Pod.Node != "" {
		who += " on " + w.Pod.Node
	}
	if w.mayGo() {
		lines := append([]string{fmt.Sprintf("%s %s %s", who, paint.good("may"), w.deed())}, w.policyLine()...)
		return append(append(append(lines, w.refusals(width, paint)...), w.lost(width, paint)...), w.replacements(width)...)
	}
	lines := append([]string{fmt.Sprintf("%s %s %s:", who, paint.bad("may not"), w.deed())}, w.policyLine()...)
	lines = append(lines, BlockerLines(unrepeated(w.Blockers), w.Now, width, paint)...)
	return append(append(lines, w.lost(width, paint)...), w.replacements(width)...)
}

// lost is what is done for its member since its node is proven off, which keeps the pod from nothing.
func (w Why) lost(width int, paint Paint) []string {
	if len(w.Lost)+len(w.LostDone) == 0 {
		return nil
	}
	return append([]string{"since its node is lost:"}, LostStepLines(w.Lost, w.LostDone, w.Now, width, paint)...)
}

// replacements are what is said of its MemberSet, and the requests for its member.
func (w Why) replacements(width int) []string {
	var lines []string
	if w.Set != "" {
		lines = indented(w.Commands.In(clean(w.Set)), "", width)
	}
	for _, line := range w.Replacements {
		lines = append(lines, indented(w.Commands.In(clean(line)), "", width)...)
	}
	return lines
}

// refusals is what would keep the pod if its policies in mode Audit were enforced.
func (w Why) refusals(width int, paint Paint) []string {
	if w.Verdict == nil || len(w.Verdict.Refusals) == 0 {
		return nil
	}
	return append([]string{"in mode Enforce it would be refused:"}, BlockerLines(unrepeated(w.Verdict.Refusals), w.Now, width, paint)...)
}

func (w Why) json() whyJSON {
	return whyJSON{
		Pod:  podJSON{Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: string(w.Pod.UID)},
		Node: w.Pod.Node, MayGo: w.mayGo(), Blockers: blockersJSON(w.Blockers), Policy: w.Pod.Policy(), Verdict: w.verdictJSON(),
		Lost: blockersOrNone(w.Lost), LostDone: w.LostDone, Replacements: w.Replacements, Set: w.Set,
	}
}

// blockersOrNone leaves out what is empty.
func blockersOrNone(all []drain.Blocker) []blockerJSON {
	if len(all) == 0 {
		return nil
	}
	return blockersJSON(all)
}

type whyJSON struct {
	Pod      podJSON       `json:"pod"`
	Node     string        `json:"node,omitempty"`
	MayGo    bool          `json:"mayGo"`
	Blockers []blockerJSON `json:"blockers"`
	Policy   string        `json:"policy,omitempty"`
	Verdict  *verdictJSON  `json:"verdict,omitempty"`
	// Lost and LostDone are what is done for its member since its node is proven off, and sentences about what of it is done.
	Lost     []blockerJSON `json:"lost,omitempty"`
	LostDone []string      `json:"lostDone,omitempty"`
	// Replacements are sentences, one or more for each ReplacementRequest of the member.
	Replacements []string `json:"replacements,omitempty"`
	// Set is a sentence about its MemberSet, where that has not formed its system.
	Set string `json:"set,omitempty"`
}

type verdictJSON struct {
	About    string        `json:"about"` // evict, replace
	Answer   string        `json:"answer"`
	Role     string        `json:"role,omitempty"`
	Member   string        `json:"member,omitempty"`
	Evidence *time.Time    `json:"evidence,omitempty"`
	Audit    string        `json:"audit,omitempty"`
	Refusals []blockerJSON `json:"refusals,omitempty"`
}

func (w Why) verdictJSON() *verdictJSON {
	v := w.Verdict
	if v == nil {
		return nil
	}
	j := &verdictJSON{About: "evict", Answer: v.Answer, Role: v.Role, Member: v.Member, Audit: v.Audit}
	if len(v.Refusals) > 0 {
		j.Refusals = blockersJSON(v.Refusals)
	}
	if w.Replace {
		j.About = "replace"
	}
	if !v.Evidence.IsZero() {
		j.Evidence = &v.Evidence
	}
	return j
}
