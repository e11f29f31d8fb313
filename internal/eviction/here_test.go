package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// aroundOne judges r0, whose role has a rule about its surroundings, beside these pods and on this node.
func aroundOne(t *testing.T, rule string, node *snapshot.Node, pods ...*snapshot.Pod) Verdict {
	t.Helper()
	spec := toySpec()
	spec.Roles = []v1alpha1.Role{{
		Name: "router", System: "etcd", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
		Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "around", Reason: "Around", Expression: rule, Message: "{{size(here)}} are here"}}},
	}}
	in := world(t)
	in.Policies[0].Policy = compiled(t, spec)
	in.Pod, in.Node = toyPod("r0", "router"), node
	in.Evidence.Members["m-r0"] = expression.Facts{}
	if claim, ok := in.Policies[0].Policy.Claim(in.Pod); !ok || claim.Roster {
		in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], append(pods, in.Pod))}
	}
	return Judge(in)
}

func TestHere(t *testing.T) {
	at := func(name, role, node string, change ...func(*snapshot.Pod)) *snapshot.Pod {
		pod := toyPod(name, role)
		pod.Node = node
		for _, f := range change {
			f(pod)
		}
		return pod
	}
	foreign := at("s9", "store", "node-a")
	foreign.Namespace = "elsewhere"
	for name, c := range map[string]struct {
		pods []*snapshot.Pod
		want []string
	}{
		"alone":                       {},
		"on another node":             {pods: []*snapshot.Pod{at("s0", "store", "node-b")}},
		"on this one":                 {pods: []*snapshot.Pod{at("s0", "store", "node-a")}, want: []string{"Around"}},
		"on its way":                  {pods: []*snapshot.Pod{terminating(at("s0", "store", "node-a"))}, want: []string{"Around"}},
		"ended":                       {pods: []*snapshot.Pod{at("s0", "store", "node-a", func(p *snapshot.Pod) { p.Phase = corev1.PodSucceeded })}},
		"another role's":              {pods: []*snapshot.Pod{at("r1", "router", "node-a")}},
		"another policy's, elsewhere": {pods: []*snapshot.Pod{foreign}},
	} {
		got := aroundOne(t, `here.all(m, m.role != "store" || m.id == "")`, nil, c.pods...)
		if diff := cmp.Diff(c.want, reasons(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Without a roster it is not known who is here, and a rule that asks does not pass.
func TestHereIsNotKnownWithoutARoster(t *testing.T) {
	in := world(t)
	spec := toySpec()
	spec.Roles = toyRoles()[:1]
	spec.Roles[0].Evict.Rules[0].Expression = "size(here) >= 0"
	in.Policies[0].Policy = compiled(t, spec)
	if got := Judge(in); got.Answer != Blocked || !cmp.Equal(reasons(got), []string{FactMissing}) {
		t.Errorf("got %s %v", got.Answer, got.Blockers)
	}
}

func TestTaintsOfTheNode(t *testing.T) {
	const expression = `node.taints.exists(t, t.key == "maintenance" && t.value == "now" && t.effect == "NoExecute")`
	for name, c := range map[string]struct {
		node *snapshot.Node
		want []string
	}{
		"none":           {node: &snapshot.Node{Name: "node-a"}, want: []string{"Around"}},
		"another effect": {node: &snapshot.Node{Taints: []corev1.Taint{{Key: "maintenance", Value: "now", Effect: corev1.TaintEffectNoSchedule}}}, want: []string{"Around"}},
		"it":             {node: &snapshot.Node{Taints: []corev1.Taint{{Key: "x"}, {Key: "maintenance", Value: "now", Effect: corev1.TaintEffectNoExecute}}}},
		"not known":      {want: []string{FactMissing}},
	} {
		if diff := cmp.Diff(c.want, reasons(aroundOne(t, expression, c.node))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnnotationsOfTheNode(t *testing.T) {
	annotated := func(all map[string]string) *snapshot.Node { return &snapshot.Node{Name: "node-a", Annotations: all} }
	const key = "example.com/maintenance"
	for name, c := range map[string]struct {
		expression string
		node       *snapshot.Node
		want       []string
	}{
		"by its key":              {`node.annotations["example.com/maintenance"] == "now"`, annotated(map[string]string{key: "now"}), nil},
		"another value":           {`node.annotations["example.com/maintenance"] == "now"`, annotated(map[string]string{key: "later"}), []string{"Around"}},
		"it is not there":         {`node.annotations["example.com/maintenance"] == "now"`, annotated(nil), []string{FactMissing}},
		"that it is there":        {`"example.com/maintenance" in node.annotations`, annotated(map[string]string{key: ""}), nil},
		"that it is not there":    {`!("example.com/maintenance" in node.annotations)`, annotated(map[string]string{"other": ""}), nil},
		"as a field":              {`has(node.annotations.owner) && node.annotations.owner == "db"`, annotated(map[string]string{"owner": "db"}), nil},
		"others cannot be listed": {`dyn(node).annotations.all(k, k == "example.com/maintenance") && "example.com/maintenance" in node.annotations`, annotated(map[string]string{key: "", "secret": "s"}), nil},
		"under another name":      {`[node].all(n, n.annotations["secret"] == "s")`, annotated(map[string]string{"secret": "s"}), []string{FactMissing}},
		"the node is not known":   {`node.annotations["example.com/maintenance"] == "now"`, nil, []string{FactMissing}},
	} {
		if diff := cmp.Diff(c.want, reasons(aroundOne(t, c.expression, c.node))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
