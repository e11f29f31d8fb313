package replacement

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Terms are what a policy says of the repair of its members, with defaults filled in.
type Terms struct {
	// Automatic: unhealthy members get a successor without a person's asking. Conditions are kept in any case.
	Automatic bool
	// UnhealthyAfter is how long a condition must have stood, of all but NodeTainted.
	UnhealthyAfter time.Duration
	// Conditions are those that count; nil: all.
	Conditions []ConditionType
	// MaxMembers, or else MaxZones, limits what is marked and not yet emptied, whatever marked it. 0 of both: nothing is marked.
	MaxMembers, MaxZones int
	// Taints are what is watched on nodes. A rule for a taint's key goes before one for "*".
	Taints []TaintRule
	// TaintedAfter is how long NodeTainted must have stood.
	TaintedAfter time.Duration
	// StopAbove is how many of the zones that have members, or what share of them, may have unhealthy ones: above it nothing is marked.
	// Rounded down, and 1 at least.
	StopAbove intstr.IntOrString
}

// The defaults of source 002.
const (
	DefaultUnhealthyAfter = 7200 * time.Second
	DefaultTaintedAfter   = 1800 * time.Second
	DefaultMaxMembers     = 1
	DefaultStopAbove      = "10%"
)

// TaintRule says how long a taint may be on a member's node.
type TaintRule struct {
	Key    string // "*": any that no other rule names
	After  time.Duration
	Ignore bool // a taint of this key never counts, also where "*" would have it count
}

// counts reports whether a condition of this type leads to a replacement.
func (t *Terms) counts(kind ConditionType) bool {
	return len(t.Conditions) == 0 || slices.Contains(t.Conditions, kind)
}

// window is how long a condition must have stood.
func (t *Terms) window(kind ConditionType) time.Duration {
	if kind == NodeTainted {
		return t.TaintedAfter
	}
	return t.UnhealthyAfter
}

// ruleFor returns the rule for a taint's key; nil: it does not count.
func (t *Terms) ruleFor(key string) *TaintRule {
	if key == "" {
		return nil
	}
	var found *TaintRule
	for i := range t.Taints {
		switch rule := &t.Taints[i]; rule.Key {
		case key:
			if rule.Ignore {
				return nil
			}
			return rule
		case "*":
			found = rule
		}
	}
	if found == nil || found.Ignore {
		return nil
	}
	return found
}

// mostUnhealthyZones is how many of all zones may have unhealthy members.
func (t *Terms) mostUnhealthyZones(all int) (int, error) {
	most, err := intstr.GetScaledValueFromIntOrPercent(&t.StopAbove, all, false)
	return max(1, most), err
}
