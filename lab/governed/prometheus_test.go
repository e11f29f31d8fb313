package governed

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/port"
	"usher.sh/usher/lab/process"
)

// What docs/notices.md has Prometheus and Alertmanager do, with their pauses as short as they can be.
const (
	prometheusConfig = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: ["%s"]}]}]}
scrape_configs: [{job_name: spot-exporter, static_configs: [{targets: ["%s"]}]}]
`
	prometheusRules = `
groups:
- name: spot
  rules:
  - {alert: SpotTerminationNotice, expr: spot_termination_notice == 1}
`
	alertmanagerConfig = `
route: {receiver: usher, group_by: ["..."], group_wait: 100ms, group_interval: 1s, repeat_interval: 1h}
receivers:
- name: usher
  webhook_configs:
  - url: https://%s/notices/alerts
    send_resolved: true
    http_config:
      authorization: {credentials_file: token}
      tls_config: {ca_file: usher-ca.crt, server_name: usher-notices.usher-system.svc}
`
)

// takesAlertsOfPrometheus has a real Prometheus find in an exporter's metrics that a node goes, and then that it does not, and a real Alertmanager say so.
func (n *notices) takesAlertsOfPrometheus(t *testing.T) {
	const requester = "alertmanager.notice.usher.sh/SpotInterruption"
	prometheus, alertmanager := installed(t, "prometheus"), installed(t, "prometheus-alertmanager")
	node := n.occupied(t)
	var goes atomic.Bool
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		value := 0
		if goes.Load() {
			value = 1
		}
		fmt.Fprintf(w, "spot_termination_notice{node=%q} %d\n", node, value)
	}))
	t.Cleanup(exporter.Close)
	dir, at := t.TempDir(), keptAddress(t)
	for name, text := range map[string]string{
		"prometheus.yaml":   fmt.Sprintf(prometheusConfig, at, strings.TrimPrefix(exporter.URL, "http://")),
		"rules.yaml":        prometheusRules,
		"alertmanager.yaml": fmt.Sprintf(alertmanagerConfig, n.address),
		"token":             noticesToken,
		"usher-ca.crt":      n.authority(t),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	n.program(t, alertmanager, "--config.file="+filepath.Join(dir, "alertmanager.yaml"), "--storage.path="+filepath.Join(dir, "alertmanager"),
		"--web.listen-address="+at, "--cluster.listen-address=")
	n.program(t, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "prometheus"),
		"--web.listen-address="+keptAddress(t))

	goes.Store(true)
	n.waitFor(t, node, requester, "the node to be drained", func(m *v1alpha1.NodeMaintenance) bool { return isComplete(m) && m.Spec.DeadlineTime != nil })
	goes.Store(false)
	n.waitFor(t, node, requester, "its maintenance to go", isGone)
	n.waitNodes(t, []string{node}, "it to be given back", asBefore)
}

// installed is the path of a program of a Debian package of the same name.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %s is not in PATH: apt-get install %s, with a policy-rc.d that keeps its service from starting", name, name)
	}
	return path
}

// keptAddress is one on loopback that no other program listens at.
func keptAddress(t *testing.T) string {
	t.Helper()
	kept, err := port.Keep()
	must(t, err)
	t.Cleanup(func() { must(t, kept.Release()) })
	return fmt.Sprintf("127.0.0.1:%d", kept.Number)
}

// authority is the certificate by which who sends knows the manager, as the documentation has it.
func (n *notices) authority(t *testing.T) string {
	t.Helper()
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	must(t, n.client.Get(t.Context(), client.ObjectKey{Name: "usher"}, webhook))
	return string(webhook.Webhooks[0].ClientConfig.CABundle)
}

// program runs a program until the test ends, and shows what it has said if that has failed.
func (n *notices) program(t *testing.T, path string, args ...string) {
	t.Helper()
	processes := n.lab.Cluster().Processes()
	p, err := process.Start(process.Spec{Name: filepath.Base(path), Path: path, Args: args, Dir: processes, EndWithParent: true})
	must(t, err)
	t.Cleanup(func() {
		if text, err := os.ReadFile(p.Log); t.Failed() {
			t.Logf("%s (%v):\n%s", path, err, text)
		}
		must(t, p.Stop(processes, 0))
	})
}
