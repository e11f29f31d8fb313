package notices

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

const (
	etcd       = "etcd"
	members    = 3
	clientPort = 2379
	peerPort   = 2380
)

func member(i int) string { return fmt.Sprintf("%s-%d", etcd, i) }

// startEtcd starts an etcd of three members that a policy governs, and returns the addresses at which clients reach each. Volumes are there on all
// nodes, which are all on this machine.
func (r *rig) startEtcd(t *testing.T) (endpoints []string) {
	t.Helper()
	var addresses [members]string
	for i := range members {
		addresses[i] = r.MemberService(t, r.namespace, member(i), corev1.ServicePort{Name: "client", Port: clientPort}, corev1.ServicePort{Name: "peer", Port: peerPort})
		endpoints = append(endpoints, fmt.Sprintf("http://%s:%d", addresses[i], clientPort))
		r.FolderVolume(t, r.namespace, "data-"+member(i), filepath.Join(r.Cluster().Dir, "volumes", r.namespace, member(i)))
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: memberConfigs(t, addresses)}
	if _, err := r.Client().CoreV1().ConfigMaps(r.namespace).Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.StatefulSet(t, r.namespace, etcd, members, func(s *appsv1.StatefulSet) {
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
		s.Spec.Template.Spec = memberPod(t)
		s.Spec.Template.Spec.Affinity = apart(etcd)
	})
	r.WaitReady(t, r.namespace, testlab.Labels(etcd), members)
	kubectl := r.Binary(t, "kubectl")
	r.mustGiven(t, fmt.Sprintf(policy, r.namespace, strings.Join(endpoints, `", "`)), kubectl, "apply", "-f", "-")
	r.must(t, kubectl, "-n", r.namespace, "wait", "--for=condition=Ready", "--timeout=5m", "evictionpolicy/etcd")
	t.Cleanup(func() { r.release(t) })
	return endpoints
}

// release deletes the policy. Until its label is off them, members may not go.
func (r *rig) release(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	r.must(t, r.Binary(t, "kubectl"), "-n", r.namespace, "delete", "evictionpolicy", "etcd", "--timeout=5m")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := await.Until(ctx, r.Pods(r.namespace), func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Labels[v1alpha1.PolicyLabel] != "" })
	})
	if err != nil {
		t.Errorf("members are still governed by a policy that is deleted: %v", err)
	}
}

const policy = `
apiVersion: usher.sh/v1alpha1
kind: EvictionPolicy
metadata: {name: etcd, namespace: %s}
spec:
  system: {etcd: {endpoints: ["%s"]}}
  members:
  - role: etcd-member
    selector: {matchLabels: {app: etcd}}
    provider: {statefulSet: {}}
`

// memberConfigs are what etcd's --config-file reads, by member.
func memberConfigs(t *testing.T, addresses [members]string) map[string]string {
	t.Helper()
	url := func(i, port int) string { return fmt.Sprintf("http://%s:%d", addresses[i], port) }
	var peers []string
	for i := range members {
		peers = append(peers, member(i)+"="+url(i, peerPort))
	}
	all := map[string]string{}
	for i := range members {
		text, err := yaml.Marshal(map[string]any{
			"name":                        member(i),
			"data-dir":                    "/data/etcd",
			"listen-client-urls":          fmt.Sprintf("http://0.0.0.0:%d", clientPort),
			"advertise-client-urls":       url(i, clientPort),
			"listen-peer-urls":            fmt.Sprintf("http://0.0.0.0:%d", peerPort),
			"initial-advertise-peer-urls": url(i, peerPort),
			"initial-cluster":             strings.Join(peers, ","),
			// Processes end here, and never the machine: what is not on its disk yet is not lost.
			"unsafe-no-fsync": true,
		})
		if err != nil {
			t.Fatal(err)
		}
		all[member(i)] = string(text)
	}
	return all
}

func memberPod(t *testing.T) corev1.PodSpec {
	t.Helper()
	spec := testlab.RealPod(t)
	links := false
	spec.EnableServiceLinks = &links // etcd reads every variable that begins with ETCD_
	c := &spec.Containers[0]
	c.Name, c.Command = etcd, []string{"/etcd", "--config-file=/config/$(POD_NAME)"}
	c.Env = []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/config"}}
	c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port = "/readyz", intstr.FromInt32(clientPort)
	spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
	}}}
	return spec
}

// apart keeps the pods of a workload on different nodes, as far as there are others.
func apart(name string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: testlab.Labels(name)},
		}}},
	}}
}

func etcdClient(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
