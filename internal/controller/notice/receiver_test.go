package notice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

const rules = `
rules:
- name: spot
  alert: {matchers: [alertname="Spot"]}
  kind: SpotInterruption
  effectiveAfter: 2m
- name: disk
  alert: {matchers: [alertname="Disk"]}
`

// alert is one of Alertmanager's, or of Prometheus' where its status is "".
func alert(name, node, status string, labels ...string) string {
	ends := "0001-01-01T00:00:00Z"
	if status == "" {
		ends = "2026-11-29T12:04:00Z"
	}
	return fmt.Sprintf(`{"status":%q,"labels":{"alertname":%q,"node":%q%s},"startsAt":"2026-11-29T12:00:00Z","endsAt":%q}`, status, name, node, strings.Join(labels, ""), ends)
}

func webhook(alerts ...string) string {
	return `{"version":"4","status":"firing","alerts":[` + strings.Join(alerts, ",") + `]}`
}

func array(alerts ...string) string { return "[" + strings.Join(alerts, ",") + "]" }

// An alert drains its node, once however often it is sent, and is undone when it is resolved.
func TestAlertDrainsUntilItIsResolved(t *testing.T) {
	for name, body := range map[string]func(...string) string{"Alertmanager": webhook, "Prometheus": array} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, configMap(rules))
			firing, resolved := alert("Spot", "n1", "firing"), alert("Spot", "n1", "resolved")
			if name == "Prometheus" {
				firing, resolved = alert("Spot", "n1", ""), strings.Replace(alert("Spot", "n1", ""), "12:04:00", "11:59:00", 1)
			}
			for range 3 {
				status, said := g.send(shared, body(firing))
				if status != http.StatusOK || !strings.HasSuffix(said, "drains node n1, until 2026-11-29T12:01:55Z") {
					t.Fatalf("%d %s", status, said)
				}
			}
			m := g.maintenances()["n1"]
			if m == nil || m.Spec.Requester != "alertmanager.notice.usher.sh/SpotInterruption" || m.OwnerReferences[0].UID != "uid-n1" {
				t.Fatalf("%+v", m)
			}
			if end := m.Annotations[notice.EndAnnotation]; (end != "") != (name == "Prometheus") {
				t.Errorf("it stands until %q", end)
			}
			for i, want := range []string{"SpotInterruption of node n1 does not stand any more: the node is given back", "alert Spot is resolved, and nothing is done for it"} {
				if status, said := g.send(anna, body(resolved)); status != http.StatusOK || said != want {
					t.Errorf("%d: %d %s", i, status, said)
				}
			}
			if left := g.maintenances(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestAlertIsReported(t *testing.T) {
	g := newRig(t, configMap(rules))
	for range 2 {
		if status, said := g.send(shared, webhook(alert("Disk", "n2", "firing"))); status != http.StatusOK || said != "Problem of node n2 is reported, and nothing is done about it" {
			t.Errorf("%d %s", status, said)
		}
	}
	var all eventsv1.EventList
	if err := g.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 1 || all.Items[0].Reason != "NoticeProblem" || all.Items[0].Regarding.Name != "n2" || len(g.maintenances()) != 0 {
		t.Errorf("%+v", all.Items)
	}
}

// Each mistake is a sentence with its status, and nothing is half done.
func TestRefusals(t *testing.T) {
	good := webhook(alert("Spot", "n1", "firing"))
	for name, test := range map[string]struct {
		token, body string
		change      func(*http.Request)
		status      int
		want        string
	}{
		"another path":  {shared, good, func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound, "alerts are sent to /notices/alerts"},
		"a GET":         {shared, good, func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed, "alerts are sent by POST"},
		"no token":      {"", good, nil, http.StatusUnauthorized, "the request has no header Authorization: Bearer TOKEN"},
		"an empty one":  {" ", good, nil, http.StatusUnauthorized, "the request has no header Authorization: Bearer TOKEN"},
		"basic":         {"", good, func(r *http.Request) { r.SetBasicAuth("a", shared) }, http.StatusUnauthorized, "the request has no header Authorization: Bearer TOKEN"},
		"a wrong one":   {shared[1:], good, nil, http.StatusUnauthorized, "the token is neither that of Secret usher-notices in namespace usher-system, nor one that the apiserver knows"},
		"longer":        {shared + "0", good, nil, http.StatusUnauthorized, "the token is neither that of Secret"},
		"no right":      {bert, good, nil, http.StatusForbidden, "bert may not post to /notices/alerts: bind the ClusterRole usher-notices-sender to it; no RBAC policy matched"},
		"not asked":     {"broken", good, nil, http.StatusServiceUnavailable, "it could not be asked who the token stands for: etcd is away; try again"},
		"a large body":  {shared, "[" + strings.Repeat(" ", mostBody), nil, http.StatusRequestEntityTooLarge, "the body has more than 1048576 bytes"},
		"compressed":    {shared, good, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusUnsupportedMediaType, "the body is encoded (gzip), and has to be plain JSON"},
		"no JSON":       {shared, "node=n1", nil, http.StatusBadRequest, "the body is neither the object of Alertmanager's webhook nor an array of alerts"},
		"no alerts":     {shared, webhook(), nil, http.StatusBadRequest, "the body has no alerts"},
		"unknown node":  {shared, webhook(alert("Spot", "n9", "firing")), nil, http.StatusUnprocessableEntity, "alert Spot is about node=n9, and no node has that name, host name or provider id"},
		"no rule":       {shared, webhook(alert("Watchdog", "n1", "firing")), nil, http.StatusOK, "no rule matches alert Watchdog"},
		"cut":           {shared, `{"version":"4","truncatedAlerts":2,"alerts":[` + alert("Watchdog", "n1", "firing") + "]}", nil, http.StatusOK, "2 alerts left out: raise max_alerts of the receiver, or group alerts by more labels\nno rule matches alert Watchdog"},
		"not one line":  {shared, webhook(alert("A\x1b[31m\\nB", "n1", "firing")), nil, http.StatusBadRequest, "the body is neither"},
		"a name in two": {shared, webhook(alert(`A\nB`, "n1", "firing")), nil, http.StatusOK, `no rule matches alert "A`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, configMap(rules))
			change := test.change
			if change == nil {
				change = func(*http.Request) {}
			}
			status, said := g.send(test.token, test.body, change)
			if status != test.status || !strings.HasPrefix(said, test.want) {
				t.Errorf("%d %s\nwant %d %s", status, said, test.status, test.want)
			}
			if left := g.maintenances(); len(left) > 0 {
				t.Errorf("something was done: %v", left)
			}
		})
	}
}

// One alert of a request that is refused keeps none of the others.
func TestOneAlertKeepsNoOther(t *testing.T) {
	g := newRig(t, configMap(rules))
	status, said := g.send(shared, webhook(alert("Spot", "n9", "firing"), alert("Spot", "n2", "firing")))
	if status != http.StatusUnprocessableEntity || strings.Count(said, "\n") != 1 || g.maintenances()["n2"] == nil {
		t.Errorf("%d %s", status, said)
	}
}

// Prometheus and Hollowtrees' senders have paths of their own.
func TestPaths(t *testing.T) {
	for _, path := range []string{"/notices/alerts", "/api/v1/alerts", "/api/v2/alerts"} {
		g := newRig(t, configMap(rules))
		if status, said := g.send(shared, array(alert("Spot", "n1", "")), func(r *http.Request) { r.URL.Path = path }); status != http.StatusOK || g.maintenances()["n1"] == nil {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
}

// A 2xx status says that what was sent is stored: where the apiserver refuses, the sender is to try again.
func TestNothingIsAcknowledgedThatIsNotStored(t *testing.T) {
	refused := func(err error) func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }
	}
	resource := schema.GroupResource{Group: "usher.sh", Resource: "nodemaintenances"}
	for name, test := range map[string]struct {
		err  error
		body string
		want string
	}{
		"no answer": {errors.New("connection refused"), webhook(alert("Spot", "n1", "firing")), "SpotInterruption of node n1 is not stored: Unavailable: connection refused"},
		"no right":  {apierrors.NewForbidden(resource, "notice", errors.New("no")), webhook(alert("Spot", "n1", "firing")), "usher install --notices"},
		"an event":  {errors.New("connection refused"), webhook(alert("Disk", "n1", "firing")), "Problem of node n1 is not stored"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, configMap(rules))
			g.faults.Create = refused(test.err)
			if status, said := g.send(shared, test.body); status != http.StatusServiceUnavailable || !strings.Contains(said, test.want) {
				t.Errorf("%d %s", status, said)
			}
			g.faults.Create = nil
			if status, said := g.send(shared, test.body); status != http.StatusOK {
				t.Errorf("again: %d %s", status, said)
			}
		})
	}
}

// A withdrawal that is not stored is not acknowledged: Alertmanager says once that an alert is resolved.
func TestWithdrawalIsStored(t *testing.T) {
	g := newRig(t, configMap(rules))
	g.send(shared, webhook(alert("Spot", "n1", "firing")))
	g.faults.Delete = func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return errors.New("connection refused")
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "resolved"))); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, said)
	}
	g.faults.Delete = nil
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "resolved"))); status != http.StatusOK || len(g.maintenances()) != 0 {
		t.Errorf("%d %s", status, said)
	}
}

// Another replica makes the maintenance between the look and the write: it is decided anew, by what is there then.
func TestReplicasMeet(t *testing.T) {
	g := newRig(t, configMap(rules))
	races := 0
	g.faults.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if races++; races == 1 {
			other, _ := o.DeepCopyObject().(*v1alpha1.NodeMaintenance)
			if err := c.Create(ctx, other); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, options...)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "firing"))); status != http.StatusOK || races != 1 || len(g.maintenances()) != 1 {
		t.Errorf("%d %s, %d creations", status, said, races)
	}
}

// While a node is given back after an earlier report, nothing can be made under the name.
func TestFiringWhileGivenBack(t *testing.T) {
	g := newRig(t, configMap(rules))
	g.send(shared, webhook(alert("Spot", "n1", "firing")))
	m := g.maintenances()["n1"]
	m.Finalizers = []string{"usher.sh/maintenance"}
	if err := g.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "resolved"))); status != http.StatusOK {
		t.Errorf("%d %s", status, said)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "firing"))); status != http.StatusServiceUnavailable || !strings.Contains(said, "is being given back after an earlier report") {
		t.Errorf("%d %s", status, said)
	}
}

// A configuration that cannot be read leads to nothing and is named; what is resolved is undone all the same.
func TestBadConfiguration(t *testing.T) {
	g := newRig(t, configMap(rules))
	g.send(shared, webhook(alert("Spot", "n1", "firing")))
	broken := configMap("rules: [{}]")
	if err := g.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n2", "firing"))); status != http.StatusServiceUnavailable || !strings.Contains(said, "ConfigMap usher-notices is not usable: rules[0].name: it is missing") {
		t.Errorf("%d %s", status, said)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "resolved"))); status != http.StatusOK || len(g.maintenances()) != 0 {
		t.Errorf("%d %s", status, said)
	}
}

// Who has no secret does not keep those out who have, and does not have the apiserver asked without end.
func TestGuessingIsLimited(t *testing.T) {
	g := newRig(t, configMap(rules))
	limited := 0
	for range 200 {
		if status, _ := g.send("guess", "[]"); status == http.StatusServiceUnavailable {
			limited++
		}
	}
	if g.asked > 60 || limited == 0 {
		t.Errorf("the apiserver was asked %d times", g.asked)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n1", "firing"))); status != http.StatusOK {
		t.Errorf("%d %s", status, said)
	}
	limited = 0
	for range 200 {
		if status, said := g.send(shared, "[]"); status == http.StatusServiceUnavailable && strings.HasPrefix(said, "there are more than 20 requests a second") {
			limited++
		}
	}
	if limited == 0 {
		t.Error("any number of requests is taken")
	}
}

// A secret that is changed or taken away is not taken any more within seconds, and one that is too short never is.
func TestSharedSecret(t *testing.T) {
	g := newRig(t, configMap(rules))
	body := webhook(alert("Watchdog", "n1", "firing"))
	if status, _ := g.send(shared, body); status != http.StatusOK {
		t.Fatal(status)
	}
	for _, test := range []struct {
		token string
		want  int
	}{{"a-new-secret-of-20-b", http.StatusOK}, {"short", http.StatusUnauthorized}, {"", http.StatusUnauthorized}} {
		secret := g.secret()
		secret.Data["token"] = []byte(test.token)
		if err := g.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		g.now = g.now.Add(secretFor)
		if status, said := g.send(test.token, body); status != test.want {
			t.Errorf("%q: %d %s", test.token, status, said)
		}
		if status, _ := g.send(shared, body); status != http.StatusUnauthorized {
			t.Errorf("the old secret is taken: %d", status)
		}
	}
	if err := g.Delete(t.Context(), g.secret()); err != nil {
		t.Fatal(err)
	}
	g.now = g.now.Add(time.Minute)
	if status, _ := g.send("", body); status != http.StatusUnauthorized {
		t.Error(status)
	}
	if status, said := g.send(anna, body); status != http.StatusOK {
		t.Errorf("without a shared secret: %d %s", status, said)
	}
}

// A replica whose cache lags undoes what another one has begun a moment ago, and knows a node that has just joined.
func TestBehindTheCache(t *testing.T) {
	g := newRig(t, configMap(rules), node("n3"))
	g.send(shared, webhook(alert("Spot", "n3", "firing")))
	g.recv.client = newRig(t, configMap(rules)).WithWatch
	if status, said := g.send(shared, webhook(alert("Spot", "n3", "resolved"))); status != http.StatusOK || len(g.maintenances()) != 0 {
		t.Errorf("%d %s; left: %v", status, said, g.maintenances())
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n3:9100", "firing"))); status != http.StatusOK || g.maintenances()["n3"] == nil {
		t.Errorf("%d %s", status, said)
	}
	if status, said := g.send(shared, webhook(alert("Spot", "n3:9100", "firing"))); status != http.StatusOK || len(g.maintenances()) != 1 {
		t.Errorf("again: %d %s", status, said)
	}
}
