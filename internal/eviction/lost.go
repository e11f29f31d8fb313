package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// NodeState is how a node is. Unknown is the zero value.
type NodeState string

// The states of nodes.
const (
	NodeProvenOff NodeState = "ProvenOff" // by a fence, in the boot in which it was lost
	NodeThere     NodeState = "There"     // there, and not proven off
	NodeMissing   NodeState = "Missing"   // there is no such Node
)

// LostInput is what is known of a policy's members on nodes that are proven off.
type LostInput struct {
	Now    time.Time
	Policy Declared
	// Pods are pods of the namespace, at least those on such nodes. Nodes says how their nodes are, and those for whose sake steps stand.
	Pods  []*snapshot.Pod
	Nodes map[string]NodeState
	// Evidence is the policy's; nil: there is none.
	Evidence *Evidence
	// Replies is what the system said to the last call for each step, in this process.
	Replies []Reply
}

// LostResult is what to do now: at most one write of the status, and the calls that it announces.
type LostResult struct {
	Actions []Action
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// lostAgain is when steps of lost members are looked at again: their progress shows in the evidence alone.
const lostAgain = 5 * time.Second

// LoseMembers has what the members on lost nodes carry brought back elsewhere. The steps of a member are written down as soon as its node is proven off, before its
// pod may be removed, and asked for one after the other. ReconcileStatus takes them back when the node answers again.
func LoseMembers(in LostInput) LostResult {
	if in.Policy.Deleted || in.Policy.Policy.suspended || len(in.Policy.Policy.problems) > 0 {
		return LostResult{}
	}
	l := &losing{LostInput: in, status: statusOf(&in.Policy), costs: expression.NewCostBudget(verdictEffort, nil), words: expression.NewCostBudget(wordsEffort, nil)}
	l.find()
	for i := range l.members {
		l.member(&l.members[i])
	}
	result := LostResult{NextLook: l.next}
	if len(l.changed) > 0 {
		result.Actions = append([]Action{in.Policy.write(Settle, l.status, expression.Listed(l.changed))}, l.inTurn()...)
	}
	return result
}

// inTurn are the calls, that for the step first which was asked for longest ago: only so many are made at a time, and one that was not made is tried again later
// than those that were.
func (l *losing) inTurn() []Action {
	slices.SortStableFunc(l.calls, func(a, b lostCall) int { return a.last.Compare(b.last) })
	var all []Action
	for i := range l.calls {
		all = append(all, l.calls[i].Action)
	}
	return all
}

// lostCall is a call for a step, and when that was asked for last.
type lostCall struct {
	Action

	last time.Time
}

type losing struct {
	LostInput
	members      []lostMember
	status       *v1alpha1.EvictionPolicyStatus
	changed      []string
	calls        []lostCall
	next         time.Time
	costs, words *expression.CostBudget
}

type lostMember struct {
	ref  v1alpha1.MemberRef
	role *role
}

// find lists the members: those of pods on nodes that are off, and those for which steps stand.
func (l *losing) find() {
	policy := l.Policy.Policy
	for _, pod := range l.Pods {
		claim, ok := policy.Claim(pod)
		if pod.Namespace != l.Policy.Key.Namespace || l.Nodes[pod.Node] != NodeProvenOff || !ok || claim.Role == nil || claim.Member == "" {
			continue
		}
		if role := policy.entries[claim.Entry].role; role.lost != nil {
			l.add(lostMember{claim.Ref(pod), role})
		}
	}
	for i := range l.status.Preparations {
		p := &l.status.Preparations[i]
		found := policy.entryOf(p.Role)
		if p.For == v1alpha1.ForLost && l.Nodes[p.Node] == NodeProvenOff && found != nil && found.role.lost != nil {
			l.add(lostMember{p.MemberRef, found.role})
		}
	}
	slices.SortFunc(l.members, func(a, b lostMember) int {
		return cmp.Or(cmp.Compare(a.ref.Role, b.ref.Role), cmp.Compare(a.ref.ID, b.ref.ID))
	})
}

func (l *losing) add(m lostMember) {
	if !slices.ContainsFunc(l.members, func(o lostMember) bool { return o.ref.Role == m.ref.Role && o.ref.ID == m.ref.ID }) {
		l.members = append(l.members, m)
	}
}

// member writes a member's steps down, or asks for the first that is needed.
func (l *losing) member(m *lostMember) {
	if l.writeDown(m) || !l.Policy.Held {
		l.look(l.Now.Add(time.Second)) // what is to be undone stands in a policy that is held before anything is asked for
		return
	}
	if len(m.role.lost.prepare) == 0 {
		return
	}
	l.look(l.Now.Add(lostAgain))
	facts, ok := l.known(m)
	if !ok {
		return
	}
	scope := (&expression.Scope{Now: l.Now, Member: m.ref.ID, Role: m.ref.Role, Facts: facts, System: l.Evidence.System}).Variables()
	for i := range m.role.lost.prepare {
		step := &m.role.lost.prepare[i]
		needed, err := step.when.EvalWith(scope, l.costs)
		if err != nil {
			return // a fact is missing: what a later step takes for granted may be so
		}
		if needed == true {
			l.ask(m, step, scope)
			return
		}
		l.rest(m, step, scope)
	}
}

// rest writes down what is left of a step for which nothing is to be asked, where that was asked for before: without it the status would go on saying what
// was left, and was being done, at the last call.
func (l *losing) rest(m *lostMember, step *preparation, scope map[string]any) {
	at := lostStep(l.Policy.Policy, l.status.Preparations, step.name, &m.ref)
	if at < 0 {
		return
	}
	p := &l.status.Preparations[at]
	left, known := counted(step, scope, l.words)
	if p.State != v1alpha1.PreparationBegun || !p.LostAsked() || !known || p.Message == "" && p.Remaining == left {
		return
	}
	p.Remaining, p.Message = left, ""
	l.changed = append(l.changed, step.name+" of "+m.ref.ID+" has nothing to ask for now")
}

// writeDown notes the steps of a member that do not stand yet. What was begun for its eviction is for its loss from then on, and what was being taken back
// since its node answered is begun again.
func (l *losing) writeDown(m *lostMember) (wrote bool) {
	for i := range m.role.lost.prepare {
		name := m.role.lost.prepare[i].name
		at := lostStep(l.Policy.Policy, l.status.Preparations, name, &m.ref)
		if at >= 0 {
			p := &l.status.Preparations[at]
			if p.For == v1alpha1.ForLost && p.State == v1alpha1.PreparationBegun || !over(l.Now, p, replyOf(l.Replies, p)) {
				continue
			}
			p.For, p.State, p.Node, p.StartTime, p.Message = v1alpha1.ForLost, v1alpha1.PreparationBegun, m.ref.Node, moment(l.Now), ""
		} else {
			l.status.Preparations = append(l.status.Preparations, v1alpha1.PreparationStatus{
				MemberRef: m.ref, Name: name, For: v1alpha1.ForLost, State: v1alpha1.PreparationBegun, StartTime: moment(l.Now), LastRequestTime: moment(l.Now),
			})
		}
		l.changed, wrote = append(l.changed, fmt.Sprintf("%s is to be done for %s, whose node %s is proven off", name, m.ref.ID, m.ref.Node)), true
	}
	return wrote
}

// lostStep is the index of a member's step of a name; -1: there is none.
func lostStep(policy *Policy, steps []v1alpha1.PreparationStatus, name string, of *v1alpha1.MemberRef) int {
	return slices.IndexFunc(steps, func(p v1alpha1.PreparationStatus) bool {
		return p.Name == name && policy.same(of.Role, of.ID, &p.MemberRef)
	})
}

// known returns what the system says of a member, if that may decide.
func (l *losing) known(m *lostMember) (expression.Facts, bool) {
	e := l.Evidence
	if e == nil || e.Error != "" || e.Epoch != l.status.Epoch {
		return nil, false
	}
	if age, limit := l.Now.Sub(e.Observed), l.Policy.Policy.maxAge; age > limit || age < -limit || len(e.Shared[m.ref.ID]) > 1 {
		return nil, false
	}
	facts, ok := e.Members[m.ref.ID]
	return facts, ok
}

// ask asks for a step, having written that down. The next call waits until the last one has certainly reached the system, or never will: a machine that was
// brought back elsewhere twice would run twice.
func (l *losing) ask(m *lostMember, step *preparation, scope map[string]any) {
	at := lostStep(l.Policy.Policy, l.status.Preparations, step.name, &m.ref)
	if at < 0 {
		return
	}
	p := &l.status.Preparations[at]
	reply := replyOf(l.Replies, p)
	learned := learn(p, reply)
	unasked := !p.LostAsked()
	switch {
	case p.For != v1alpha1.ForLost || p.State != v1alpha1.PreparationBegun:
		return
	case learned:
		l.changed = append(l.changed, step.name+" of "+m.ref.ID+" is job "+p.Job)
		l.look(l.Now.Add(time.Second))
		return
	case reply.Error != "" && reply.Error != p.Message:
		p.Message = reply.Error // the next call may be minutes away
		l.changed = append(l.changed, step.name+" of "+m.ref.ID+" has failed")
		return
	case !unasked && (!over(l.Now, p, reply) || !due(l.Now, p, reply)):
		return
	}
	if left, known := counted(step, scope, l.words); known {
		p.Remaining = left
	}
	if unasked {
		p.RemainingAtStart = p.Remaining
	}
	words := step.message.ExpandBrief(scope, l.words)
	last := p.LastRequestTime.Time
	p.LastRequestTime, p.Message = nextCall(l.Now, p), cmp.Or(reply.Error, text.Line(words))
	why := step.name + " is needed for " + m.ref.ID + ", whose node " + m.ref.Node + " is proven off"
	l.changed = append(l.changed, why)
	l.calls = append(l.calls, lostCall{last: last, Action: Action{
		Kind: Prepare, Policy: l.Policy.Key, Pod: snapshot.Key{Namespace: l.Policy.Key.Namespace, Name: m.ref.PodName}, UID: p.PodUID, Why: why, BestEffort: true,
		Step: Preparation{
			Name: step.name, Namespace: l.Policy.Key.Namespace, Member: p.MemberRef, Message: words, Remaining: p.Remaining,
			Asked: p.LastRequestTime.Time, Job: jobOf(p),
		},
	}})
}

func (l *losing) look(at time.Time) {
	if l.next.IsZero() || at.Before(l.next) {
		l.next = at
	}
}

// remainingOf is how much of a step is still to be done; what cannot be counted is only not known.
func remainingOf(step *preparation, scope map[string]any, costs *expression.CostBudget) int64 {
	left, _ := counted(step, scope, costs)
	return left
}

// counted returns how much of a step is still to be done, 0 where the role counts nothing, and whether that is known.
func counted(step *preparation, scope map[string]any, costs *expression.CostBudget) (left int64, known bool) {
	if step.remaining == nil {
		return 0, true
	}
	value, err := step.remaining.EvalWith(scope, costs)
	if err != nil {
		return 0, false
	}
	left, known = value.(int64)
	return max(left, 0), known
}

// StandsForLost reports whether steps for members of lost nodes stand in a policy's status.
func StandsForLost(status *v1alpha1.EvictionPolicyStatus) bool {
	return slices.ContainsFunc(status.Preparations, func(p v1alpha1.PreparationStatus) bool { return p.For == v1alpha1.ForLost })
}

// awaitLost blocks a member whose steps do not stand yet: without its pod nothing would say which member was on the node.
func (j *judgement) awaitLost() {
	ref := v1alpha1.MemberRef{Role: j.verdict.Role, ID: j.verdict.Member}
	for i := range j.role.lost.prepare {
		name := j.role.lost.prepare[i].name
		at := lostStep(j.policy.Policy, j.status().Preparations, name, &ref)
		if at < 0 || j.status().Preparations[at].For != v1alpha1.ForLost {
			j.block(lostStepMissing(name))
			return
		}
	}
}

// nodeDeleted is what a step waits for that was not done when its Node was deleted: nothing proves from then on that the machine is off.
const nodeDeleted = "its Node is deleted, so that nothing proves it off any more: nothing more is asked for, and what is left is to be done by hand"

// lost keeps a step while its node is off, or that is not known, and takes it back when the node is there. Of a node that does not come back nothing is taken
// back: it is forgotten after a while, as a step is whose member does not come back.
func (t *statusReconciler) lost(entry v1alpha1.PreparationStatus) {
	expiry := entry.LastRequestTime.Add(memory)
	switch state := t.in.Nodes[entry.Node]; {
	case t.in.ends(), state == NodeThere:
		t.undo(entry)
	case state == NodeMissing && !t.in.Now.Before(expiry):
		t.forget(&entry)
	case state == NodeMissing:
		t.look(expiry)
		if entry.State == v1alpha1.PreparationBegun && !isDone(&entry) && entry.Message != nodeDeleted {
			entry.Message = nodeDeleted
			t.write(entry.Name+" of "+entry.ID+" ends with its Node", time.Time{})
		}
		t.keep(entry)
	default:
		t.keep(entry)
	}
}
