package etcd

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// joins says why a member that starts from this template with an empty disk would not join the cluster: etcd would bootstrap a new one, and
// ends as its id there is one that has left. The statement may stand in the arguments, in a script among them, or in the environment; a
// configuration file cannot be read, and etcd that has one ignores the variable, which then states what the file says.
func joins(pod *corev1.PodSpec) (refusal, remedy string) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		for _, v := range c.Env {
			if v.Name == "ETCD_INITIAL_CLUSTER_STATE" && v.Value == "existing" {
				return "", ""
			}
		}
		given := strings.Join(append(append([]string{}, c.Command...), c.Args...), " ")
		given = strings.NewReplacer("=", " ", `"`, " ", "'", " ").Replace(given)
		if strings.Contains(strings.Join(strings.Fields(given), " ")+" ", "-initial-cluster-state existing ") {
			return "", ""
		}
	}
	return "its StatefulSet's template does not have etcd join an existing cluster: with an empty disk it would bootstrap a new one, and end",
		"set --initial-cluster-state=existing in the template, or the variable ETCD_INITIAL_CLUSTER_STATE=existing where a script or a configuration file does"
}
