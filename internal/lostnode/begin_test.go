package lostnode

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func TestBegin(t *testing.T) {
	manual := v1alpha1.Fence{Manual: &v1alpha1.ManualFence{}}
	ready := func(n *Node) { n.Ready = corev1.ConditionTrue }
	young := func(n *Node) { n.Since = noon.Add(-2 * time.Minute) }
	inZone := func(zone string) func(*Node) { return func(n *Node) { n.Zone = zone } }
	one := []Policy{*policyOf(manual)}
	proven := NewFence(new(lostNode("n2")), "all")
	proven.Status = v1alpha1.NodeFenceStatus{Step: v1alpha1.FenceWaitingForNewBoot, ProvenTime: at(noon), Taint: v1alpha1.TaintByUsher, ClearedTime: at(noon)}
	underWay := NewFence(new(lostNode("n2")), "all")
	own := NewFence(new(lostNode("n1")), "all")
	over := own.DeepCopy()
	over.Status.Step = v1alpha1.FenceCancelled
	for name, c := range map[string]struct {
		nodes    []Node
		policies []Policy
		fences   []*v1alpha1.NodeFence
		lease    Lease
		begins   bool
		says     string // of n1
		stuck    bool
		next     time.Duration
	}{
		"lost":                       {nodes: []Node{lostNode("n1")}, begins: true, says: "its fence is begun"},
		"ready":                      {nodes: []Node{lostNode("n1", ready)}},
		"not ready, which is known":  {nodes: []Node{lostNode("n1", func(n *Node) { n.Ready = corev1.ConditionFalse })}},
		"not for long":               {nodes: []Node{lostNode("n1", young)}, says: "fenced from 2026-11-25T12:03:00Z", next: 3 * time.Minute},
		"its lease is renewed":       {nodes: []Node{lostNode("n1")}, lease: Lease{Known: true, Renewed: noon.Add(-10 * time.Second)}, says: "renewed 10s ago", next: 290 * time.Second},
		"its lease is of the future": {nodes: []Node{lostNode("n1")}, lease: Lease{Known: true, Renewed: noon.Add(time.Hour)}, says: "delete lease", next: 5 * time.Minute},
		"its lease is not known":     {nodes: []Node{lostNode("n1")}, lease: Lease{Error: "forbidden"}, says: "forbidden", stuck: true, next: lookAgain},
		"it has no lease":            {nodes: []Node{lostNode("n1")}, lease: Lease{Known: true}, begins: true},
		"another of its zone":        {nodes: []Node{lostNode("n1"), lostNode("n2")}, says: "a silent zone is a broken network", stuck: true},
		"another, a moment ago":      {nodes: []Node{lostNode("n1"), lostNode("n2", young)}, says: "maxPerZone is 1", stuck: true, next: 3 * time.Minute},
		"another of its zone, which no policy selects": {
			nodes: []Node{lostNode("n1", func(n *Node) { n.Labels = map[string]string{"mine": "yes"} }), lostNode("n2")}, says: "maxPerZone is 1", stuck: true,
			policies: []Policy{*policyOf(manual, func(p *v1alpha1.LostNodePolicy) { p.Spec.NodeSelector.MatchLabels = map[string]string{"mine": "yes"} })},
		},
		"another of another zone":   {nodes: []Node{lostNode("n1"), lostNode("n2", inZone("b"), ready)}, begins: true},
		"none names a zone":         {nodes: []Node{lostNode("n1", inZone("")), lostNode("n2", inZone(""))}, says: "that name none", stuck: true},
		"another is proven off":     {nodes: []Node{lostNode("n1"), lostNode("n2")}, fences: []*v1alpha1.NodeFence{proven}, begins: true},
		"another is being fenced":   {nodes: []Node{lostNode("n1"), lostNode("n2", ready)}, fences: []*v1alpha1.NodeFence{underWay}, says: "maxPerZone is 1", stuck: true},
		"it is being fenced":        {nodes: []Node{lostNode("n1")}, fences: []*v1alpha1.NodeFence{own}, says: "begun"},
		"this silence's is over":    {nodes: []Node{lostNode("n1")}, fences: []*v1alpha1.NodeFence{over}, says: "begun"},
		"an earlier silence's":      {nodes: []Node{lostNode("n1", func(n *Node) { n.Since = noon.Add(-6 * time.Minute) })}, fences: []*v1alpha1.NodeFence{over}, begins: true},
		"its boot is not known":     {nodes: []Node{lostNode("n1", func(n *Node) { n.BootID = "" })}, says: "bootID", stuck: true},
		"two policies select it":    {nodes: []Node{lostNode("n1")}, policies: append(one, *policyOf(manual, func(p *v1alpha1.LostNodePolicy) { p.Name = "too" })), says: "all, too", stuck: true},
		"its policy cannot be used": {nodes: []Node{lostNode("n1")}, policies: []Policy{{Object: one[0].Object, Problem: "no such field"}}, says: "no such field", stuck: true},
		"its policy is suspended":   {nodes: []Node{lostNode("n1")}, policies: []Policy{*policyOf(manual, func(p *v1alpha1.LostNodePolicy) { p.Spec.Suspend = true })}, says: "suspended"},
		"a policy of other nodes": {nodes: []Node{lostNode("n1")}, policies: []Policy{*policyOf(manual, func(p *v1alpha1.LostNodePolicy) {
			p.Spec.NodeSelector.MatchLabels = map[string]string{"mine": "yes"}
		})}},
		"two may": {nodes: []Node{lostNode("n1"), lostNode("n2", ready)}, fences: []*v1alpha1.NodeFence{underWay}, begins: true, policies: []Policy{*policyOf(manual, func(p *v1alpha1.LostNodePolicy) {
			p.Spec.MaxPerZone = 2
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			policies := c.policies
			if policies == nil {
				policies = one
			}
			if !c.lease.Known && c.lease.Error == "" {
				c.lease = silentLease()
			}
			leases := map[string]Lease{"n1": c.lease}
			plan := Begin(Survey{Now: noon, Nodes: c.nodes, Policies: policies, Fences: c.fences, Leases: leases})
			if begins := len(plan.Begin) == 1 && plan.Begin[0].Spec.NodeName == "n1"; begins != c.begins || len(plan.Begin) > 1 {
				t.Errorf("begins %v", plan.Begin)
			}
			words := ""
			for _, u := range plan.Reports[0].Unreachable {
				if u.Node == "n1" {
					words = u.Message
				}
			}
			if !strings.Contains(words, c.says) || (words == "") != (c.says == "" && !c.begins) {
				t.Errorf("says %q, want %q", words, c.says)
			}
			if (len(plan.Reports[0].Stuck) > 0) != c.stuck {
				t.Errorf("stuck: %v", plan.Reports[0].Stuck)
			}
			if got := plan.NextLook; got.IsZero() != (c.next == 0) || c.next != 0 && got.Sub(noon) != c.next {
				t.Errorf("looks again at %s, want after %s", got, c.next)
			}
		})
	}
}

// A Lease is asked for only where everything else speaks for a fence.
func TestBeginAsksForFewLeases(t *testing.T) {
	policies := []Policy{*policyOf(v1alpha1.Fence{Manual: &v1alpha1.ManualFence{}})}
	plan := Begin(Survey{Now: noon, Nodes: []Node{lostNode("n1")}, Policies: policies})
	if len(plan.Ask) != 1 || len(plan.Begin) != 0 {
		t.Errorf("asks for %v, begins %v", plan.Ask, plan.Begin)
	}
	if plan = Begin(Survey{Now: noon, Nodes: []Node{lostNode("n1"), lostNode("n2")}, Policies: policies}); len(plan.Ask) != 0 {
		t.Errorf("asks for %v of a silent zone", plan.Ask)
	}
}

func TestPolicyStatus(t *testing.T) {
	policy := policyOf(v1alpha1.Fence{Manual: &v1alpha1.ManualFence{}})
	many := &Report{NodeCount: 30}
	for range 25 {
		many.Unreachable = append(many.Unreachable, v1alpha1.UnreachableNode{Node: "n", Message: "waits"})
	}
	for name, c := range map[string]struct {
		policy                      *Policy
		report                      *Report
		refused, reason             string
		ready, reconciling, stalled metav1.ConditionStatus
	}{
		"all is well":     {policy: policy, report: &Report{NodeCount: 3}, reason: "Watching", ready: "True", reconciling: "False", stalled: "False"},
		"no nodes":        {policy: policy, report: &Report{}, reason: "NoNodes", ready: "True", reconciling: "False", stalled: "False"},
		"some are lost":   {policy: policy, report: many, reason: "NodesUnreachable", ready: "True", reconciling: "True", stalled: "False"},
		"one is stuck":    {policy: policy, report: &Report{Stuck: []string{"a"}}, reason: "Stuck", ready: "False", reconciling: "False", stalled: "True"},
		"a right missing": {policy: policy, report: &Report{}, refused: "forbidden", reason: "Refused", ready: "False", reconciling: "False", stalled: "True"},
		"invalid":         {policy: &Policy{Object: policy.Object, Problem: "bad"}, report: &Report{}, reason: "Invalid", ready: "False", reconciling: "False", stalled: "True"},
		"suspended": {
			policy: policyOf(v1alpha1.Fence{}, func(p *v1alpha1.LostNodePolicy) { p.Spec.Suspend = true }), report: &Report{}, reason: "Suspended",
			ready: "False", reconciling: "False", stalled: "False",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := PolicyStatus(c.policy, c.report, c.refused, noon)
			for _, condition := range status.Conditions {
				want := map[string]metav1.ConditionStatus{v1alpha1.ConditionReady: c.ready, v1alpha1.ConditionReconciling: c.reconciling, v1alpha1.ConditionStalled: c.stalled}
				if condition.Status != want[condition.Type] || condition.Reason != c.reason || condition.ObservedGeneration != 3 {
					t.Errorf("%+v", condition)
				}
			}
			if len(status.Conditions) != 3 || len(status.Unreachable) > mostListed || int(status.UnreachableCount) != len(c.report.Unreachable) {
				t.Errorf("%+v", status)
			}
		})
	}
}
