package observe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnNodeAlone(t *testing.T) {
	node := func(name, zone string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name + ".local", corev1.LabelTopologyZone: zone, "topology.example.com/node": name,
		}}}
	}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	field := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}
	both := in(corev1.LabelTopologyZone, "a")
	both.MatchExpressions = append(both.MatchExpressions, in(corev1.LabelHostname, "n1.local").MatchExpressions...)
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		is    bool
	}{
		"no affinity":              {},
		"its hostname":             {[]corev1.NodeSelectorTerm{in(corev1.LabelHostname, "n1.local")}, true},
		"a driver's label":         {[]corev1.NodeSelectorTerm{in("topology.example.com/node", "n1")}, true},
		"its name":                 {[]corev1.NodeSelectorTerm{field}, true},
		"its zone and hostname":    {[]corev1.NodeSelectorTerm{both}, true},
		"the same in two terms":    {[]corev1.NodeSelectorTerm{in(corev1.LabelHostname, "n1.local"), field}, true},
		"another node":             {[]corev1.NodeSelectorTerm{in(corev1.LabelHostname, "n2.local")}, false},
		"it and another":           {[]corev1.NodeSelectorTerm{in(corev1.LabelHostname, "n1.local"), in(corev1.LabelHostname, "n2.local")}, false},
		"it or another":            {[]corev1.NodeSelectorTerm{in(corev1.LabelHostname, "n1.local", "n2.local")}, false},
		"a zone that has it alone": {[]corev1.NodeSelectorTerm{in(corev1.LabelTopologyZone, "a")}, false},
		"a zone that has two":      {[]corev1.NodeSelectorTerm{in(corev1.LabelTopologyZone, "b")}, false},
		"what cannot be read":      {[]corev1.NodeSelectorTerm{in("no key!", "n1")}, false},
	} {
		volume := &corev1.PersistentVolume{}
		if c.terms != nil {
			volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: c.terms}}
		}
		one := node("n1", "a")
		if got := OnNodeAlone(volume, &one, []corev1.Node{one, node("n2", "b"), node("n3", "b")}); got != c.is {
			t.Errorf("%s: %t", name, got)
		}
	}
}
