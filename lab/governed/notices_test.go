package governed

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

const (
	noticesConfig = `
rules:
- {name: doomed, taint: {key: example.com/doomed}, kind: ScaleDown}
- name: spot
  alert: {matchers: ['alertname="SpotTerminationNotice"']}
  kind: SpotInterruption
  effectiveAfter: 10m
`
	noticesToken = "a token of the lab, for alerts"
)

// notices is where the alerts of a house are taken.
type notices struct {
	*house

	address string
}

// TestNotices has a manager with exactly the rights that usher install --notices gives it follow taints of nodes and take alerts.
func TestNotices(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t, testlab.Start(t))
	n := &notices{h, keptAddress(t)}
	// It has the rights before it starts: who installs Usher gives it both at once.
	install := exec.CommandContext(t.Context(), h.lab.Usher(t), "install", "--kubeconfig", h.lab.Kubeconfig(), "--webhook-url", "https://127.0.0.1:1", "--notices")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("installing usher: %v: %s", err, out)
	}
	h.managers = h.lab.Managers(t, 1, "--notices-address", n.address)
	own := metav1.ObjectMeta{Namespace: "usher-system", Name: "usher-notices"}
	must(t, h.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: own, Data: map[string]string{"notices.yaml": noticesConfig}}))
	must(t, h.client.Create(t.Context(), &corev1.Secret{ObjectMeta: own, StringData: map[string]string{"token": noticesToken}}))
	t.Run("follows a taint", n.followsATaint)
	t.Run("takes an alert", n.takesAnAlert)
	t.Run("takes alerts of a real Prometheus", n.takesAlertsOfPrometheus)
	t.Run("limits what the manager makes", n.limitsTheManager)
}

// occupied is a node with a pod that can go to another.
func (n *notices) occupied(t *testing.T) string {
	t.Helper()
	namespace, nodes := n.lab.Namespace(t), n.lab.Nodes(t, 2)
	n.lab.Deployment(t, namespace, "web", 1, onlyOn(nodes))
	return n.lab.WaitReady(t, namespace, testlab.Labels("web"), 1)[0].Spec.NodeName
}

// waitFor waits for the maintenance of a node and a requester, or until there is none.
func (n *notices) waitFor(t *testing.T, node, requester, what string, is func(*v1alpha1.NodeMaintenance) bool) {
	t.Helper()
	testlab.WaitFor(t, n.maintenances(), what, func(all []*v1alpha1.NodeMaintenance) bool {
		at := slices.IndexFunc(all, func(m *v1alpha1.NodeMaintenance) bool {
			return slices.Equal(m.Spec.Nodes.Names, []string{node}) && m.Spec.Requester == requester
		})
		if at < 0 {
			return is(nil)
		}
		return is(all[at])
	})
}

func (n *notices) followsATaint(t *testing.T) {
	const requester = "taint.notice.usher.sh/ScaleDown"
	node := n.occupied(t)
	n.taint(t, node, corev1.Taint{Key: "example.com/doomed", Effect: corev1.TaintEffectNoSchedule})
	n.waitFor(t, node, requester, "the node to be drained", isComplete)
	n.taint(t, node)
	n.waitFor(t, node, requester, "its maintenance to go", isGone)
	n.waitNodes(t, []string{node}, "it to be given back", asBefore)
}

// taint has a node have these taints alone.
func (n *notices) taint(t *testing.T, name string, taints ...corev1.Taint) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node := &corev1.Node{}
		if err := n.client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Spec.Taints = taints
		return n.client.Update(t.Context(), node)
	}))
}

func (n *notices) takesAnAlert(t *testing.T) {
	const requester = "alertmanager.notice.usher.sh/SpotInterruption"
	node, began := n.occupied(t), time.Now().UTC().Format(time.RFC3339)
	alert := func(status, node string) string {
		labels := fmt.Sprintf(`{"alertname":"SpotTerminationNotice","node":%q}`, node)
		return fmt.Sprintf(`{"version":"4","status":%q,"alerts":[{"status":%q,"labels":%s,"startsAt":%q}]}`, status, status, labels, began)
	}
	for what, c := range map[string]struct {
		token, body string
		want        int
	}{
		"a wrong secret":    {"another token, of the same length", alert("firing", node), http.StatusUnauthorized},
		"an unknown node":   {noticesToken, alert("firing", "nowhere"), http.StatusUnprocessableEntity},
		"what is no alerts": {noticesToken, "hello", http.StatusBadRequest},
	} {
		if status, said := n.send(t, c.token, c.body); status != c.want {
			t.Errorf("%s: %d %s, want %d", what, status, said, c.want)
		}
	}
	if status, said := n.send(t, noticesToken, alert("firing", node)); status != http.StatusOK || !strings.Contains(said, node) {
		t.Fatalf("%d %s", status, said)
	}
	n.waitFor(t, node, requester, "the node to be drained", func(m *v1alpha1.NodeMaintenance) bool { return isComplete(m) && m.Spec.DeadlineTime != nil })
	if status, said := n.send(t, noticesToken, alert("resolved", node)); status != http.StatusOK {
		t.Fatalf("%d %s", status, said)
	}
	n.waitFor(t, node, requester, "its maintenance to go", isGone)
	n.waitNodes(t, []string{node}, "it to be given back", asBefore)
}

// send sends a body as Alertmanager does, and returns the answer.
func (n *notices) send(t *testing.T, token, body string) (status int, said string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+n.address+"/notices/alerts", strings.NewReader(body))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is for the name of a Service, which the lab does not have
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	must(t, err)
	defer func() { must(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(text)
}

// limitsTheManager: its account makes no other maintenances, and who may not patch nodes makes none of notices.
func (n *notices) limitsTheManager(t *testing.T) {
	const manager, anna = "system:serviceaccount:usher-system:usher-manager", "anna" // who may make maintenances, and not patch nodes
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "maintainer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"nodemaintenances"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
	}}
	must(t, n.client.Create(t.Context(), role))
	must(t, n.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: anna}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}))
	node := n.lab.Nodes(t, 1)[0]
	for what, c := range map[string]struct {
		user, requester string
		nodes           []string
		refused         bool
	}{
		"of a notice":                         {manager, "taint.notice.usher.sh/ScaleDown", []string{node}, false},
		"of a person":                         {manager, "person.usher.sh/anna", []string{node}, true},
		"of several nodes":                    {manager, "taint.notice.usher.sh/ScaleDown", []string{node, "other"}, true},
		"a person's, of a person":             {anna, "person.usher.sh/anna", []string{node}, false},
		"a person's, by the name of a notice": {anna, "taint.notice.usher.sh/ScaleDown", []string{node}, true},
	} {
		config := rest.CopyConfig(n.lab.RESTConfig())
		config.WarningHandler = rest.NoWarnings{}
		config.Impersonate = rest.ImpersonationConfig{UserName: c.user}
		as, err := client.New(config, client.Options{Scheme: n.client.Scheme()})
		must(t, err)
		m := &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "limited-"},
			Spec:       v1alpha1.NodeMaintenanceSpec{Nodes: v1alpha1.NodeSelection{Names: c.nodes}, Requester: c.requester},
		}
		if err := as.Create(t.Context(), m, client.DryRunAll); apierrors.IsForbidden(err) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
}
