package notice

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// The ConfigMap with the configuration, in Usher's own namespace, and its entry.
const (
	ConfigName = "usher-notices"
	ConfigKey  = "notices.yaml"
)

// Action is what a notice leads to.
type Action string

// The actions.
const (
	Drain    Action = "Drain"  // a NodeMaintenance drains the node, and keeps it cordoned until the notice is withdrawn
	Cordon   Action = "Cordon" // one keeps it cordoned until then, and no pod leaves
	SetTaint Action = "Taint"  // one keeps a taint on it until then
	CallHook Action = "Hook"   // one calls a hook, and does nothing to the node
	Report   Action = "Report" // an Event on the Node
)

// Config says what notices lead to. It is made by Parse.
type Config struct {
	// Drain, AtDeadline and Concurrency are those of the maintenances that notices make. Concurrency is of nodes that stay: one that goes waits for no room.
	Drain       v1alpha1.MaintenanceDrain
	AtDeadline  v1alpha1.DeadlineAction
	Concurrency v1alpha1.MaintenanceConcurrency
	// Margin is how long before its effective time a node is to be empty.
	Margin time.Duration
	// BeginBefore is how long before its effective time a drain begins, at the earliest.
	BeginBefore time.Duration
	// MachineHold is for how long a Machine of Cluster API is held whose node is not drained.
	MachineHold time.Duration
	// Kinds says what notices lead to that are made by no rule, or by one without an action.
	Kinds map[Kind]Action
	// Rules make notices of alerts, conditions and taints. Of an alert the first one that matches counts.
	Rules []Rule
}

// Rule makes a notice of what it matches. Exactly one of Alert, Condition and Taint is set.
type Rule struct {
	Name      string
	Alert     *AlertRule
	Condition *ConditionRule
	Taint     *TaintRule
	Kind      Kind
	Action    Action // "": the kind's
	// EffectiveAfter is how long after the alert, condition or taint began its notice takes effect; 0: not known.
	EffectiveAfter time.Duration
	// Hook is called once the node is drained, or what else is done is; "": none is.
	Hook string
	// Sets is the taint that SetTaint sets.
	Sets *v1alpha1.MaintenanceTaint
}

// AlertRule matches alerts by their labels.
type AlertRule struct {
	Matchers []Matcher
	// NodeLabel is the label that names the node.
	NodeLabel string
}

// ConditionRule matches a condition of nodes.
type ConditionRule struct {
	Type    string
	Status  string
	Message *regexp.Regexp // found in its message; nil: any
	For     time.Duration  // for so long
}

// TaintRule matches a taint of nodes. Empty fields match any.
type TaintRule struct {
	Key, Value, Effect string
}

// Default is the configuration without rules. Its drains are those that action plugins of Hollowtrees had: pods that nothing replaces and such with emptyDir volumes are evicted, those of DaemonSets stay.
func Default() *Config {
	c := &Config{
		Drain: v1alpha1.MaintenanceDrain{
			UnmanagedPods: v1alpha1.PodsEvict, EmptyDirPods: v1alpha1.PodsEvict, DaemonSetPods: v1alpha1.DaemonSetsIgnore, Surge: v1alpha1.SurgeAuto,
		},
		AtDeadline:  v1alpha1.DeadlineStop,
		Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: 1, Zones: 1},
		Margin:      5 * time.Second,
		BeginBefore: time.Hour,
		MachineHold: time.Hour,
		Kinds:       map[Kind]Action{},
	}
	for _, kind := range kinds {
		c.Kinds[kind] = Report
		if slices.Contains(leaving, kind) {
			c.Kinds[kind] = Drain
		}
	}
	return c
}

// kinds are all there are.
var kinds = []Kind{SpotInterruption, Rebalance, Maintenance, Reboot, Redeploy, Termination, Shutdown, Problem, ScaleDown}

// action is what a notice leads to.
func (c *Config) action(r *Reported) Action {
	if r.Rule != nil && r.Rule.Action != "" {
		return r.Rule.Action
	}
	return c.Kinds[r.Kind]
}

// nameList says what a field may be.
func nameList[S ~string](all []S) []string {
	names := make([]string, len(all))
	for i, name := range all {
		names[i] = string(name)
	}
	return names
}

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
