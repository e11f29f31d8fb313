package lostnode

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// realNodes: the kubelets of two real nodes stand still, while an etcd on each still serves. One node is turned off by its BMC, and its
// etcd goes on elsewhere with its data. The BMC of the other one does nothing: its etcd stays where it is, and goes on serving.
func (r *rig) realNodes(t *testing.T) {
	t.Parallel()
	etcd := image.File{From: r.Binary(t, "etcd"), To: "/etcd"}
	nodes := r.StartRealNodes(t, join.Options{Count: 3, Zones: []string{"zone-g", "zone-h", "zone-i"}, Files: []image.File{etcd}})
	lost, kept, spare := nodes[0], nodes[1], nodes[2]
	moves, stays := r.startEtcd(t, lost, spare), r.startEtcd(t, kept, spare)
	r.power.controls(lost)
	r.power.controls(kept)
	r.power.keepOn(kept.Name)
	tainted := r.watchTaint(t, lost.Name)
	for name, node := range map[string]*realnode.Node{"obeys": lost, "does-nothing": kept} {
		r.policy(t, name, metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: node.Name}})
		stopKubelet(t, node)
	}
	began := time.Now()
	r.realNodeIsCleared(t, lost, spare, moves, tainted)
	t.Logf("the etcd of a real node is up on another one, with its data, %s after the kubelet stood still", time.Since(began).Round(time.Second))

	fence := r.step(t, kept.Name, v1alpha1.FenceWaitingForProof, stalled)
	still, err := r.Client().CoreV1().Pods(stays.ns).Get(t.Context(), stays.pod.Name, metav1.GetOptions{})
	must(t, err)
	if still.UID != stays.pod.UID || outOfService(r.node(t, kept.Name)) != "" {
		t.Errorf("without the proof the pod is another one, or the node tainted; %s", conditionOf(fence))
	}
	if got := read(t, stays.pod); got != kept.Name {
		t.Errorf("the etcd whose kubelet stands still says %q", got)
	}
}

func (r *rig) realNodeIsCleared(t *testing.T, lost, spare *realnode.Node, etcd database, tainted func() time.Time) {
	t.Helper()
	fence := r.step(t, lost.Name, v1alpha1.FenceWaitingForNewBoot)
	if n := r.power.requests(lost.Name); n != 1 || fence.Status.RequestResult != v1alpha1.RequestAccepted {
		t.Errorf("%d requests, the last %s", n, fence.Status.RequestResult)
	}
	if off := r.power.offSince(lost.Name); off.IsZero() || tainted().Before(off) {
		t.Errorf("tainted at %s, its processes had ended at %s", tainted(), off)
	}
	moved := r.WaitReady(t, etcd.ns, testlab.Labels("db"), 1)[0]
	if moved.UID == etcd.pod.UID || moved.Spec.NodeName != spare.Name {
		t.Errorf("the etcd is on %s", moved.Spec.NodeName)
	}
	if got := read(t, moved); got != lost.Name {
		t.Errorf("its data say %q", got)
	}
}

// database is an etcd of one member on a real node.
type database struct {
	ns  string
	pod *corev1.Pod
}

// startEtcd starts an etcd on a node, whose volume can follow it to another one. Its data are the node's name.
func (r *rig) startEtcd(t *testing.T, on, or *realnode.Node) database {
	t.Helper()
	ns := r.Namespace(t)
	r.folder(t, ns)
	r.StatefulSet(t, ns, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*testlab.Claim("data")}
		s.Spec.Template.Spec = etcdPod(t)
		s.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{hostname(on, or)}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: hostname(on)}},
		}}
	})
	pod := r.WaitReady(t, ns, testlab.Labels("db"), 1)[0]
	if pod.Spec.NodeName != on.Name {
		t.Fatalf("the etcd is on %s", pod.Spec.NodeName)
	}
	call(t, pod, "put", map[string]string{"key": encoded("node"), "value": encoded(on.Name)})
	return database{ns, pod}
}

func hostname(nodes ...*realnode.Node) corev1.NodeSelectorTerm {
	in := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn}
	for _, n := range nodes {
		in.Values = append(in.Values, n.Name)
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{in}}
}

// folder makes a folder of the machine the volume of the database, on all real nodes: they are all on this machine. It is the lab's: pods
// write there until their nodes have ended, some time after the test.
func (r *rig) folder(t *testing.T, ns string) {
	t.Helper()
	path, kind := filepath.Join(r.Cluster().Dir, "volumes", ns), corev1.HostPathDirectory
	must(t, os.MkdirAll(path, 0o700))
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: ns, Name: "data-db-0"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}},
		},
	}
	must(t, r.client.Create(t.Context(), volume))
	t.Cleanup(func() { _ = r.client.Delete(context.WithoutCancel(t.Context()), volume) })
}

const clientPort = 2379

func etcdPod(t *testing.T) corev1.PodSpec {
	t.Helper()
	spec := testlab.RealPod(t)
	links := false
	spec.EnableServiceLinks = &links // etcd reads every variable that begins with ETCD_
	c := &spec.Containers[0]
	c.Command = []string{
		"/etcd", "--data-dir=/data/etcd", "--unsafe-no-fsync", fmt.Sprintf("--listen-client-urls=http://0.0.0.0:%d", clientPort),
		fmt.Sprintf("--advertise-client-urls=http://127.0.0.1:%d", clientPort),
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port = "/readyz", intstr.FromInt32(clientPort)
	return spec
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// read returns what the data of an etcd are.
func read(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	var answer struct {
		KVs []struct{ Value []byte } `json:"kvs"`
	}
	must(t, json.Unmarshal(call(t, pod, "range", map[string]string{"key": encoded("node")}), &answer))
	if len(answer.KVs) != 1 {
		t.Fatalf("the etcd has %d keys", len(answer.KVs))
	}
	return string(answer.KVs[0].Value)
}

// call calls an etcd at the address of its pod.
func call(t *testing.T, pod *corev1.Pod, method string, request map[string]string) []byte {
	t.Helper()
	body, err := json.Marshal(request)
	must(t, err)
	url := fmt.Sprintf("http://%s:%d/v3/kv/%s", pod.Status.PodIP, clientPort, method)
	sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	must(t, err)
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(sent)
	must(t, err)
	defer response.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", method, response.Status, answer.String())
	}
	return answer.Bytes()
}

// stopKubelet has a node's kubelet stand still, with all else on the node going on.
func stopKubelet(t *testing.T, node *realnode.Node) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", node.PID()))
	must(t, err)
	for field := range strings.FieldsSeq(string(children)) {
		pid, err := strconv.Atoi(field)
		must(t, err)
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == "kubelet" {
			must(t, syscall.Kill(pid, syscall.SIGSTOP))
			return
		}
	}
	t.Fatalf("node %s has no kubelet among %s", node.Name, children)
}
