package observe

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/nodepressure"
)

const (
	nodePath    = "/api/v1/nodes/worker-1"
	podsPath    = "/api/v1/pods"
	summaryPath = nodePath + "/proxy/stats/summary"
	configPath  = nodePath + "/proxy/configz"

	summaryText = `{"node":{"nodeName":"worker-1","memory":{"time":"2026-11-21T09:00:00Z","availableBytes":700,"workingSetBytes":300}},
		"pods":[{"podRef":{"namespace":"shop","name":"web-0","uid":"u-web"},"memory":{"time":"2026-11-21T09:00:00Z","workingSetBytes":50}}]}`
)

// kubeletServer serves one node with two pods and its kubelet, other than what a test replaces.
func kubeletServer(t *testing.T, replaced map[string]http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	handlers := map[string]http.HandlerFunc{
		nodePath: servedObject(&corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status.",
				LastTransitionTime: metav1.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
			}}},
		}),
		podsPath: servedObject(&corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			Items: []corev1.Pod{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u-web"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job-0", UID: "u-job"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
			},
		}),
		summaryPath: servedText(http.StatusOK, summaryText),
		configPath:  servedText(http.StatusOK, `{"kubeletconfig":{"evictionHard":{"memory.available":"200Mi"}}}`),
	}
	maps.Copy(handlers, replaced)
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.HandleFunc(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func servedObject[T any](o T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(o) //nolint:errcheck // the test sees what is missing
	}
}

// servedText is what a kubelet or a proxy answers.
func servedText(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		w.Write([]byte(body)) //nolint:errcheck // the test sees what is missing
	}
}

// servedStatus is what an apiserver answers.
func servedStatus(code int32, reason metav1.StatusReason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code))
		json.NewEncoder(w).Encode(metav1.Status{ //nolint:errcheck // the test sees what is missing
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		})
	}
}

func TestReadNodeUse(t *testing.T) {
	var selector string
	list := servedObject(&corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
	client := kubeletServer(t, map[string]http.HandlerFunc{podsPath: func(w http.ResponseWriter, r *http.Request) {
		selector = r.URL.Query().Get("fieldSelector")
		list(w, r)
	}})
	if _, err := ReadNodeUse(t.Context(), client, "worker-1"); err != nil || selector != "spec.nodeName=worker-1" {
		t.Errorf("selected %q, %v", selector, err)
	}
	use, err := ReadNodeUse(t.Context(), kubeletServer(t, nil), "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	pods := use.Summary.Pods(use.Pods)
	if len(pods) != 1 || pods[0].Name != "web-0" || pods[0].Usage == nil || pods[0].Usage.Memory != 50 {
		t.Errorf("got pods %+v; want web-0 alone, which uses 50", pods)
	}
	want := nodepressure.Reading{Available: 700, Capacity: 1000, At: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(want, use.Summary.Node(use.Node).Readings[nodepressure.MemoryAvailable]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadNodeUseSaysWhoRefuses(t *testing.T) {
	tests := []struct {
		name    string
		path    string
		handler http.HandlerFunc
		want    []string
	}{
		{"no such node", nodePath, servedStatus(404, metav1.StatusReasonNotFound, `nodes "worker-1" not found`), []string{`reading node worker-1: nodes "worker-1" not found`}},
		{"credentials", nodePath, servedStatus(401, metav1.StatusReasonUnauthorized, "Unauthorized"), []string{"does not accept the credentials"}},
		{
			"may not get nodes", nodePath, servedStatus(403, metav1.StatusReasonForbidden, `nodes "worker-1" is forbidden: User "eva" cannot get resource "nodes"`),
			[]string{"you may not get nodes:", "--resource=nodes,pods,nodes/proxy", "--user=eva"},
		},
		{
			"may not list pods", podsPath, servedStatus(403, metav1.StatusReasonForbidden, `pods is forbidden: User "eva" cannot list resource "pods"`),
			[]string{"the pods of node worker-1: you may not list pods of all namespaces", "--user=eva"},
		},
		{"pods fail", podsPath, servedStatus(500, metav1.StatusReasonInternalError, "etcd is away"), []string{"reading the pods of node worker-1", "etcd is away"}},
		{
			"may not use the proxy", summaryPath, servedStatus(403, metav1.StatusReasonForbidden, `nodes "worker-1" is forbidden: User "system:serviceaccount:ops:eva" cannot get resource "nodes/proxy"`),
			[]string{"you may not get nodes/proxy", "--serviceaccount=ops:eva", "read it with -f"},
		},
		{
			"kubelet refuses the apiserver", summaryPath, servedText(403, "Forbidden (user=apiserver, verb=get, resource=nodes, subresource(s)=[stats])\n"),
			[]string{"does not let the apiserver read nodes/stats", "system:kubelet-api-admin", "Forbidden (user=apiserver, verb=get, resource=nodes, subresource(s)=[stats]) (code 403)"},
		},
		{"kubelet knows no such user", summaryPath, servedText(401, "Unauthorized"), []string{"does not let the apiserver read nodes/stats"}},
		{"something on the way refuses", summaryPath, servedText(403, "denied destination"), []string{"something between the apiserver and it refused (the node has not been ready", "denied destination (code 403)"}},
		{"no address", summaryPath, servedStatus(500, metav1.StatusReasonInternalError, "no preferred addresses found; known addresses: []"), []string{"it is no real node, or one whose kubelet has not reported yet"}},
		{
			"anonymous", nodePath, servedStatus(403, metav1.StatusReasonForbidden, `nodes "worker-1" is forbidden: User "system:anonymous" cannot get resource "nodes"`),
			[]string{"treats its requests as anonymous: log in"},
		},
		{"no kubelet", summaryPath, servedText(404, "404 page not found\n"), []string{"no real kubelet: 404 page not found (code 404)"}},
		{
			"nothing listens", summaryPath, servedStatus(503, metav1.StatusReasonServiceUnavailable, "error trying to reach service: dial tcp 10.0.0.1:10250: connect: connection refused"),
			[]string{"the apiserver cannot reach it", "not been ready since 2026-11-21 08:00:00 UTC: Kubelet stopped posting node status.", "connection refused"},
		},
		{"bad gateway", summaryPath, servedText(502, "error dialing backend: EOF"), []string{"cannot reach it", "error dialing backend: EOF (code 502)"}},
		{"kubelet fails", summaryPath, servedText(500, "failed to get imageFs stats: missing image stats"), []string{"asking the kubelet of node worker-1: failed to get imageFs stats: missing image stats (code 500)"}},
		{"cut short", summaryPath, servedText(200, summaryText[:100]), []string{"what the kubelet of node worker-1 measured", "breaks off after 100 bytes"}},
		{"connection lost", summaryPath, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.Write([]byte(summaryText)) //nolint:errcheck // it is cut off on purpose
		}, []string{"its answer broke off", "unexpected EOF"}},
		{"something else", summaryPath, servedText(200, "<html>log in</html>"), []string{"no summary of a kubelet", `begins with "<html>log in`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadNodeUse(t.Context(), kubeletServer(t, map[string]http.HandlerFunc{tt.path: tt.handler}), "worker-1")
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if missing := tt.path == nodePath && tt.name == "no such node"; apierrors.IsNotFound(err) != missing {
				t.Errorf("taken for a missing node: %t, want %t", !missing, missing)
			}
		})
	}
}

func TestReadNodeUseDoesNotWaitForever(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	client := kubeletServer(t, map[string]http.HandlerFunc{summaryPath: func(_ http.ResponseWriter, r *http.Request) {
		cancel(context.DeadlineExceeded) // as kubeletPatience would; not before, since the node and its pods are asked for first
		<-r.Context().Done()
	}})
	_, err := ReadNodeUse(ctx, client, "worker-1")
	if err == nil || !strings.Contains(err.Error(), "no answer within 20s") {
		t.Errorf("got %v", err)
	}
}

func TestReadThresholds(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string // of memory.available
		err     string
	}{
		{name: "its own", want: "200Mi"},
		{name: "forbidden", handler: servedStatus(403, metav1.StatusReasonForbidden, "no"), err: "no"},
		{name: "no JSON", handler: servedText(200, "hello"), err: "reading the kubelet's configuration"},
		{name: "something else", handler: servedText(200, "{}"), err: "has no kubeletconfig"},
		{name: "not to be understood", handler: servedText(200, `{"kubeletconfig":{"evictionHard":{"memory.available":"much"}}}`), err: "evictionHard"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			replaced := map[string]http.HandlerFunc{}
			if tt.handler != nil {
				replaced[configPath] = tt.handler
			}
			config, err := ReadThresholds(t.Context(), kubeletServer(t, replaced), "worker-1")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || config.EvictionHard["memory.available"] != tt.want {
				t.Errorf("got %v, %v", config.EvictionHard, err)
			}
		})
	}
}
