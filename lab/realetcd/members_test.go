package realetcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/lab/testlab"
)

const (
	size   = 3
	quorum = 2

	name       = "etcd"
	clientPort = 2379
	peerPort   = 2380
	config     = "etcd.yaml"
)

// etcd is a cluster of three members in a StatefulSet. Each has an address of its own that stays, that of a Service, and
// a volume that is there on whatever node its pod is. Its configuration is in a file of that volume: addresses are the
// apiserver's to give, and all pods of a StatefulSet have the same arguments.
type etcd struct {
	lab       *testlab.Lab
	namespace string
	addresses [size]string
}

// startEtcd returns when all members are ready.
func startEtcd(t *testing.T, l *testlab.Lab, spread corev1.Affinity) *etcd {
	t.Helper()
	e := &etcd{lab: l, namespace: l.Namespace(t)}
	for i := range size {
		e.addresses[i] = e.makeService(t, i)
	}
	for i := range size {
		// Of the lab, not of the test: pods write there until their nodes have ended them, some time after the test.
		folder := filepath.Join(l.Cluster().Dir, "volumes", e.namespace, member(i))
		e.lab.FolderVolume(t, e.namespace, "data-"+member(i), folder)
		e.configure(t, i, folder)
	}
	l.StatefulSet(t, e.namespace, name, size, func(s *appsv1.StatefulSet) {
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
		s.Spec.Template.Spec = e.pod(t)
		s.Spec.Template.Spec.Affinity = &spread
	})
	l.WaitReady(t, e.namespace, testlab.Labels(name), size)
	return e
}

func (e *etcd) url(i, port int) string { return fmt.Sprintf("http://%s:%d", e.addresses[i], port) }

func (e *etcd) endpoints() []string {
	var all []string
	for i := range size {
		all = append(all, e.url(i, clientPort))
	}
	return all
}

func member(i int) string { return fmt.Sprintf("%s-%d", name, i) }

func (e *etcd) makeService(t *testing.T, i int) string {
	t.Helper()
	return e.lab.MemberService(t, e.namespace, member(i), corev1.ServicePort{Name: "client", Port: clientPort}, corev1.ServicePort{Name: "peer", Port: peerPort})
}

// configure writes what etcd's --config-file reads.
func (e *etcd) configure(t *testing.T, i int, folder string) {
	t.Helper()
	var peers []string
	for j := range size {
		peers = append(peers, member(j)+"="+e.url(j, peerPort))
	}
	text, err := yaml.Marshal(map[string]any{
		"name":                        member(i),
		"data-dir":                    "/data/etcd",
		"log-outputs":                 []string{"/data/etcd.log"},
		"listen-client-urls":          fmt.Sprintf("http://0.0.0.0:%d", clientPort),
		"advertise-client-urls":       e.url(i, clientPort),
		"listen-peer-urls":            fmt.Sprintf("http://0.0.0.0:%d", peerPort),
		"initial-advertise-peer-urls": e.url(i, peerPort),
		"initial-cluster":             strings.Join(peers, ","),
		"unsafe-no-fsync":             !*fsync,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, config), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (e *etcd) pod(t *testing.T) corev1.PodSpec {
	t.Helper()
	spec := testlab.RealPod(t)
	links := false
	spec.EnableServiceLinks = &links // etcd reads every variable that begins with ETCD_
	c := &spec.Containers[0]
	c.Name = name
	c.Command = []string{"/etcd", "--config-file=/data/" + config}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port = "/readyz", intstr.FromInt32(clientPort)
	c.ReadinessProbe.TimeoutSeconds = 2
	return spec
}

// makeBudget lets one member be away at a time.
func (e *etcd) makeBudget(t *testing.T) {
	t.Helper()
	e.lab.MaxUnavailable(t, e.namespace, name, "1")
	e.lab.WaitBudget(t, e.namespace, name, size)
}

// apart keeps two members off one node: required leaves a drained member without a place until its node is back.
func apart(required bool) corev1.Affinity {
	term := corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: testlab.Labels(name)},
	}
	if required {
		return corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	}
	return corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}},
	}}
}
