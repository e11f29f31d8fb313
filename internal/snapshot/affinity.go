package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// affinityTerm is a term of a required node affinity, in parts all of which a node must match. A term without parts matches none.
type affinityTerm []*nodeaffinity.LazyErrorNodeSelector

// expressionsAtOnce is how many expressions of a term are read together: what that costs grows with the square of their number.
const expressionsAtOnce = 16

// termsOf reads the terms of a node affinity, nil where there is none.
func termsOf(affinity *corev1.NodeSelector) []affinityTerm {
	if affinity == nil {
		return nil
	}
	terms := make([]affinityTerm, 0, len(affinity.NodeSelectorTerms))
	for i := range affinity.NodeSelectorTerms {
		terms = append(terms, termOf(&affinity.NodeSelectorTerms[i]))
	}
	return terms
}

func termOf(of *corev1.NodeSelectorTerm) affinityTerm {
	var term affinityTerm
	add := func(part corev1.NodeSelectorTerm) {
		term = append(term, nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{part}}))
	}
	if len(of.MatchFields) > 0 {
		add(corev1.NodeSelectorTerm{MatchFields: of.MatchFields})
	}
	for some := range slices.Chunk(of.MatchExpressions, expressionsAtOnce) {
		add(corev1.NodeSelectorTerm{MatchExpressions: some})
	}
	return term
}

// matches reports whether the term names the node. One that cannot be read names none, as the scheduler has it.
func (t affinityTerm) matches(node *corev1.Node) bool {
	return len(t) > 0 && !slices.ContainsFunc(t, func(part *nodeaffinity.LazyErrorNodeSelector) bool {
		found, err := part.Match(node)
		return err != nil || !found
	})
}
