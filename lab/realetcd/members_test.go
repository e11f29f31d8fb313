package realetcd

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/lab/testlab"
)

const (
	size   = 3
	quorum = 2

	name       = "etcd"
	clientPort = 2379
	peerPort   = 2380
)

// etcd is a cluster of three members in a StatefulSet. Each has an address of its own that stays, that of a Service, and
// a volume that is there on whatever node its pod is.
type etcd struct {
	lab       *testlab.Lab
	namespace string
	addresses [size]netip.Addr
}

// startEtcd returns when all members are ready. nth tells the clusters of one lab apart.
func startEtcd(t *testing.T, l *testlab.Lab, nth int, spread corev1.Affinity) *etcd {
	t.Helper()
	e := &etcd{lab: l, namespace: l.Namespace(t), addresses: addresses(l.Cluster().Services(), nth)}
	for i := range size {
		e.makeService(t, i)
		e.makeVolume(t, i)
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

// addresses end in 0, 1 and 2, so that a member's is that of the first with the last digit replaced by its index: a pod
// knows its index, and nothing in the image can count.
func addresses(services netip.Prefix, nth int) (found [size]netip.Addr) {
	first := services.Addr().As4()
	first[3] = (first[3]/10 + byte(3+nth)) * 10
	for i := range found {
		found[i] = netip.AddrFrom4(first)
		first[3]++
	}
	return found
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

func (e *etcd) makeService(t *testing.T, i int) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: member(i)},
		Spec: corev1.ServiceSpec{
			ClusterIP: e.addresses[i].String(),
			Selector:  map[string]string{appsv1.StatefulSetPodNameLabel: member(i)},
			Ports: []corev1.ServicePort{
				{Name: "client", Port: clientPort, TargetPort: intstr.FromInt32(clientPort)},
				{Name: "peer", Port: peerPort, TargetPort: intstr.FromInt32(peerPort)},
			},
			// Members have to find each other to become ready.
			PublishNotReadyAddresses: true,
		},
	}
	if _, err := e.lab.Client().CoreV1().Services(e.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// makeVolume makes a folder of the machine a volume for the member, on all nodes: they are all on this machine.
func (e *etcd) makeVolume(t *testing.T, i int) {
	t.Helper()
	create := corev1.HostPathDirectoryOrCreate
	claim := "data-" + member(i)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: e.namespace, Name: claim},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(t.TempDir(), claim), Type: &create},
			},
		},
	}
	volumes := e.lab.Client().CoreV1().PersistentVolumes()
	if _, err := volumes.Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := volumes.Delete(context.WithoutCancel(t.Context()), volume.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting a volume: %v", err)
		}
	})
}

func (e *etcd) pod(t *testing.T) corev1.PodSpec {
	t.Helper()
	spec := testlab.RealPod(t)
	links := false
	spec.EnableServiceLinks = &links // etcd reads every variable that begins with ETCD_
	own := strings.TrimSuffix(e.addresses[0].String(), "0") + "$(INDEX)"
	var peers []string
	for i := range size {
		peers = append(peers, member(i)+"="+e.url(i, peerPort))
	}
	c := &spec.Containers[0]
	c.Name = name
	c.Env = []corev1.EnvVar{field("NAME", "metadata.name"), field("INDEX", "metadata.labels['"+appsv1.PodIndexLabel+"']")}
	c.Command = []string{
		"/etcd", "--name=$(NAME)", "--data-dir=/data/etcd", "--log-outputs=/data/etcd.log",
		fmt.Sprintf("--listen-client-urls=http://0.0.0.0:%d", clientPort),
		fmt.Sprintf("--advertise-client-urls=http://%s:%d", own, clientPort),
		fmt.Sprintf("--listen-peer-urls=http://0.0.0.0:%d", peerPort),
		fmt.Sprintf("--initial-advertise-peer-urls=http://%s:%d", own, peerPort),
		"--initial-cluster=" + strings.Join(peers, ","),
	}
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

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
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
