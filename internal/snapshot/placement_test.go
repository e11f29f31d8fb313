package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObstacles(t *testing.T) {
	node := Node{Name: "a", Ready: true, Labels: map[string]string{"disk": "ssd"}}
	with := func(change func(*Node)) Node {
		changed := node
		change(&changed)
		return changed
	}
	cordoned := with(func(n *Node) {
		n.Unschedulable = true
		n.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	})
	left := with(func(n *Node) { n.Taints = cordoned.Taints }) // a forecast uncordons without taking the taint off
	silent := with(func(n *Node) { n.Ready = false })
	tainted := with(func(n *Node) {
		n.Taints = []corev1.Taint{{Key: "db", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	tolerates := func(key, value string, op corev1.TolerationOperator, effect corev1.TaintEffect) Pod {
		return Pod{Tolerations: []corev1.Toleration{{Key: key, Value: value, Operator: op, Effect: effect}}}
	}
	everything := tolerates("", "", corev1.TolerationOpExists, "")
	affinity := func(op corev1.NodeSelectorOperator, values ...string) Pod {
		return Pod{NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: op, Values: values}}},
		}}}
	}
	cases := map[string]struct {
		node Node
		pod  Pod
		want string
	}{
		"any pod":                           {node, Pod{}, ""},
		"a cordon":                          {cordoned, Pod{}, Cordoned},
		"a cordon that is tolerated":        {cordoned, tolerates(corev1.TaintNodeUnschedulable, "", corev1.TolerationOpExists, corev1.TaintEffectNoSchedule), ""},
		"a cordon, everything is tolerated": {cordoned, everything, ""},
		"a cordon, NoExecute is tolerated":  {cordoned, tolerates("", "", corev1.TolerationOpExists, corev1.TaintEffectNoExecute), Cordoned},
		"a cordon that was taken off":       {left, Pod{}, ""},
		"not ready":                         {silent, Pod{}, NotReady},
		"not ready, tolerated":              {silent, everything, ""},
		"not ready, tolerated for a time":   {silent, tolerates(corev1.TaintNodeUnreachable, "", corev1.TolerationOpExists, corev1.TaintEffectNoExecute), NotReady},
		"its label":                         {node, Pod{NodeSelector: map[string]string{"disk": "ssd"}}, ""},
		"another label":                     {node, Pod{NodeSelector: map[string]string{"disk": "hdd"}}, NoAffinity},
		"a label that it lacks":             {node, Pod{NodeSelector: map[string]string{"zone": ""}}, NoAffinity},
		"an affinity":                       {node, affinity(corev1.NodeSelectorOpIn, "ssd", "nvme"), ""},
		"an affinity to others":             {node, affinity(corev1.NodeSelectorOpNotIn, "ssd"), NoAffinity},
		"an affinity that cannot be read":   {node, affinity(corev1.NodeSelectorOpGt, "much"), NoAffinity},
		"a taint":                           {tainted, Pod{}, Untolerated},
		"a taint of this value":             {tainted, tolerates("db", "x", "", ""), ""},
		"a taint of another value":          {tainted, tolerates("db", "y", corev1.TolerationOpEqual, ""), Untolerated},
		"a taint, numbers are compared":     {tainted, tolerates("db", "5", corev1.TolerationOpLt, ""), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			placement := PlacementOf(&c.pod)
			if got := placement.Refusal(&c.node); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The selector of a placement selects every node that the scheduler may choose, and fewer than all where labels say so.
func TestSelectorOfAPlacement(t *testing.T) {
	term := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	needs := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) Pod {
		return Pod{NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	both := affinity(term(needs("pool", corev1.NodeSelectorOpNotIn, "b")))
	both.NodeSelector = map[string]string{"disk": "ssd"}
	for name, c := range map[string]struct {
		pod  Pod
		want string
	}{
		"any pod":            {Pod{}, ""},
		"a node selector":    {Pod{NodeSelector: map[string]string{"disk": "ssd", "a": "b"}}, "a=b,disk=ssd"},
		"one term":           {affinity(term(needs("pool", corev1.NodeSelectorOpIn, "a", "b"), needs("gpu", corev1.NodeSelectorOpExists))), "gpu,pool in (a,b)"},
		"of several, either": {affinity(term(needs("pool", corev1.NodeSelectorOpIn, "a")), term(needs("disk", corev1.NodeSelectorOpExists))), ""},
		"numbers":            {affinity(term(needs("cores", corev1.NodeSelectorOpGt, "4"), needs("gpu", corev1.NodeSelectorOpDoesNotExist))), "!gpu"},
		"both":               {both, "disk=ssd,pool notin (b)"},
		"names":              {affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{needs("metadata.name", corev1.NodeSelectorOpIn, "n")}}), ""},
		"unreadable":         {affinity(term(needs("pool", corev1.NodeSelectorOpIn))), ""},
	} {
		placement := PlacementOf(&c.pod)
		if got := placement.Selector(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
