package etcd

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a template says must not have etcd ignore what Usher tells it.
func TestOverrides(t *testing.T) {
	for name, test := range map[string]struct {
		command, args []string
		env           string
		want          string // what is refused; "": nothing
	}{
		"nothing of it":           {command: []string{"etcd", "--data-dir=/data", "--peer-cert-file", "x", "--listen-metrics-urls=http://0.0.0.0:2381"}},
		"a word without dashes":   {command: []string{"etcd", "name", "initial-cluster=a"}},
		"its name":                {command: []string{"etcd", "--name=a"}, want: "--name"},
		"with one dash":           {args: []string{"-initial-cluster", "a=b"}, want: "--initial-cluster"},
		"as an argument":          {args: []string{"--initial-cluster-state", "new"}, want: "--initial-cluster-state"},
		"its token":               {args: []string{"--initial-cluster-token=t"}, want: "--initial-cluster-token"},
		"peers":                   {args: []string{"--initial-advertise-peer-urls=u"}, want: "--initial-advertise-peer-urls"},
		"clients":                 {args: []string{"--advertise-client-urls=u"}, want: "--advertise-client-urls"},
		"listens for peers":       {args: []string{"--listen-peer-urls=u"}, want: "--listen-peer-urls"},
		"listens for clients":     {args: []string{"--listen-client-urls=u"}, want: "--listen-client-urls"},
		"a cluster of its own":    {args: []string{"--force-new-cluster"}, want: "--force-new-cluster"},
		"a configuration file":    {args: []string{"--config-file=/etc/etcd"}, want: "--config-file"},
		"discovery":               {args: []string{"--discovery-srv=example.com"}, want: "--discovery-srv"},
		"a script":                {command: []string{"sh", "-c", "exec etcd --name=\"$HOSTNAME\"; true"}, want: "--name"},
		"the variable of a file":  {env: "ETCD_CONFIG_FILE", want: "ETCD_CONFIG_FILE"},
		"the variable of force":   {env: "ETCD_FORCE_NEW_CLUSTER", want: "ETCD_FORCE_NEW_CLUSTER"},
		"a variable of discovery": {env: "ETCD_DISCOVERY_SRV", want: "ETCD_DISCOVERY_SRV"},
		"another variable":        {env: "ETCD_QUOTA_BACKEND_BYTES"},
	} {
		t.Run(name, func(t *testing.T) {
			c := corev1.Container{Name: "etcd", Command: test.command, Args: test.args}
			if test.env != "" {
				c.Env = []corev1.EnvVar{{Name: test.env}}
			}
			want := ""
			if test.want != "" {
				want = "container etcd: " + test.want + " is not for the template to say: Usher tells each member where it belongs"
			}
			plain := corev1.Container{Name: "first"}
			for place, pod := range map[string]*corev1.PodSpec{
				"a container": {Containers: []corev1.Container{plain, c}}, "an init container": {InitContainers: []corev1.Container{c}, Containers: []corev1.Container{plain}},
			} {
				got := ""
				if err := overrides(pod); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("of %s: %q, want %q", place, got, want)
				}
			}
		})
	}
}

// What a container takes from a ConfigMap as a whole is not known: it is refused unless its prefix keeps it apart from etcd's variables.
func TestOverridesByEnvFrom(t *testing.T) {
	for prefix, refused := range map[string]bool{"": true, "E": true, "ETCD_": true, "ETCD_FORCE_": true, "APP_": false, "ETCDCTL_": false} {
		c := corev1.Container{Name: "etcd", EnvFrom: []corev1.EnvFromSource{{Prefix: prefix}}}
		if err := overrides(&corev1.PodSpec{Containers: []corev1.Container{c}}); (err != nil) != refused {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
