package machine

import (
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/config"
)

// TestThePodOfTheAgentSeesWhatIsRead: what is not mounted is empty there, and reading it is no error.
func TestThePodOfTheAgentSeesWhatIsRead(t *testing.T) {
	text, err := config.Files.ReadFile(path.Join(config.Agent, "daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]string{}
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.HostPath != nil {
			hosts[v.Name] = v.HostPath.Path
		}
	}
	for _, read := range append([]string{defaultKubeletDir, logDir, "/sys/fs/cgroup"}, imageDirs...) {
		seen := slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return hosts[m.Name] == m.MountPath && strings.HasPrefix(read+"/", m.MountPath+"/")
		})
		if !seen {
			t.Errorf("%s of the host is read, and is not mounted where it is read", read)
		}
	}
}
