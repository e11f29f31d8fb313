package arangodb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		pod  corev1.Container
		want bool
	}{
		"an argument":         {corev1.Container{Args: []string{"--agency.activate=true", "--agency.disaster-recovery-id=$(POD_NAME)"}}, true},
		"two arguments":       {corev1.Container{Command: []string{"arangod", "--agency.disaster-recovery-id", "AGNT-a"}}, true},
		"a script":            {corev1.Container{Command: []string{"sh", "-c", `exec arangod --agency.disaster-recovery-id "$ID"`}}, true},
		"nothing":             {corev1.Container{Args: []string{"--agency.activate=true"}}, false},
		"a file, perhaps":     {corev1.Container{Args: []string{"--config=/etc/agent.conf"}}, false},
		"a variable of sorts": {corev1.Container{Env: []corev1.EnvVar{{Name: "ID", Value: "AGNT-a"}}}, false},
	} {
		refusal, remedy := Kind().Keeps(&corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, c.pod}})
		if got := refusal == ""; got != c.want || (refusal == "") != (remedy == "") {
			t.Errorf("%s: %q, %q", name, refusal, remedy)
		}
	}
}
