package drain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// inZone labels a node with its zone.
func inZone(name string) func(*snapshot.Node) {
	return func(n *snapshot.Node) { n.Zone, n.Labels = name, map[string]string{corev1.LabelTopologyZone: name} }
}

// offers is what a node has for pods.
func offers(cpu, memory, pods int64) func(*snapshot.Node) {
	return func(n *snapshot.Node) { n.Allocatable = snapshot.Resources{MilliCPU: cpu, Memory: memory, Pods: pods} }
}

// wants is what a pod requests.
func wants(cpu, memory int64) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Requests = snapshot.Resources{MilliCPU: cpu, Memory: memory, Pods: 1} }
}

func spread(p *snapshot.Pod) { p.SpreadHosts = true }

func tainted(n *snapshot.Node) {
	n.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
}

// volumeIn is a volume that only nodes of a zone can use.
func volumeIn(name, zone string) fact {
	return func(c *snapshot.Cluster) {
		c.SetVolume(&snapshot.Volume{Name: name, Affinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}})
	}
}

func TestFitNowhere(t *testing.T) {
	const words = "what is made in its place finds no node, as things stand: no other node "
	set := statefulSet("db", 2)
	db := func(options ...func(*snapshot.Pod)) fact {
		return all(set, pod("db-0", append([]func(*snapshot.Pod){on("a"), ofSet("db")}, options...)...))
	}
	big := node("b", offers(1000, 1000, 10))
	for name, c := range map[string]struct {
		facts []fact
		want  string
	}{
		"it fits":                                {[]fact{db(wants(1000, 1000)), big}, ""},
		"a node that does not say what it has":   {[]fact{db(wants(1000, 1000)), node("b")}, ""},
		"no other node":                          {[]fact{db()}, words + "may run it"},
		"no label":                               {[]fact{db(needs("disk", "ssd")), big}, words + "may run it: none has the labels disk=ssd"},
		"a taint":                                {[]fact{db(), node("b", tainted)}, words + "may run it: 1 node(s) had untolerated taint(s)"},
		"a cordon":                               {[]fact{db(), node("b", cordoned)}, words + "may run it: 1 node(s) were unschedulable"},
		"too little cpu":                         {[]fact{db(wants(1001, 0)), big}, words + "has room for it: 1 Insufficient cpu"},
		"… with what runs there":                 {[]fact{db(wants(600, 0)), big, pod("other", on("b"), wants(600, 0))}, words + "has room for it: 1 Insufficient cpu"},
		"… that has ended":                       {[]fact{db(wants(600, 0)), big, pod("other", on("b"), wants(600, 0), phase(corev1.PodSucceeded))}, ""},
		"too little memory":                      {[]fact{db(wants(0, 1001)), big}, words + "has room for it: 1 Insufficient memory"},
		"too many pods":                          {[]fact{db(), node("b", offers(1000, 1000, 1)), pod("other", on("b"))}, words + "has room for it: 1 Too many pods"},
		"one of two nodes fits":                  {[]fact{db(wants(1001, 0)), big, node("c", offers(2000, 1000, 10))}, ""},
		"each for another cause":                 {[]fact{db(wants(1001, 0)), big, node("c", tainted)}, words + "has room for it: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)"},
		"beside its own kind":                    {[]fact{db(spread), big, pod("db-1", on("b"), ofSet("db"))}, words + "has room for it: 1 node(s) didn't match pod anti-affinity rules"},
		"pods of other nodes that were not read": {[]fact{db(wants(1001, 0)), big, partly("pods")}, ""},
		"nodes that were not read":               {[]fact{db(needs("disk", "ssd")), big, partly("nodes")}, ""},
		"a volume of its zone":                   {[]fact{db(claims("data")), claim("data", "v", false), volumeIn("v", "z1"), node("b", inZone("z1"))}, ""},
		"… that no other node is in":             {[]fact{db(claims("data")), claim("data", "v", false), volumeIn("v", "z1"), node("b", inZone("z2"))}, words + "may run it: none has the labels topology.kubernetes.io/zone in (z1), by its volumes"},
		"… that has no room":                     {[]fact{db(claims("data"), wants(2000, 0)), claim("data", "v", false), volumeIn("v", "z1"), node("b", inZone("z1"), offers(1000, 1, 9)), node("c", inZone("z2"), offers(4000, 1, 9))}, words + "has room for it: 1 Insufficient cpu"},
		"a pod that nothing makes anew":          {[]fact{pod("once", on("a"), needs("disk", "ssd")), big}, ""},
		"a Job's":                                {[]fact{pod("job", on("a"), ofJob("job"), needs("disk", "ssd")), big}, ""},
		"a DaemonSet's":                          {[]fact{daemonSet("d"), pod("d", on("a"), ofDaemon("d"), needs("disk", "ssd")), big}, ""},
		"one that has ended":                     {[]fact{db(needs("disk", "ssd"), phase(corev1.PodSucceeded)), big}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, w := range drain.FitNowhere(snapshot.View{Now: start, Cluster: cluster(append(c.facts, node("a"))...)}, ask("a")) {
				got += w.Message
				if w.Remedy == "" || w.Reason != drain.FitsNowhere || w.Node != "a" {
					t.Errorf("%+v", w)
				}
			}
			same(t, "words", c.want, got)
		})
	}
}

// The drain of a maintenance says it before anything is evicted, and evicts all the same.
func TestFitsNowhereHoldsNothing(t *testing.T) {
	s := interrupted(t, statefulSet("db", 3), pod("db-0", on("a"), ofSet("db"), needs("disk", "ssd")), node("b"))
	s.expect("evict db-0")
	same(t, "warnings", []string{"db-0: FitsNowhere"}, s.warned())
	node("b", func(n *snapshot.Node) { n.Labels = map[string]string{"disk": "ssd"} })(s.cluster)
	s.decide()
	same(t, "warnings", nil, s.warned())
}
