package realetcd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

const setName = "kv"

// otherImage is a second name of an image with etcd.
const otherImage = "lab.usher.sh/workload:again"

var setObjects = template.Must(template.New("set").Parse(`
apiVersion: v1
kind: Service
metadata: {name: kv}
spec:
  selector: {usher.sh/member-set: kv}
  ports: [{name: client, port: 2379}]
---
apiVersion: usher.sh/v1alpha1
kind: MemberSet
metadata: {name: kv}
spec:
  system: {etcd: {service: {name: kv, port: 2379, scheme: http}}}
  groups:
  - name: member
    role: etcd-member
    replicas: 3
    template: {metadata: {labels: {app: kv}}, spec: {{.Pod}}}
    volumeClaimTemplates:
    - {name: data, spec: {accessModes: [ReadWriteOnce], storageClassName: {{.Class}}, resources: {requests: {storage: 1Gi}}}}
  updateStrategy: {recreate: {batch: Member}}
  removal: {minInterval: 0s}
`))

// TestMemberSet has Usher, as pods, run a real etcd cluster on real nodes while clients write: it is formed, grows, shrinks, its leader is replaced, and a node
// is lost for good; its pods get another image, and its members other claims, and a node is drained.
func TestMemberSet(t *testing.T) {
	if longer() == 0 {
		t.Skip("it takes minutes: make test-all runs it")
	}
	l := testlab.Get(t)
	archive, program := l.UsherImage(t)
	binary := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	again := filepath.Join(t.TempDir(), "again.tar")
	if err := image.WriteFile(again, image.Spec{Name: otherImage, Entry: binary}); err != nil {
		t.Fatal(err)
	}
	nodes := l.StartRealNodes(t, join.Options{Count: 6, Files: []image.File{binary}, Images: []string{archive, again}})
	l.ServeServices(t)
	e := &etcd{lab: l, namespace: l.Namespace(t)}
	dns := serveDNS(t, l, e.namespace)
	installSets(t, l, program, dns, e)
	e.startSet(t, dns)
	defer e.dropSet(t)
	began := time.Now()
	e.setIs(t, 3)
	t.Logf("formed in %.1f s", time.Since(began).Seconds())

	writers, quorum := e.startWriters(t), e.watchQuorum(t)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"grow 3 to 5", func() { e.scaleSet(t, 5); e.setIs(t, 5) }},
		{"shrink 5 to 3", func() { e.scaleSet(t, 3); e.setIs(t, 3) }},
		{"replace the leader", func() { e.replaceInSet(t, e.setLeader(t)); e.setIs(t, 3) }},
		{"another image", func() { e.anotherImage(t) }},
		{"another size of claims", func() { e.anotherClaim(t) }},
		{"drain a node", func() { e.drainInSet(t); e.setIs(t, 3) }},
		{"lose a node", func() { e.loseInSet(t, nodes); e.setIs(t, 3) }},
	} {
		began := time.Now()
		step.do()
		t.Logf("%s: %.1f s", step.what, time.Since(began).Seconds())
	}
	quorum.stop(t)
	writers.stop()
	acknowledged, lost, err := writers.check(t.Context(), e.client(t, e.endpoints()...))
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, list := range writers.failed {
		failed += len(list)
	}
	t.Logf("acknowledged writes lost: %d of %d; %d failed; longest write pause %d ms", len(lost), acknowledged, failed, writers.pause().length().Milliseconds())
	for _, one := range lost {
		t.Errorf("a write was lost: %s", one)
	}
	if acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
}

// installSets installs managers that find members by their names.
func installSets(t *testing.T, l *testlab.Lab, program, dns string, e *etcd) {
	t.Helper()
	u := &usher{lab: l, program: program}
	t.Cleanup(func() { u.must(t, "uninstall") })
	t.Log(lastLine(u.must(t, "install", "--member-sets", "--image", image.UsherName, "--timeout", "10m")))
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"dnsPolicy":"None","dnsConfig":{"nameservers":[%q]}}}}}`, dns)
	e.kubectl(t, "", "patch", "deployment", "usher-manager", "-n", managerNamespace, "-p", patch)
	e.kubectl(t, "", "rollout", "status", "deployment/usher-manager", "-n", managerNamespace, "--timeout=10m")
}

// startSet makes the set, and has volumes made for it.
func (e *etcd) startSet(t *testing.T, dns string) {
	t.Helper()
	e.lab.LocalVolumes(t, e.namespace)
	pod, err := json.Marshal(e.setPod(t, dns))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := setObjects.Execute(&text, map[string]string{"Pod": string(pod), "Class": e.namespace}); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, text.String(), "apply", "-f", "-")
	service, err := e.lab.Client().CoreV1().Services(e.namespace).Get(t.Context(), setName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.addresses { // it leads to each of them
		e.addresses[i] = service.Spec.ClusterIP
	}
}

func (e *etcd) setPod(t *testing.T, dns string) corev1.PodSpec {
	t.Helper()
	spec := testlab.RealPod(t)
	spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{dns}}
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: testlab.Labels(setName)},
	}}}}
	c := &spec.Containers[0]
	c.Name, c.Command = "etcd", []string{"/etcd", "--data-dir=/data/etcd", fmt.Sprintf("--unsafe-no-fsync=%t", !*fsync)}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port = "/readyz", intstr.FromInt32(clientPort)
	return spec
}

// dropSet ends the set; its policy lets its pods go.
func (e *etcd) dropSet(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Log(e.kubectl(t, "", "get", "memberset,evictionpolicy,replacementrequest,pods,pvc,service", "-o", "wide"))
		t.Log(e.kubectl(t, "", "get", "memberset", setName, "-o", "yaml"))
		t.Log(e.kubectl(t, "", "get", "replacementrequest", "-o", "yaml"))
	}
	e.kubectl(t, "", "delete", "memberset", setName, "--timeout=5m")
}

// setIs waits until the set has as many members, and says that it is complete.
func (e *etcd) setIs(t *testing.T, members int) {
	t.Helper()
	e.kubectl(t, "", "wait", fmt.Sprintf("--for=jsonpath={.status.memberCount}=%d", members), "--timeout=10m", "memberset/"+setName)
	e.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=10m", "memberset/"+setName)
	e.lab.WaitReady(t, e.namespace, testlab.Labels(setName), members)
	list, err := e.client(t, e.endpoints()...).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list.Members {
		if m.IsLearner || m.Name == "" {
			t.Errorf("%s is no voter: %+v", m.Name, m)
		}
		names = append(names, m.Name)
	}
	if slices.Sort(names); len(names) != members {
		t.Errorf("the members are %v, want %d", names, members)
	}
}

func (e *etcd) scaleSet(t *testing.T, replicas int) {
	t.Helper()
	e.kubectl(t, "", "patch", "memberset", setName, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/groups/0/replicas","value":%d}]`, replicas))
	e.kubectl(t, "", "wait", "--for=condition=Reconciling", "--timeout=2m", "memberset/"+setName)
}

// anotherImage has the pods be made anew, under the names that they had.
func (e *etcd) anotherImage(t *testing.T) {
	t.Helper()
	ids, uids := e.setPods(t)
	e.changeSet(t, fmt.Sprintf(`{"op":"replace","path":"/spec/groups/0/template/spec/containers/0/image","value":%q}`, otherImage))
	after, uidsAfter := e.setPods(t)
	if !slices.Equal(ids, after) || slices.ContainsFunc(uids, func(uid string) bool { return slices.Contains(uidsAfter, uid) }) {
		t.Errorf("pods %v %v have become %v %v", ids, uids, after, uidsAfter)
	}
}

// anotherClaim has all members be replaced.
func (e *etcd) anotherClaim(t *testing.T) {
	t.Helper()
	ids, _ := e.setPods(t)
	e.changeSet(t, `{"op":"replace","path":"/spec/groups/0/volumeClaimTemplates/0/spec/resources/requests/storage","value":"512Mi"}`)
	after, _ := e.setPods(t)
	if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(after, id) }) {
		t.Errorf("members %v have become %v", ids, after)
	}
}

// drainInSet drains the node of a member, whose volume can be used there alone: another member takes its place before its pod goes.
func (e *etcd) drainInSet(t *testing.T) {
	t.Helper()
	ids, _ := e.setPods(t)
	node := e.nodeOf(t, ids[0])
	e.kubectl(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app="+setName, "--timeout=5m")
	e.kubectl(t, "", "uncordon", node)
	if after, _ := e.setPods(t); slices.Contains(after, ids[0]) {
		t.Errorf("member %s was drained off %s, and the members are %v", ids[0], node, after)
	}
}

// changeSet changes the spec, and waits until all three members are as it says.
func (e *etcd) changeSet(t *testing.T, patch string) {
	t.Helper()
	e.kubectl(t, "", "patch", "memberset", setName, "--type=json", "-p", "["+patch+"]")
	e.kubectl(t, "", "wait", "--for=condition=Reconciling", "--timeout=2m", "memberset/"+setName)
	e.setIs(t, 3)
	if updated := e.kubectl(t, "", "get", "memberset", setName, "-o", "jsonpath={.status.groups[0].updatedCount}"); updated != "3" {
		t.Errorf("%s members are as the set says", updated)
	}
}

// setPods are the names and UIDs of the set's pods, in the order of the names.
func (e *etcd) setPods(t *testing.T) (ids, uids []string) {
	t.Helper()
	list, err := e.lab.Client().CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "usher.sh/member-set=" + setName})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		ids, uids = append(ids, list.Items[i].Name), append(uids, string(list.Items[i].UID))
	}
	return ids, uids
}

func (e *etcd) setLeader(t *testing.T) string {
	t.Helper()
	client := e.client(t, e.endpoints()...)
	status, err := client.Status(t.Context(), e.endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.ID == status.Leader {
			return m.Name
		}
	}
	t.Fatal("no member leads")
	return ""
}

func (e *etcd) replaceInSet(t *testing.T, id string) {
	t.Helper()
	node := e.nodeOf(t, id)
	e.kubectl(t, fmt.Sprintf(`
apiVersion: usher.sh/v1alpha1
kind: ReplacementRequest
metadata: {name: %[1]s}
spec:
  requester: test.usher.sh/realetcd
  source: {kind: EvictionPolicy, name: kv}
  member: {role: etcd-member, id: %[1]s}
`, id), "create", "-f", "-")
	e.replaced(t, id)
	said := strings.TrimSpace(e.kubectl(t, "", "get", "memberset", setName, "-o", "jsonpath={range .status.members[*]}{.id}={.node} {end}"))
	if strings.Contains(said, id+"=") {
		t.Errorf("%s is replaced, and the members are %s", id, said)
	}
	t.Logf("%s on %s is replaced: %s", id, node, said)
}

// loseInSet ends the machine of a member that does not lead, has the cluster forget it, and has the member replaced.
func (e *etcd) loseInSet(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	leader := e.setLeader(t)
	ids := strings.Fields(e.kubectl(t, "", "get", "memberset", setName, "-o", "jsonpath={.status.members[*].id}"))
	at := slices.IndexFunc(ids, func(id string) bool { return id != leader })
	e.destroy(t, nodes, ids[at])
	e.replaceInSet(t, ids[at])
}
