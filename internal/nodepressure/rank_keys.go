package nodepressure

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// Rule names what puts a pod before the next one.
type Rule string

// The rules.
const (
	RuleNoStats     Rule = "NoStats"     // nothing is known of what it uses
	RuleStats       Rule = "Stats"       // nothing is known of what the next uses
	RuleClass       Rule = "Class"       // its QoS class is lower
	RuleOverRequest Rule = "OverRequest" // it uses more than it requested, the next does not
	RulePriority    Rule = "Priority"    // its priority is lower
	RuleOverage     Rule = "Overage"     // it uses more over its request, or less below
	RuleConsumption Rule = "Consumption" // it uses more
	RuleDaemonSet   Rule = "DaemonSet"   // the next serves the node, and would be back on it at once
	RuleName        Rule = "Name"        // all else is equal
	RuleLast        Rule = "Last"        // there is no next
)

// key is one comparison; below 0: a goes before b.
type key struct {
	rule Rule
	cmp  func(a, b entry) int
}

var (
	byNoStats     = key{RuleNoStats, func(a, b entry) int { return first(!a.known, !b.known) }}
	byStats       = key{RuleStats, func(a, b entry) int { return first(a.known, b.known) }}
	byClass       = key{RuleClass, func(a, b entry) int { return cmp.Compare(a.pod.class(), b.pod.class()) }}
	byOverRequest = key{RuleOverRequest, func(a, b entry) int { return first(a.exceeds(), b.exceeds()) }}
	byPriority    = key{RulePriority, func(a, b entry) int { return cmp.Compare(a.pod.Priority, b.pod.Priority) }}
	byConsumption = key{RuleConsumption, func(a, b entry) int { return cmp.Compare(b.usage, a.usage) }}
	byDaemonSet   = key{RuleDaemonSet, func(a, b entry) int { return first(!a.pod.DaemonSet, !b.pod.DaemonSet) }}
	byName        = key{RuleName, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	}}
	// Of two pods of which nothing is known, neither is over its request.
	byOverage = key{RuleOverage, func(a, b entry) int {
		if !a.known || !b.known {
			return 0
		}
		return cmp.Compare(b.over(), a.over())
	}}
	// Where neither is over its request, what is below it does not count; BestEffort pods have none to be over.
	byExceeding = key{RuleOverRequest, func(a, b entry) int { return first(a.exceeds() && a.pod.class() > 0, b.exceeds() && b.pod.class() > 0) }}
	byExcess    = key{RuleOverage, func(a, b entry) int {
		if !a.exceeds() || !b.exceeds() || a.pod.class() == 0 {
			return 0
		}
		return cmp.Compare(b.over(), a.over())
	}}
)

// first puts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// keysOf returns the comparisons of an order, the one that decides first in front. alone: only Guaranteed pods are left.
func keysOf(o Order, s Signal, alone bool) []key {
	if o == OrderKubelet {
		return kubeletKeys(s)
	}
	if s.Resource() != resourceMemory {
		return []key{byClass, byStats, byConsumption, byName}
	}
	keys := []key{byClass, byStats, byExceeding, byExcess}
	if alone {
		keys = append(keys, byDaemonSet, byPriority)
	}
	return append(keys, byConsumption, byName)
}

func kubeletKeys(s Signal) []key {
	if s.Resource() == resourcePIDs {
		return []key{byPriority, byNoStats, byConsumption, byName}
	}
	return []key{byNoStats, byOverRequest, byPriority, byOverage, byName}
}

// compare returns which of two goes first, and what decides it.
func compare(keys []key, a, b entry) (int, Rule) {
	for _, k := range keys {
		if c := k.cmp(a, b); c != 0 {
			return c, k.rule
		}
	}
	return 0, RuleName
}

// class is 0 for BestEffort, 1 for Burstable, 2 for Guaranteed.
func (p *Pod) class() int {
	switch p.QoS {
	case corev1.PodQOSBestEffort:
		return 0
	case corev1.PodQOSGuaranteed:
		return 2
	default:
		return 1
	}
}

func (p *Pod) guaranteed() bool { return p.QoS == corev1.PodQOSGuaranteed }
