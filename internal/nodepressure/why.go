package nodepressure

import "fmt"

// why says in a sentence what puts a before b.
func why(s Signal, r Rule, a, b entry) string {
	next := b.pod.Key()
	switch r {
	case RuleNoStats:
		return fmt.Sprintf("nothing is known of what it uses, unlike %s", next)
	case RuleStats:
		return fmt.Sprintf("nothing is known of what %s uses", next)
	case RuleClass:
		return fmt.Sprintf("it is %s, %s is %s", a.pod.QoS, next, b.pod.QoS)
	case RuleOverRequest:
		return fmt.Sprintf("it uses %s, %s, and %s stays within its request", uses(s, a), against(s, a), next)
	case RulePriority:
		return fmt.Sprintf("its priority is %d, that of %s is %d", a.pod.Priority, next, b.pod.Priority)
	case RuleOverage:
		return fmt.Sprintf("it uses %s, %s; %s uses %s, %s", uses(s, a), against(s, a), next, s.Amount(b.usage), against(s, b)) + s.apart(a.over(), b.over())
	case RuleConsumption:
		return fmt.Sprintf("it uses %s, %s uses %s", uses(s, a), next, s.Amount(b.usage)) + s.apart(a.usage, b.usage)
	case RuleDaemonSet:
		return fmt.Sprintf("%s belongs to a DaemonSet, which serves the node and would start it again here", next)
	case RuleName, RuleLast:
	}
	return fmt.Sprintf("nothing distinguishes it from %s but its name", next)
}

func uses(s Signal, e entry) string { return s.Amount(e.usage) + " " + s.noun() }

func against(s Signal, e entry) string {
	switch {
	case e.request == 0:
		return "and requested nothing"
	case e.over() < 0:
		return s.Amount(-e.over()) + " below its request"
	}
	return s.Amount(e.over()) + " over its request"
}
