package arangodb

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// idOption gives an agent its id where its disk has none. ArangoDB's operator sets it as well.
const idOption = "--agency.disaster-recovery-id"

// keeps says why an agent that starts from this template with an empty disk would not be the one that the others know: it makes up an id, which is not
// in their pool. Agents are the only members whose successors have the same identity. The option may stand in the arguments or in a script among them;
// a configuration file cannot be read.
func keeps(pod *corev1.PodSpec) (refusal, remedy string) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(word string) bool { return strings.Contains(word, idOption) }) {
			return "", ""
		}
	}
	return "its StatefulSet's template does not give the agent its id: with an empty disk it would make up another one, which the other agents do not know",
		"set " + idOption + " in the template to the id that the agent has in GET /_api/agency/config; where that is the pod's name: " + idOption + "=$(POD_NAME)"
}
