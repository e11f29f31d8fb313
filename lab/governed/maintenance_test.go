package governed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// Managers with exactly the rights that usher install --maintenance gives them.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 2)
	t.Run("says which right is missing", h.saysWhichRightIsMissing)
	h.install(t, "--maintenance")
	t.Run("outlives its leaders", h.maintenanceOutlivesItsLeaders)
	t.Run("calls a hook and waits", h.maintenanceCallsAHookAndWaits)
	t.Run("deletes nodes", h.maintenanceDeletesNodes)
	t.Run("deletes no node with members that it may not replace", h.maintenanceLacksRightsToReplace)
	t.Run("is refused", h.maintenanceIsRefused)
	t.Run("is followed by a command", h.maintenanceIsFollowed)
	t.Run("keeps its requests", h.maintenanceRequestsAreKept)
	t.Run("ends a hold", h.maintenanceEndsAHold)
	t.Run("surges beside plain workloads", h.maintenanceSurgesBesideWorkloads)
}

func (h *house) maintenances() await.Source[*v1alpha1.NodeMaintenance] {
	return await.Source[*v1alpha1.NodeMaintenance]{Client: h.policies, Resource: "nodemaintenances"}
}

// maintain makes a maintenance of nodes, all at once and kept cordoned.
func (h *house) maintain(t *testing.T, name string, nodes []string, change ...func(*v1alpha1.NodeMaintenanceSpec)) *v1alpha1.NodeMaintenance {
	t.Helper()
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Nodes: v1alpha1.NodeSelection{Names: nodes}, Requester: "test.usher.sh/" + name, Reason: "a test",
			Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: 9, Zones: 9},
			WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}},
		},
	}
	for _, c := range change {
		c(&m.Spec)
	}
	must(t, h.client.Create(t.Context(), m))
	return m
}

func (h *house) waitMaintenance(t *testing.T, name, what string, done func(*v1alpha1.NodeMaintenance) bool) {
	t.Helper()
	var last *v1alpha1.NodeMaintenance
	t.Cleanup(func() {
		if t.Failed() && last != nil {
			t.Logf("%s: %+v", name, last.Status)
		}
	})
	testlab.WaitFor(t, h.maintenances(), what, func(all []*v1alpha1.NodeMaintenance) bool {
		for _, m := range all {
			if m.Name == name {
				last = m
				return done(m)
			}
		}
		return done(nil)
	})
}

func isComplete(m *v1alpha1.NodeMaintenance) bool {
	return m != nil && m.Status.ObservedGeneration == m.Generation && meta.IsStatusConditionTrue(m.Status.Conditions, "Ready")
}

func isGone(m *v1alpha1.NodeMaintenance) bool { return m == nil }

// endMaintenance deletes a maintenance, and waits until its nodes are as they were.
func (h *house) endMaintenance(t *testing.T, name string, nodes []string) {
	t.Helper()
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	h.waitMaintenance(t, name, "it to go", isGone)
	h.waitNodes(t, nodes, "its nodes to be as they were", asBefore)
}

// waitNodes waits until nodes are in a state, each by itself.
func (h *house) waitNodes(t *testing.T, names []string, what string, is func(*corev1.Node) bool) {
	t.Helper()
	testlab.WaitFor(t, h.lab.AllNodes(), what, func(all []*corev1.Node) bool {
		count := 0
		for _, n := range all {
			if slices.Contains(names, n.Name) && is(n) {
				count++
			}
		}
		return count == len(names)
	})
}

// asBefore reports whether a node has nothing of a maintenance.
func asBefore(n *corev1.Node) bool {
	set := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return strings.HasPrefix(c.Message, "NodeMaintenance ") })
	return !n.Spec.Unschedulable && n.Annotations["usher.sh/drain"] == "" && n.Labels["usher.sh/drain"] == "" && !set
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// onlyOn runs a Deployment on nodes of its test alone.
func onlyOn(names []string) func(*appsv1.Deployment) {
	own := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}
	return func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{own}},
			}},
		}}
	}
}

func (h *house) saysWhichRightIsMissing(t *testing.T) {
	nodes := h.lab.Nodes(t, 1)
	h.maintain(t, "norights", nodes)
	h.waitMaintenance(t, "norights", "the missing right to be named", func(m *v1alpha1.NodeMaintenance) bool {
		return m != nil && len(m.Status.Nodes) == 1 && m.Status.Nodes[0].Blocked && strings.Contains(m.Status.Nodes[0].Blockers[0].Message, `cannot patch resource "nodes"`)
	})
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "norights"}}))
	h.waitMaintenance(t, "norights", "it to go", isGone)
}

// Six nodes of two requesters that share one, with a budget: the leader is killed twice, and one of the objects is deleted in the middle.
func (h *house) maintenanceOutlivesItsLeaders(t *testing.T) {
	namespace := h.lab.Namespace(t)
	nodes, spare := h.lab.Nodes(t, 6, "a", "b", "c"), h.lab.Nodes(t, 3, "a", "b", "c")
	h.lab.Deployment(t, namespace, "web", 18, onlyOn(nodes))
	h.lab.WaitReady(t, namespace, testlab.Labels("web"), 18)
	h.lab.MaxUnavailable(t, namespace, "web", "2")
	h.lab.WaitBudget(t, namespace, "web", 18)
	h.moveTo(t, namespace, slices.Concat(nodes, spare))

	t.Cleanup(func() {
		if t.Failed() {
			h.showMaintained(t, nodes)
		}
	})
	// The first pod of each node hangs, so that all drains are in the middle when the leaders are killed.
	var stuck []string
	for _, node := range nodes {
		stuck = append(stuck, h.onNode(t, namespace, node))
		h.lab.Stick(t, namespace, stuck[len(stuck)-1])
	}
	h.maintain(t, "first", nodes[:5])
	h.maintain(t, "second", nodes[4:])
	h.waitNodes(t, nodes, "all nodes to be drained", func(n *corev1.Node) bool {
		return n.Spec.Unschedulable && nodeCondition(n, corev1.NodeDrainInProgress) == corev1.ConditionTrue
	})
	for range 2 {
		h.killLeader(t)
	}
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "first"}}))
	h.waitMaintenance(t, "first", "the deleted one to give its nodes back", isGone)
	h.waitNodes(t, nodes[:4], "its nodes to be as they were", asBefore)
	for _, pod := range stuck {
		h.lab.Unstick(t, namespace, pod)
	}
	h.waitMaintenance(t, "second", "the other one to be complete", isComplete)
	h.waitNodes(t, nodes[4:], "its nodes to be drained and kept", func(n *corev1.Node) bool {
		return n.Spec.Unschedulable && nodeCondition(n, corev1.NodeDrained) == corev1.ConditionTrue
	})
	for _, node := range nodes[4:] {
		if pod := h.onNode(t, namespace, node); pod != "" {
			t.Errorf("pod %s is on node %s, which is drained", pod, node)
		}
	}
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "second"}}))
	h.waitMaintenance(t, "second", "the other one to go", isGone)
	h.waitNodes(t, nodes, "all nodes to be as they were", asBefore)
	leases, err := h.lab.Client().CoordinationV1().Leases("kube-public").List(t.Context(), metav1.ListOptions{LabelSelector: "usher.sh/drain"})
	must(t, err)
	if len(leases.Items) > 0 {
		t.Errorf("Leases are left: %d", len(leases.Items))
	}
}

// showMaintained logs what is on nodes, and what the managers have said.
func (h *house) showMaintained(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		node, err := h.lab.Client().CoreV1().Nodes().Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		if err != nil {
			t.Log(err)
			continue
		}
		t.Logf("node %s: unschedulable %v, record %s, managed by %v", name, node.Spec.Unschedulable, node.Annotations["usher.sh/drain"], node.ManagedFields)
	}
	for i := range 2 {
		log := h.managers.Log(t, i)
		t.Logf("manager %d: …%s", i, log[max(0, len(log)-8000):])
	}
}

// moveTo lets the pods of Deployment web that are made from now on go to other nodes, without a rollout of those that are there.
func (h *house) moveTo(t *testing.T, namespace string, nodes []string) {
	t.Helper()
	change := func(object client.Object, mutate func()) {
		t.Helper()
		must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			mutate()
			return h.client.Update(t.Context(), object)
		}))
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	change(web, func() { onlyOn(nodes)(web); web.Spec.Paused = true })
	sets, err := h.lab.Client().AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range sets.Items {
		set := &sets.Items[i]
		change(set, func() { set.Spec.Template.Spec.Affinity = web.Spec.Template.Spec.Affinity })
	}
}

// onNode returns a pod of the namespace that is on a node, "" where none is.
func (h *house) onNode(t *testing.T, namespace, node string) string {
	t.Helper()
	pods, err := h.lab.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	must(t, err)
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			return pods.Items[i].Name
		}
	}
	return ""
}

// killLeader kills the replica that leads, starts another one, and waits until one leads again.
func (h *house) killLeader(t *testing.T) {
	t.Helper()
	holder, leader := h.lease(t), h.leads(t, 0, 1)
	h.managers.Kill(t, leader)
	h.managers.Start(t, leader)
	h.managers.WaitReady(t, leader)
	testlab.WaitFor(t, await.Source[*coordinationv1.Lease]{Client: h.lab.Client().CoordinationV1().RESTClient(), Resource: "leases", Namespace: "usher-system"}, "another leader", func(all []*coordinationv1.Lease) bool {
		return slices.ContainsFunc(all, func(l *coordinationv1.Lease) bool {
			return l.Name == "usher-manager" && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && *l.Spec.HolderIdentity != holder
		})
	})
}

func (h *house) maintenanceCallsAHookAndWaits(t *testing.T) {
	nodes := h.lab.Nodes(t, 1)
	var calls atomic.Int32
	var body atomic.Pointer[string]
	answers := make(chan struct{}) // closed once the hook answers
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body.Store(new(string(text)))
		select {
		case <-answers:
		default:
			<-r.Context().Done()
			return
		}
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // it is called again
		}
	}))
	defer hook.Close()
	h.maintain(t, "hooked", nodes, func(s *v1alpha1.NodeMaintenanceSpec) {
		s.WhenDrained = v1alpha1.WhenDrained{
			Hook: &v1alpha1.MaintenanceHook{URL: hook.URL, Timeout: metav1.Duration{Duration: time.Second}},
			Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitCondition, Condition: &v1alpha1.NodeConditionRef{Type: "test.usher.sh/New", Status: metav1.ConditionTrue}},
		}
	})
	h.waitMaintenance(t, "hooked", "it to say that the hook does not answer", func(m *v1alpha1.NodeMaintenance) bool {
		return m != nil && len(m.Status.Nodes) == 1 && slices.ContainsFunc(m.Status.Nodes[0].Blockers, func(b v1alpha1.MaintenanceBlocker) bool {
			return b.Reason == "HookFailed" && strings.Contains(b.Message, "no answer within 1s") && b.Remedy != ""
		})
	})
	close(answers)
	h.waitMaintenance(t, "hooked", "the condition to be waited for", func(m *v1alpha1.NodeMaintenance) bool {
		return m != nil && len(m.Status.Nodes) == 1 && m.Status.Nodes[0].Step == v1alpha1.StepWaiting
	})
	if n := calls.Load(); n != 2 {
		t.Errorf("the hook was called %d times", n)
	}
	if want := fmt.Sprintf(`{"maintenance":"hooked","requester":"test.usher.sh/hooked","reason":"a test","node":%q`, nodes[0]); !strings.HasPrefix(*body.Load(), want) {
		t.Errorf("the hook was sent %s", *body.Load())
	}
	patch := `{"status":{"conditions":[{"type":"test.usher.sh/New","status":"True","reason":"Test"}]}}`
	_, err := h.lab.Client().CoreV1().Nodes().PatchStatus(t.Context(), nodes[0], []byte(patch))
	must(t, err)
	h.waitMaintenance(t, "hooked", "it to be complete", isComplete)
	h.waitNodes(t, nodes, "the node to be given back", asBefore)
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "hooked"}}))
}

func (h *house) maintenanceDeletesNodes(t *testing.T) {
	nodes := h.lab.Nodes(t, 2)
	h.maintain(t, "scaledown", nodes, func(s *v1alpha1.NodeMaintenanceSpec) {
		s.WhenDrained = v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}
		s.Concurrency.Nodes = 1
	})
	h.waitMaintenance(t, "scaledown", "it to be complete", isComplete)
	for _, node := range nodes {
		if _, err := h.lab.Client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("node %s: %v", node, err)
		}
	}
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "scaledown"}}))
}

// What is refused, each with a sentence, and by whom.
func (h *house) maintenanceIsRefused(t *testing.T) {
	resource := []string{"nodemaintenances"}
	may := rbacv1.PolicyRule{APIGroups: []string{"usher.sh"}, Resources: resource, Verbs: []string{"create"}}
	_, tenant := h.lab.As(t, []rbacv1.PolicyRule{may})
	_, operator := h.lab.As(t, []rbacv1.PolicyRule{may, {APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}})
	_, deleter := h.lab.As(t, []rbacv1.PolicyRule{may, {APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"delete"}}})
	spec := v1alpha1.NodeMaintenanceSpec{Requester: "test.usher.sh/refused", Nodes: v1alpha1.NodeSelection{Names: []string{"n1"}}}
	cases := map[string]struct {
		as     string
		change func(*v1alpha1.NodeMaintenanceSpec)
		want   string // of the error; "": it is taken
	}{
		"who may not delete pods":      {as: tenant, want: "may not delete pods in all namespaces"},
		"who may":                      {as: operator},
		"… and not delete nodes":       {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) { s.WhenDrained.DeleteNode = &v1alpha1.DeleteNode{} }, want: "may not delete nodes"},
		"… and not delete claims":      {as: deleter, change: replacesMembers, want: "may not delete persistentvolumeclaims in all namespaces"},
		"names and a selector":         {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) { s.Nodes.Selector = &metav1.LabelSelector{} }, want: "set either names or selector"},
		"no requester":                 {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) { s.Requester = "" }, want: "spec.requester"},
		"a requester without a domain": {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) { s.Requester = "anna" }, want: "spec.requester"},
		"deleting at no deadline":      {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) { s.AtDeadline = v1alpha1.DeadlineDeletePods }, want: "needs a deadlineTime"},
		"a condition that is not waited for": {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) {
			s.WhenDrained.Wait = &v1alpha1.MaintenanceWait{For: v1alpha1.WaitCondition}
		}, want: "condition goes with for: Condition"},
		"a condition that no node can have": {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) {
			s.WhenDrained.Wait = &v1alpha1.MaintenanceWait{For: v1alpha1.WaitCondition, Condition: &v1alpha1.NodeConditionRef{Type: "Re ady", Status: metav1.ConditionTrue}}
		}, want: "spec.whenDrained.wait.condition.type"},
		"a hook that is no URL of the network": {as: operator, change: func(s *v1alpha1.NodeMaintenanceSpec) {
			s.WhenDrained.Hook = &v1alpha1.MaintenanceHook{URL: "file:///etc/passwd"}
		}, want: "spec.whenDrained.hook.url"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := clientcmd.BuildConfigFromFlags("", c.as)
			must(t, err)
			as, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
			must(t, err)
			m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-"}, Spec: *spec.DeepCopy()}
			if c.change != nil {
				c.change(&m.Spec)
			}
			err = as.Create(t.Context(), m, client.DryRunAll)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func (h *house) maintenanceIsFollowed(t *testing.T) {
	nodes := h.lab.Nodes(t, 1)
	usher := func(args ...string) (string, int) {
		command := exec.CommandContext(t.Context(), h.lab.Usher(t), append(args, "--kubeconfig", h.lab.Kubeconfig())...)
		out, _ := command.CombinedOutput()
		return string(out), command.ProcessState.ExitCode()
	}
	expect := func(what string, code int, want []string, args ...string) {
		t.Helper()
		out, got := usher(args...)
		if got != code {
			t.Errorf("%s: exit code %d, want %d:\n%s", what, got, code, out)
		}
		for _, words := range want {
			if !strings.Contains(out, words) {
				t.Errorf("%s: it does not say %q:\n%s", what, words, out)
			}
		}
	}
	expect("a node that does not exist", 1, []string{"has no node", "nothing was changed"}, "maintain", "nowhere")
	expect("maintain", 0, []string{"was created", "drained and kept cordoned"}, "maintain", nodes[0], "--reason", "a test")
	expect("again", 0, []string{"is there already"}, "maintain", nodes[0], "--reason", "a test")
	for i := range 2 {
		h.managers.Stop(t, i)
	}
	expect("again, while no manager runs", 0, []string{"is there already"}, "maintain", nodes[0], "--reason", "a test", "--wait=false")
	for i := range 2 {
		h.managers.Start(t, i)
		h.managers.WaitReady(t, i)
	}
	expect("otherwise", 1, []string{"with another content"}, "maintain", nodes[0], "--force")
	expect("drain", 2, []string{"NodeMaintenance " + nodes[0] + " has node", "nothing was changed"}, "drain", nodes[0])
	expect("uncordon", 2, []string{"NodeMaintenance " + nodes[0] + " has node", "--delete " + nodes[0]}, "uncordon", nodes[0])
	second := nodes[0] + "-second"
	expect("a second", 0, []string{"was created", "drained and kept cordoned"}, "maintain", nodes[0], "--name", second)
	expect("end of the second", 0, []string{"but for those that other NodeMaintenances have: " + nodes[0] + " (" + nodes[0] + ")"}, "maintain", "--delete", second)
	expect("end", 0, []string{"its nodes are given back\n"}, "maintain", "--delete", nodes[0])
	h.waitNodes(t, nodes, "the node to be given back", asBefore)
	expect("end again", 1, []string{"there is no NodeMaintenance"}, "maintain", "--delete", nodes[0])
	expect("drain afterwards", 0, nil, "drain", nodes[0])
}
