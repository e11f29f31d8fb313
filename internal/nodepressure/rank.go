package nodepressure

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

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

// ExemptGuaranteed says why Guaranteed pods are passed over in order qos.
const ExemptGuaranteed = "guaranteed, and others are left"

// Rank returns all pods in the order in which they would go when a signal is short, first goes first. The order is total
// and does not depend on that of pods. Pods that are passed over keep their place and say why.
func Rank(o Order, s Signal, node Node, pods []Pod) []Ranked { return rank(o, s, node, pods, nil, nil) }

// rank is Rank where some pods are passed over for reasons of their own, by UID. Those that are barred do not spare Guaranteed
// pods.
func rank(o Order, s Signal, node Node, pods []Pod, passed, barred map[types.UID]string) []Ranked {
	entries := make([]entry, len(pods))
	for i := range pods {
		entries[i] = entry{pod: &pods[i], standing: measure(s, node.Layout, &pods[i])}
		entries[i].passed = passed[pods[i].UID]
		if pods[i].Exempt != "" {
			entries[i].passed = pods[i].Exempt
		}
	}
	alone := onlyGuaranteed(pods, barred)
	keys := keysOf(o, s, alone)
	slices.SortFunc(entries, func(a, b entry) int {
		c, _ := compare(keys, a, b)
		return c
	})
	if o != OrderKubelet && s.Resource() == resourceMemory && !alone && !node.Daemons.over() {
		protect(entries)
	}
	return describe(s, keys, entries)
}

// rankAt is Rank for a threshold that is met. In order qos it passes over those that usher agent would not take for it.
func rankAt(o Order, t Threshold, node Node, pods []Pod) []Ranked {
	passed := map[types.UID]string{}
	if o != OrderKubelet {
		for i := range pods {
			passed[pods[i].UID] = passedAt(t, node, &pods[i])
		}
	}
	return rank(o, t.Signal, node, pods, passed, nil)
}

// entry is a pod on its way to its place.
type entry struct {
	standing

	pod    *Pod
	passed string
}

// onlyGuaranteed reports whether only Guaranteed pods remain on the node, but for those that are exempt or barred. Another pod
// counts for as long as it is there, whatever is known of it and however little it uses: what it does is not the Guaranteed
// pods' doing.
func onlyGuaranteed(pods []Pod, barred map[types.UID]string) bool {
	return !slices.ContainsFunc(pods, func(p Pod) bool { return p.Exempt == "" && !p.guaranteed() && barred[p.UID] == "" })
}

// protect passes over Guaranteed pods that stay within their request: it is not their consumption.
func protect(entries []entry) {
	for i := range entries {
		if e := &entries[i]; e.passed == "" && e.pod.guaranteed() && !e.exceeds() {
			e.passed = ExemptGuaranteed
		}
	}
}

func describe(s Signal, keys []key, entries []entry) []Ranked {
	out := make([]Ranked, len(entries))
	for i, e := range entries {
		r := Ranked{Pod: *e.pod, Usage: e.usage, Request: e.request, Over: e.over(), Exempt: e.passed, Rule: RuleLast, Why: "no pod is after it"}
		if i+1 < len(entries) {
			next := entries[i+1]
			_, r.Rule = compare(keys, e, next)
			r.Why = why(s, r.Rule, e, next)
		}
		out[i] = r
	}
	return out
}
