package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// Policy is a compiled EvictionPolicy. It is never nil after Compile: one with problems still claims its pods, so that
// they are blocked rather than forgotten. It may be used by several goroutines at once.
type Policy struct {
	kind      string
	hosts     bool // Declaration.Hosts
	problems  []Problem
	maxAge    time.Duration
	suspended bool
	// mostReplaced is how many members are replaced at a time, whatever asks for it.
	mostReplaced int
	entries      []entry
	// blind: an entry's selector cannot be read, so it is not known which pods it claims.
	blind bool
	// blindLoad: the pods of such an entry stay.
	blindLoad bool
}

// declares reports whether an entry has the role.
func (p *Policy) declares(name string) bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.declared.Name == name })
}

// same reports whether the member of a role and an id is the one of an entry of the status. Where ids are those of hosts the role tells them apart; one that
// the policy has no more may have become any.
func (p *Policy) same(role, id string, of *v1alpha1.MemberRef) bool {
	return id == of.ID && (!p.hosts || role == of.Role || !p.declares(of.Role))
}

// settle is how long a member of the role counts after it was seen gone. Of a role that the policy has no more nothing is known
// but that it may have been Persistent.
func (p *Policy) settle(name string) time.Duration {
	at := slices.IndexFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.declared.Name == name })
	if at < 0 {
		return defaultSettle
	}
	return p.entries[at].role.settle
}

// nameless reports whether members of the role have no identity: none of them is the one that left.
func (p *Policy) nameless(name string) bool {
	at := slices.IndexFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.declared.Name == name })
	return at >= 0 && p.entries[at].role.declared.Identity == v1alpha1.IdentityNone
}

// missed reports whether members of the role count for a while after they were seen gone, and permits are written for them.
func (p *Policy) missed(name string) bool {
	at := slices.IndexFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.declared.Name == name })
	return at >= 0 && p.entries[at].counted() && p.entries[at].role.settle > 0
}

// CaresForLost reports whether a role of the policy says what is done for members whose nodes are proven off.
func (p *Policy) CaresForLost() bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.lost != nil })
}

// Problem is a mistake in a policy.
type Problem struct {
	Path    string // "spec.roles[0].evict.rules[2].expression"
	Message string // a sentence
}

// entry is a compiled v1alpha1.MemberSelector.
type entry struct {
	index       int
	selector    labels.Selector
	id          *expression.Expression // nil where it has a problem
	role        *role                  // nil where none has the name
	deletes     v1alpha1.DeleteMode
	ownerFree   bool // DELETEs by the pod's own controller are let through
	controllers []string
	leavesAfter []string // roles
	nodeLock    nodeLock // the part that the entry's members have in spec.nodeLock
	load        bool     // the pod stays, and what it carries leaves
	cordon      bool     // it leaves while the node is cordoned, without anyone asking for it
	patch       *patch   // nil: no object is patched for a successor
	memberSet   bool     // Usher itself runs the members
	maintained  bool     // their pods are made anew with their claims, while their zone is under maintenance
	tolerations v1alpha1.TolerationMode
}

// counted reports whether it matters to the entry's pods which members are on the way, or there. One that waits for other roles on its node is
// written down as it goes, and labelled, whatever its own role asks, and so is one that waits for locks, and one whose pod stays.
func (e *entry) counted() bool {
	return e.role.counted() || len(e.leavesAfter) > 0 || e.nodeLock.waits() || e.load
}

// roster reports whether the entry's pods cannot be judged without all members of the policy.
func (e *entry) roster() bool { return e.role.roster || len(e.leavesAfter) > 0 }

// role is a compiled v1alpha1.Role.
type role struct {
	declared *v1alpha1.Role
	evict    []rule
	prepare  []preparation
	replace  []rule
	lost     *lost // nil: on a node that is proven off its rules of replacement decide
	atOnce   int   // 0: any number
	minReady int
	settle   time.Duration
	// roster: its rules cannot be judged without all members of the policy.
	roster bool
}

// lost is a compiled v1alpha1.Lost.
type lost struct{ prepare []preparation }

// steps are those of a role that may have none.
func (l *lost) steps() []preparation {
	if l == nil {
		return nil
	}
	return l.prepare
}

// rule is a compiled v1alpha1.Rule.
type rule struct {
	declared *v1alpha1.Rule
	passes   *expression.Expression
	message  *expression.Template
	remedy   *expression.Template
	factual  bool // it speaks of what the system says
	own      bool // it speaks of the member's own pod and node alone
}

// preparation is a compiled v1alpha1.Preparation.
type preparation struct {
	name      string
	when      *expression.Expression
	message   *expression.Template
	expected  time.Duration
	remaining *expression.Expression // nil where the role counts nothing
}

// Problems returns what Compile found.
func (p *Policy) Problems() []Problem { return p.problems }

// Kind returns the kind of its system, "" where it declares none.
func (p *Policy) Kind() string { return p.kind }

// With returns the policy with one more problem, which is not in what it declares: it cannot be used.
func (p *Policy) With(problem Problem) *Policy {
	with := *p
	with.problems = append(slices.Clone(p.problems), problem)
	return &with
}

// Blind reports whether a selector cannot be read, so that it is not known which pods the policy claims.
func (p *Policy) Blind() bool { return p.blind }

// MaxAge is how old evidence may be when it decides.
func (p *Policy) MaxAge() time.Duration { return p.maxAge }

// AsksForRoster reports whether a member of the policy cannot be judged without Input.Rosters.
func (p *Policy) AsksForRoster() bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool { return e.role != nil && e.roster() })
}

// Selectors are those of the policy's entries: together they select all pods that it claims.
func (p *Policy) Selectors() []labels.Selector {
	all := make([]labels.Selector, len(p.entries))
	for i := range p.entries {
		all[i] = p.entries[i].selector
	}
	return all
}

// Declared is a policy as it stands in the cluster.
type Declared struct {
	Key     snapshot.Key
	Version string // resource version of the object that Status was read from
	Policy  *Policy
	Status  *v1alpha1.EvictionPolicyStatus
	// Deleted says that the policy is being deleted: its members are still held, but no EvictionRequest is created for a caller any more.
	Deleted bool
	// Held says that the policy has the finalizer by which its deletion waits for what its status remembers.
	Held bool
}
