package realfdb

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

const (
	setName          = "fdb"
	managerNamespace = "usher-system"
)

// database is a MemberSet of FoundationDB.
type database struct {
	lab       *testlab.Lab
	nodes     []*realnode.Node
	namespace string
	fdbcli    string
	program   string         // usher
	own       rest.Interface // of Usher's objects
	writer    *writer
}

var setObjects = template.Must(template.New("set").Parse(`
apiVersion: usher.sh/v1alpha1
kind: MemberSet
metadata: {name: fdb}
spec:
  system:
    foundationdb:
      clusterFile: {configMap: {name: fdb-config, key: cluster-file}}
      version: 7.3.79
      redundancy: double
      waits: {excludeAfterRecovery: 5s, includeAfterRecovery: 10s, missing: 2m}
  evidence: {timeout: 30s, maxAge: 60s}
  faultDomainKey: kubernetes.io/hostname
  removal: {minInterval: 5s}
  updateStrategy: {recreate: {maintenance: Managed}}
  groups:
{{- range .Groups}}
  - name: {{.Name}}
    role: foundationdb-{{.Name}}
    addressFrom: {{$.AddressFrom}}
    replicas: {{.Replicas}}
    template: {metadata: {labels: {app: fdb, class: {{.Name}}}}, spec: {{.Pod}}}
    volumeClaimTemplates:
    - {name: data, spec: {accessModes: [ReadWriteOnce], storageClassName: {{$.Class}}, resources: {requests: {storage: 1Gi}}}}
{{- end}}
`))

type group struct {
	Name     string
	Replicas int
	Pod      string
}

// start is the shell line of the documentation, with little memory, and without the profiler of slow tasks: a signal of it that meets an exception stops fdbserver
// for good (apple/foundationdb#14022), which takes a machine as busy as this one.
const start = `until [ -s /var/fdb/config/cluster-file ]; do sleep 1; done
[ -s /var/fdb/cluster/fdb.cluster ] || cp /var/fdb/config/cluster-file /var/fdb/cluster/fdb.cluster
{ echo "$FDB_MONITOR_CONF"; echo "memory = 1GiB"; echo "cache-memory = 32MiB"; echo "knob_run_loop_profiling_interval = 86400"; } > /var/fdb/cluster/fdbmonitor.conf
exec /usr/bin/fdbmonitor --conffile /var/fdb/cluster/fdbmonitor.conf --lockfile /var/fdb/cluster/fdbmonitor.lock`

// install runs managers that have fdbcli, and gives them the right to the cluster file.
func (d *database) install(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { d.usher(t, "uninstall") })
	d.usher(t, "install", "--member-sets", "--image", image.UsherName, "--fdbcli-image", otherImage, "--timeout", "10m")
	d.kubectl(t, "", "create", "rolebinding", "usher-cluster-files", "--clusterrole=usher-cluster-files", "--serviceaccount="+managerNamespace+":usher-manager")
	d.lab.LocalVolumes(t, d.namespace)
}

// apply makes the set.
func (d *database) apply(t *testing.T) {
	t.Helper()
	var text bytes.Buffer
	groups := []group{{"storage", storages, d.pod(t, "storage")}, {"log", logs, d.pod(t, "log")}}
	if err := setObjects.Execute(&text, map[string]any{"Groups": groups, "Class": d.namespace, "AddressFrom": *addressFrom}); err != nil {
		t.Fatal(err)
	}
	d.kubectl(t, text.String(), "apply", "-f", "-")
}

// pod is that of a member, of which there is one of its class on a node.
func (d *database) pod(t *testing.T, class string) string {
	t.Helper()
	spec := testlab.RealPod(t)
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fdb", "class": class}},
	}}}}
	spec.ShareProcessNamespace = new(true) // what fdbmonitor starts ends at once where that is process 1
	c := &spec.Containers[0]
	c.Name, c.Command, c.Args, c.ReadinessProbe = "foundationdb", []string{"/bin/sh", "-c"}, []string{start}, nil
	c.Env = []corev1.EnvVar{{Name: "PATH", Value: "/bin:/usr/bin"}}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "data", MountPath: "/var/fdb/data"},
		{Name: "log", MountPath: "/var/fdb/log"},
		{Name: "cluster", MountPath: "/var/fdb/cluster"},
		{Name: "config", MountPath: "/var/fdb/config"},
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	spec.Volumes = []corev1.Volume{{Name: "log", VolumeSource: empty}, {Name: "cluster", VolumeSource: empty}, {Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "fdb-config"}, Optional: new(true)},
	}}}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drop ends the set.
func (d *database) drop(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Log(d.kubectl(t, "", "get", "memberset,evictionpolicy,replacementrequest,pods,pvc,configmap", "-o", "wide"))
		t.Log(d.kubectl(t, "", "get", "memberset,replacementrequest,evictionpolicy", "-o", "yaml"))
		t.Log(d.kubectl(t, "", "logs", "-l", "app=fdb", "--tail=12", "--prefix"))
		t.Log(d.kubectl(t, "", "logs", "deployment/usher-manager", "-n", managerNamespace, "--tail=60"))
	}
	d.kubectl(t, "", "delete", "memberset", setName, "--timeout=5m")
}

func (d *database) usher(t *testing.T, args ...string) {
	t.Helper()
	run(t, exec.CommandContext(context.WithoutCancel(t.Context()), d.program, append([]string{"--kubeconfig", d.lab.Kubeconfig()}, args...)...))
}

func (d *database) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	args = append([]string{"--kubeconfig", d.lab.Kubeconfig(), "-n", d.namespace}, args...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), d.lab.Binary(t, "kubectl"), args...)
	cmd.Stdin = strings.NewReader(input)
	return run(t, cmd)
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
