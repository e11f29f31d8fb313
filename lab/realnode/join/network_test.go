package join_test

import (
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestOwnNetwork: on nodes with networks of their own, pods on these listen at the same port, and at the same address something else answers on each;
// pods reach each other as on other nodes.
func TestOwnNetwork(t *testing.T) {
	l := testlab.Get(t)
	nodes := l.StartRealNodes(t, join.Options{Count: 2, OwnNetwork: true})
	ns := l.Namespace(t)
	for name, shares := range map[string]bool{"shares": true, "own": false} {
		l.DaemonSet(t, ns, name, func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec = testlab.RealPod(t)
			d.Spec.Template.Spec.HostNetwork = shares
		})
	}
	pods := l.WaitReady(t, ns, nil, 2*len(nodes))
	for _, from := range pods {
		for _, to := range pods {
			get(t, from, "/fetch?url="+url.QueryEscape(address(to)+"/ready"))
		}
	}
	beside := netip.MustParseAddrPort("169.254.169.254:80")
	for _, node := range nodes {
		listener, err := node.Listen(beside)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, node.Name) })} //nolint:gosec // the test's own clients
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	for _, pod := range pods {
		if answer := strings.TrimSpace(get(t, pod, "/fetch?url="+url.QueryEscape("http://"+beside.String()+"/"))); answer != pod.Spec.NodeName {
			t.Errorf("%s on %s is answered by %q", pod.Name, pod.Spec.NodeName, answer)
		}
	}
	for _, pod := range podsOn(pods, nodes[0].Name) { // through the kubelet
		logs, err := l.Client().CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil || len(logs) > 0 {
			t.Errorf("the logs of %s are %q (%v), want none", pod.Name, logs, err)
		}
	}
}
