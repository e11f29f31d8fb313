package nodepressure

import "strings"

// mostGlass is how long the value of an annotation that breaks the glass can be. What is longer is not an agent's.
const mostGlass = 1024

func glassPrefix(node string) string { return Requester + "/agent on node " + node + ": " }

// GlassOf is the value under which the agent of a node breaks the glass of a pod. It names the agent and its node, so that
// what it has left is distinguished from what a person wrote.
func GlassOf(node, why string) string {
	value := glassPrefix(node) + why
	if len(value) > mostGlass {
		value = strings.ToValidUTF8(value[:mostGlass], "")
	}
	return value
}

// IsGlassOf reports whether a value is one of the agent of that node. A user who may annotate the pod can write it as well:
// it is good for taking the annotation back, and for nothing else.
func IsGlassOf(node, value string) bool {
	return len(value) <= mostGlass && strings.HasPrefix(value, glassPrefix(node))
}
