package pressure

// Order is the name of a way to put pods in order.
type Order string

// The orders.
const (
	// OrderQoS: BestEffort, then Burstable, then Guaranteed; in a class by consumption over request.
	OrderQoS Order = "qos"
	// OrderKubelet: over its request, then priority, then consumption over request, as the kubelet of 1.37.
	OrderKubelet Order = "kubelet"
)

// Orders returns the names of all orders.
func Orders() []Order { return []Order{OrderQoS, OrderKubelet} }

// Ranked is a pod in its place.
type Ranked struct {
	Pod Pod `json:"pod"`
	// Usage, Request and Over (usage less request, may be negative) are of the starving resource, in its unit.
	Usage   int64 `json:"usage"`
	Request int64 `json:"request"`
	Over    int64 `json:"over"`
	// Exempt says why the pod is passed over although it has its place, "" if it is not.
	Exempt string `json:"exempt,omitempty"`
	// Rule is what puts the pod before the next one.
	Rule Rule `json:"rule"`
	// Why is a sentence for people.
	Why string `json:"why"`
}

// Rule names what puts a pod before the next one.
type Rule string

// The rules.
const (
	RuleNoStats     Rule = "NoStats"     // nothing is known of what it uses
	RuleClass       Rule = "Class"       // its QoS class is lower
	RuleOverRequest Rule = "OverRequest" // it uses more than it requested, the next does not
	RulePriority    Rule = "Priority"    // its priority is lower
	RuleOverage     Rule = "Overage"     // it is further over its request
	RuleConsumption Rule = "Consumption" // it uses more
	RuleDaemonSet   Rule = "DaemonSet"   // the next would be back on the node at once
	RuleName        Rule = "Name"        // all else is equal
	RuleLast        Rule = "Last"        // there is no next
)

// Rank returns all pods in the order in which they would go when a signal is short, first goes first. The order is total
// and does not depend on that of pods.
func Rank(o Order, s Signal, node Node, pods []Pod) []Ranked { return nil }
