package realetcd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// plainName is a StatefulSet with local volumes that no policy governs.
const plainName = "plain"

// startLocalEtcd returns when all members are ready, each with a volume on its node alone, and a plain StatefulSet with a pod on every node
// beside them. A pod that starts from now on joins an existing cluster.
func startLocalEtcd(t *testing.T, l *testlab.Lab, nodes []*realnode.Node) *etcd {
	t.Helper()
	e := &etcd{lab: l, namespace: l.Namespace(t)}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if _, err := l.Client().StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Client().StorageV1().StorageClasses().Delete(context.WithoutCancel(t.Context()), class.Name, metav1.DeleteOptions{})
	})
	for _, node := range nodes {
		e.localVolume(t, node.Name, name)
		e.localVolume(t, node.Name, plainName)
	}
	for i := range size {
		e.addresses[i] = e.makeService(t, i)
	}
	configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: e.configs(t, "new")}
	if _, err := l.Client().CoreV1().ConfigMaps(e.namespace).Create(t.Context(), configs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.localSet(t, name, size, e.localPod(t))
	e.localSet(t, plainName, int32(len(nodes)), testlab.RealPod(t))
	l.WaitReady(t, e.namespace, testlab.Labels(name), size)
	l.WaitReady(t, e.namespace, testlab.Labels(plainName), len(nodes))
	configs.Data = e.configs(t, "existing")
	if _, err := l.Client().CoreV1().ConfigMaps(e.namespace).Update(t.Context(), configs, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *etcd) localSet(t *testing.T, name string, replicas int32, pod corev1.PodSpec) {
	t.Helper()
	e.lab.StatefulSet(t, e.namespace, name, replicas, func(s *appsv1.StatefulSet) {
		claim := testlab.Claim("data")
		claim.Spec.StorageClassName = &e.namespace
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*claim}
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.Spec.Template.Spec = pod
		s.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: testlab.Labels(name)},
			}},
		}}
	})
}

// localVolume makes a folder of the machine the volume of one node, which would be deleted with its claim.
func (e *etcd) localVolume(t *testing.T, node, what string) {
	t.Helper()
	create := corev1.HostPathDirectoryOrCreate
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace + "-" + what + "-" + node, Labels: map[string]string{"for": what}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			StorageClassName:              e.namespace,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: e.folder(node, what), Type: &create,
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	volumes := e.lab.Client().CoreV1().PersistentVolumes()
	if _, err := volumes.Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = volumes.Delete(context.WithoutCancel(t.Context()), volume.Name, metav1.DeleteOptions{})
	})
}

// folder is where the volume of a node is.
func (e *etcd) folder(node, what string) string {
	return filepath.Join(e.lab.Cluster().Dir, "volumes", e.namespace, what+"-"+node)
}

// configs are what etcd's --config-file reads, by member.
func (e *etcd) configs(t *testing.T, state string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range size {
		all[member(i)] = e.configOf(t, i, size, e.addresses[i], state)
	}
	return all
}

// configOf is that of a member among the first ones.
func (e *etcd) configOf(t *testing.T, i, first int, address, state string) string {
	t.Helper()
	var peers []string
	for j := range first {
		peers = append(peers, member(j)+"="+e.peerURL(j))
	}
	text, err := yaml.Marshal(map[string]any{
		"name":                        member(i),
		"data-dir":                    "/data/etcd",
		"listen-client-urls":          fmt.Sprintf("http://0.0.0.0:%d", clientPort),
		"advertise-client-urls":       fmt.Sprintf("http://%s:%d", address, clientPort),
		"listen-peer-urls":            fmt.Sprintf("http://0.0.0.0:%d", peerPort),
		"initial-advertise-peer-urls": e.peerURL(i),
		"initial-cluster":             strings.Join(peers, ","),
		"initial-cluster-state":       state,
		"unsafe-no-fsync":             !*fsync,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// peerURL names the member, as the cluster's DNS would; there is none, and a pod has the names in its /etc/hosts.
func (e *etcd) peerURL(i int) string { return fmt.Sprintf("http://%s:%d", e.hostname(i), peerPort) }

func (e *etcd) hostname(i int) string { return member(i) + "." + e.namespace + ".svc" }

func (e *etcd) localPod(t *testing.T) corev1.PodSpec {
	t.Helper()
	spec := e.pod(t)
	c := &spec.Containers[0]
	c.Command = []string{"/etcd", "--config-file=/config/$(POD_NAME)"}
	c.Env = []corev1.EnvVar{
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "ETCD_INITIAL_CLUSTER_STATE", Value: "existing"}, // what the file says, which alone counts
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/config"})
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
	}})
	for i := range size {
		spec.HostAliases = append(spec.HostAliases, corev1.HostAlias{IP: e.addresses[i], Hostnames: []string{e.hostname(i)}})
	}
	return spec
}
