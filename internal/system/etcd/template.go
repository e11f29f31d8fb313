package etcd

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// refuses says why a member that starts from this template with an empty disk would not join the cluster: etcd would bootstrap a new one, and
// ends as its id there is one that has left. The statement may stand in the arguments, in a script among them, or in the environment, after
// which arguments go; a configuration file cannot be read, and etcd that has one ignores the variable, which then states what the file says.
func refuses(pod *corev1.PodSpec) (refusal, remedy string) {
	var states []string
	for i := range pod.Containers {
		states = append(states, initialState(&pod.Containers[i]))
	}
	if slices.Contains(states, existing) && !slices.ContainsFunc(states, func(s string) bool { return s != "" && s != existing }) {
		return "", ""
	}
	return "its StatefulSet's template does not have etcd join an existing cluster: with an empty disk it would bootstrap a new one, and end",
		"set --initial-cluster-state=existing in the template, or the variable ETCD_INITIAL_CLUSTER_STATE=existing where a script or a configuration file does"
}

const existing = "existing"

// initialState is the state of the cluster that a container gives etcd; "": none. The last argument counts.
func initialState(c *corev1.Container) (state string) {
	for _, v := range c.Env {
		if v.Name == "ETCD_INITIAL_CLUSTER_STATE" {
			state = v.Value
		}
	}
	given := strings.Join(append(slices.Clone(c.Command), c.Args...), " ")
	words := strings.Fields(strings.NewReplacer("=", " ", `"`, " ", "'", " ").Replace(given))
	for i, word := range words[:max(0, len(words)-1)] {
		if strings.TrimLeft(word, "-") == "initial-cluster-state" && strings.HasPrefix(word, "-") {
			state = words[i+1]
		}
	}
	return state
}
