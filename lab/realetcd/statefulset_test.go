package realetcd

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestStatefulSet has a real etcd cluster in a StatefulSet, without Usher, go through the events of TestMemberSet, each by the command of kubectl that is for it, and says
// what comes of that.
func TestStatefulSet(t *testing.T) {
	if longer() == 0 {
		t.Skip("it takes minutes: make test-all runs it")
	}
	l := testlab.Get(t)
	binary := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	nodes := l.StartRealNodes(t, join.Options{Count: size + 3, Files: []image.File{binary}})
	l.ServeServices(t)
	e := startLocalEtcd(t, l, nodes)
	for _, step := range []struct {
		what string
		do   func() string
	}{
		{"grow 3 to 5", func() string { return e.growStatefulSet(t) }},
		{"shrink 5 to 3", func() string { return e.shrinkStatefulSet(t) }},
		{"replace the leader", func() string { return e.deleteLeader(t) }},
		{"another template", func() string { return e.rollStatefulSet(t) }},
		{"another size of claims", func() string { return e.claimOfStatefulSet(t) }},
		{"lose a node", func() string { return e.loseInStatefulSet(t, nodes) }},
	} {
		began, writers := time.Now(), e.startWriters(t)
		came := step.do()
		writers.stop()
		acknowledged, lost, err := writers.check(t.Context(), e.client(t, e.endpoints()...))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s; %.1f s, longest write pause %d ms, %d of %d writes lost", step.what, came, time.Since(began).Seconds(), writers.pause().length().Milliseconds(), len(lost), acknowledged)
	}
}

// growStatefulSet scales it: a member that is on no list does not start.
func (e *etcd) growStatefulSet(t *testing.T) string {
	t.Helper()
	configs := e.configs(t, "existing")
	for i := size; i < size+2; i++ {
		configs[member(i)] = e.configOf(t, i, size+2, e.makeService(t, i), "existing")
	}
	e.config(t, configs)
	e.scaleStatefulSet(t, size+2)
	e.podIs(t, member(size), "to end again and again", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 1
	})
	return fmt.Sprintf("%s ends again and again, and %d members are on the list", member(size), e.voters(t))
}

// shrinkStatefulSet scales it back, after a person has taken the fourth member onto the list: it stays there.
func (e *etcd) shrinkStatefulSet(t *testing.T) string {
	t.Helper()
	client := e.client(t, e.endpoints()...)
	added, err := client.MemberAdd(t.Context(), []string{e.peerURL(size)})
	if err != nil {
		t.Fatal(err)
	}
	e.scaleStatefulSet(t, size)
	e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
	came := fmt.Sprintf("%d members are on the list, of which %d run", e.voters(t), size)
	if _, err := client.MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	return came
}

func (e *etcd) deleteLeader(t *testing.T) string {
	t.Helper()
	leader := e.leads(t)
	node := e.nodeOf(t, leader)
	e.kubectl(t, "", "delete", "pod", leader)
	e.lab.WaitReady(t, e.namespace, testlab.Labels(name), size)
	return fmt.Sprintf("it is made anew on %s, where it was: %t", node, e.nodeOf(t, leader) == node)
}

func (e *etcd) rollStatefulSet(t *testing.T) string {
	t.Helper()
	e.kubectl(t, "", "rollout", "restart", "statefulset", name)
	e.kubectl(t, "", "rollout", "status", "statefulset", name, "--timeout=10m")
	return "all are made anew, one after the other"
}

// claimOfStatefulSet asks for what the apiserver does not let a StatefulSet change.
func (e *etcd) claimOfStatefulSet(t *testing.T) string {
	t.Helper()
	patch := `[{"op":"replace","path":"/spec/volumeClaimTemplates/0/spec/resources/requests/storage","value":"512Mi"}]`
	command := exec.CommandContext(t.Context(), e.lab.Binary(t, "kubectl"), "--kubeconfig", e.lab.Kubeconfig(), "-n", e.namespace, "patch", "statefulset", name, "--type=json", "-p", patch)
	out, err := command.CombinedOutput()
	if err == nil {
		t.Errorf("the claims of a StatefulSet are changed: %s", out)
	}
	return "the apiserver refuses it"
}

func (e *etcd) loseInStatefulSet(t *testing.T, nodes []*realnode.Node) string {
	t.Helper()
	lost := e.follows(t)
	e.destroy(t, nodes, lost)
	e.podIs(t, lost, "to be made anew and wait", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending && p.Spec.NodeName == "" })
	return fmt.Sprintf("%s is Pending, since its volume was on that node, and %d members are on the list", lost, e.voters(t))
}

// podIs waits for a pod.
func (e *etcd) podIs(t *testing.T, pod, what string, is func(*corev1.Pod) bool) {
	t.Helper()
	testlab.WaitFor(t, e.lab.Pods(e.namespace), "pod "+pod+" "+what, func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == pod && is(p) })
	})
}

func (e *etcd) scaleStatefulSet(t *testing.T, replicas int) {
	t.Helper()
	e.kubectl(t, "", "scale", "statefulset", name, fmt.Sprintf("--replicas=%d", replicas))
}

// config has the pods that start from now on read these files.
func (e *etcd) config(t *testing.T, files map[string]string) {
	t.Helper()
	configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: files}
	if _, err := e.lab.Client().CoreV1().ConfigMaps(e.namespace).Update(t.Context(), configs, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// voters is how many members the list has.
func (e *etcd) voters(t *testing.T) int {
	t.Helper()
	list, err := e.client(t, e.endpoints()...).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Members)
}
