package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// zones selects nodes by their zone: each of the terms is one zone.
func zones(names ...string) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for _, name := range names {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}})
	}
	return s
}

func inZone(name string) *Node {
	return &Node{Name: "n", Ready: true, Labels: map[string]string{corev1.LabelTopologyZone: name}}
}

func TestWithVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		claim    Claim
		volume   *Volume
		affinity *corev1.NodeSelector
		same     bool
		in       []string // of the zones a, b and c
	}{
		"a volume of a zone":             {Claim{Volume: "v"}, &Volume{Affinity: zones("a")}, nil, false, []string{"a"}},
		"… of two":                       {Claim{Volume: "v"}, &Volume{Affinity: zones("a", "b")}, nil, false, []string{"a", "b"}},
		"… and the pod's own":            {Claim{Volume: "v"}, &Volume{Affinity: zones("a", "b")}, zones("b", "c"), false, []string{"b"}},
		"… which select none":            {Claim{Volume: "v"}, &Volume{Affinity: zones("a")}, zones("c"), false, nil},
		"… with an empty term":           {Claim{Volume: "v"}, &Volume{Affinity: zones("a")}, &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}, false, nil},
		"… with too many terms":          {Claim{Volume: "v"}, &Volume{Affinity: zones("a", "b", "c")}, zones(make([]string, mostTerms)...), true, nil},
		"a volume of every node":         {Claim{Volume: "v"}, &Volume{}, nil, true, []string{"a", "b", "c"}},
		"one that was not read":          {Claim{Volume: "v"}, nil, nil, true, []string{"a", "b", "c"}},
		"a claim that goes with it":      {Claim{Volume: "v", OfPod: true}, &Volume{Affinity: zones("a")}, nil, true, []string{"a", "b", "c"}},
		"a claim that is not bound":      {Claim{}, &Volume{Affinity: zones("a")}, nil, true, []string{"a", "b", "c"}},
		"a claim of another pod's":       {Claim{Name: "other", Volume: "v"}, &Volume{Affinity: zones("a")}, nil, true, []string{"a", "b", "c"}},
		"a claim of another's namespace": {Claim{Namespace: "other", Volume: "v"}, &Volume{Affinity: zones("a")}, nil, true, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := NewCluster()
			if c.claim.Name == "" {
				c.claim.Name = "data"
			}
			if c.claim.Namespace == "" {
				c.claim.Namespace = "shop"
			}
			cluster.SetClaim(&c.claim)
			if c.volume != nil {
				c.volume.Name = "v"
				cluster.SetVolume(c.volume)
			}
			p := &Pod{Namespace: "shop", Claims: []string{"data"}, NodeAffinity: c.affinity}
			asking := cluster.WithVolumes(p)
			if (asking == p) != c.same {
				t.Errorf("the pod itself: %t", asking == p)
			}
			placement := PlacementOf(asking)
			var in []string
			for _, zone := range []string{"a", "b", "c"} {
				if placement.Refusal(inZone(zone)) == "" {
					in = append(in, zone)
				}
			}
			if len(in) != len(c.in) || len(in) > 0 && (in[0] != c.in[0] || in[len(in)-1] != c.in[len(in)-1]) {
				t.Errorf("in %v, want %v", in, c.in)
			}
		})
	}
}

// Both select what each selects, and nothing else.
func TestPropertyBoth(t *testing.T) {
	some := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		a, b := zones(some.Draw(t, "a")...), zones(some.Draw(t, "b")...)
		of := func(affinity *corev1.NodeSelector, zone string) bool {
			placement := PlacementOf(&Pod{NodeAffinity: affinity})
			return placement.Refusal(inZone(zone)) == ""
		}
		for _, zone := range []string{"a", "b", "c", "d", "e"} {
			if got, want := of(both(a, b), zone), of(a, zone) && of(b, zone); got != want {
				t.Fatalf("zone %s: %t, want %t", zone, got, want)
			}
		}
	})
}

func TestOnAlone(t *testing.T) {
	n := &Node{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host-1"}}
	of := func(values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		"by its hostname":      {[]corev1.NodeSelectorTerm{term(of("host-1"))}, true},
		"by its name":          {[]corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{of("n1")}}}, true},
		"beside a zone":        {[]corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}, of("n1"))}, true},
		"another node's":       {[]corev1.NodeSelectorTerm{term(of("n2"))}, false},
		"of two nodes":         {[]corev1.NodeSelectorTerm{term(of("n1", "n2"))}, false},
		"of two, in two terms": {[]corev1.NodeSelectorTerm{term(of("n1")), term(of("n2"))}, false},
		"of a zone":            {zones("a").NodeSelectorTerms, false},
		"of none":              {nil, false},
	} {
		v := Volume{Affinity: &corev1.NodeSelector{NodeSelectorTerms: c.terms}}
		if got := v.OnAlone(n); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if v := (&Volume{}); v.OnAlone(n) {
		t.Error("a volume of every node is on one alone")
	}
}
