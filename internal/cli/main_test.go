package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

type result struct {
	code     int
	out, err string
}

// usher runs a command line without any cluster configured.
func usher(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut}
	code := run(append([]string{"usher"}, args...), streams)
	return result{code, out.String(), errOut.String()}
}

func TestBadUsage(t *testing.T) {
	notYAML := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(notYAML, []byte("{{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"drane"}, `unknown command "drane"`},
		{"unknown flag", []string{"drain", "--frob"}, "unknown flag: --frob (usher drain --help lists the flags)"},
		{"flag of another type", []string{"drain", "a", "--timeout=x"}, `invalid argument "x" for "--timeout"`},
		{"no node", []string{"drain"}, "no node was named"},
		{"names and labels", []string{"drain", "a", "-l", "b"}, "give one of the two"},
		{"not a node", []string{"drain", "pod/a"}, `"pod/a" is not a node`},
		{"revert takes no nodes", []string{"drain", "--revert", "a"}, "so it takes no nodes"},
		{"negative timeout", []string{"drain", "a", "--timeout=-1s"}, "--timeout is negative"},
		{"dry run of what", []string{"drain", "a", "--dry-run=maybe"}, "--dry-run=maybe is not known: it can be none, client, server"},
		{"output", []string{"drain", "a", "-o", "yaml"}, "--output=yaml is not known: it can be text, json"},
		{"all that is wrong", []string{"drain", "a", "--surge=x", "--wait=y"}, "--wait=y is not known"},
		{"plan output", []string{"plan", "a", "-o", "wide"}, "--output=wide is not known: it can be text, json, yaml"},
		{"no pod", []string{"why"}, "name a pod or what owns pods"},
		{"a type alone", []string{"why", "deploy", "-l", "a=b"}, "-l selects pods by their labels"},
		{"names and labels of pods", []string{"why", "a", "-l", "a=b"}, "-l selects pods by their labels"},
		{"no name", []string{"why", "deployment/"}, `"deployment/" has no name`},
		{"not a selector", []string{"why", "-l", "a=!b="}, `-l "a=!b=" is not a label selector`},
		{"a node and a pod", []string{"why", "node/a", "b"}, "one after the other"},
		{"a node of a dump", []string{"why", "node/a", "-f", "-"}, "usher plan a shows what would keep its pods"},
		{"no node to fence", []string{"fence"}, "name one node"},
		{"a pod to fence", []string{"fence", "pod/a"}, `"pod/a" is not a node`},
		{"two pods to evict", []string{"evict", "a", "b"}, "name one pod"},
		{"not a pod to evict", []string{"evict", "node/a"}, `"node/a" is not a pod`},
		{"dry run of what to remove", []string{"uninstall", "--dry-run=maybe"}, "--dry-run=maybe is not known: it can be none, client, server"},
		{"version output", []string{"version", "-o", "yaml"}, "--output=yaml is not known: it can be text, json"},
		{"uncordon what", []string{"uncordon"}, "no node was named"},
		{"no cluster", []string{"drain", "a"}, "no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG"},
		{"no cluster to plan on", []string{"plan", "a"}, "no cluster is configured"},
		{"missing kubeconfig", []string{"drain", "a", "--kubeconfig=/does/not/exist"}, "reading the kubeconfig: stat /does/not/exist"},
		{"kubeconfig that is none", []string{"drain", "a", "--kubeconfig=" + notYAML}, "reading the kubeconfig: error loading config file"},
		{"nothing listens", []string{"drain", "a", "--server=http://127.0.0.1:1"}, "reaching the apiserver at http://127.0.0.1:1"},
		{"missing dump", []string{"plan", "a", "-f", "/does/not/exist"}, "open /does/not/exist: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := usher(t, "", tt.args...)
			if got.code != exitUsage || !strings.HasPrefix(got.err, "error: ") || !strings.Contains(got.err, tt.want) {
				t.Errorf("exit %d, stderr %q; want 1 and %q", got.code, got.err, tt.want)
			}
			if got.out != "" {
				t.Errorf("stdout %q, want nothing", got.out)
			}
		})
	}
}

func TestServersThatRefuse(t *testing.T) {
	status := func(code int, reason, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck,errchkjson // the test sees what is missing
				"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
			})
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"credentials", status(http.StatusUnauthorized, "Unauthorized", "Unauthorized"), "does not accept the credentials"},
		{"rights", status(http.StatusForbidden, "Forbidden", `pods is forbidden: User "eva" cannot list resource "pods"`), " --user=eva"},
		{"anonymous", status(http.StatusForbidden, "Forbidden", `pods is forbidden: User "system:anonymous" cannot list resource "pods"`), "treats its requests as anonymous: log in"},
		{"not an apiserver", http.NotFound, "check that the address is that of an apiserver"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			for _, command := range []string{"drain", "plan", "why", "uncordon"} {
				got := usher(t, "", command, "a", "--server="+server.URL)
				if got.code != exitUsage || !strings.Contains(got.err, tt.want) {
					t.Errorf("%s: exit %d, stderr %q; want 1 and %q", command, got.code, got.err, tt.want)
				}
			}
		})
	}
}

func TestTimeoutOfAServerThatDoesNotAnswer(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	defer server.Close()
	defer close(ended)
	for _, args := range [][]string{{"evict", "a"}, {"install", "--image=usher"}, {"uninstall"}} {
		got := usher(t, "", append(args, "--timeout=100ms", "--server="+server.URL)...)
		if got.code == exitDone || got.err == "" {
			t.Errorf("%v: exit %d, stderr %q", args, got.code, got.err)
		}
		if args[0] == "evict" && (got.code != exitLate || !strings.Contains(got.err, "timed out after 100ms (--timeout): reading pod default/a")) {
			t.Errorf("exit %d, stderr %q; want 3 and that it timed out", got.code, got.err)
		}
	}
	got := usher(t, "", "drain", "a", "-o", "json", "--timeout=100ms", "--server="+server.URL)
	if !strings.HasPrefix(got.out, `{"type":"end",`) || !strings.Contains(got.out, `"outcome":"timeout"`) {
		t.Errorf("no line for programs says how it ended: %q", got.out)
	}
	for _, args := range [][]string{{"drain", "a"}, {"drain", "--revert"}} {
		got := usher(t, "", append(args, "--timeout=100ms", "--server="+server.URL)...)
		if got.code != exitLate || !strings.Contains(got.err, "timed out after 100ms (--timeout), and no node was drained: the cluster could not be read") {
			t.Errorf("%v: exit %d, stderr %q", args, got.code, got.err)
		}
	}
}

func TestSingleRequestsThatAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,"reason":"Unauthorized","message":"Unauthorized"}`))
	}))
	defer server.Close()
	for _, command := range [][]string{{"evict", "a"}, {"evictions"}, {"notices"}} {
		for address, want := range map[string]string{
			server.URL:           "does not accept the credentials: log in again",
			"http://127.0.0.1:1": "reaching the apiserver at http://127.0.0.1:1: check that it runs",
		} {
			got := usher(t, "", append(command, "--server="+address)...)
			if got.code != exitUsage || !strings.Contains(got.err, want) {
				t.Errorf("%s: exit %d, stderr %q; want 1 and %q", command, got.code, got.err, want)
			}
		}
	}
}

func TestUnknownPodToBeEvicted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1/namespaces/default/pods":
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"namespace":"default","name":"db-0","uid":"1"}}]}`))
		case r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("fieldSelector") == "metadata.name=web-0":
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"namespace":"shop","name":"web-0","uid":"2"}}]}`))
		case r.URL.Path == "/api/v1/pods":
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"pods not found"}`))
		}
	}))
	defer server.Close()
	for name, want := range map[string]string{
		"db-9":  `namespace default has no pod "db-9"; did you mean db-0?`,
		"web-0": "but namespace shop has one: usher --server=" + server.URL + " evict web-0 -n shop",
	} {
		got := usher(t, "", "evict", name, "--server="+server.URL)
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, stderr %q; want 1 and %q", name, got.code, got.err, want)
		}
	}
}

func TestUninstallWhereNothingIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answers := map[string]string{
			"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis": `{"kind":"APIGroupList","groups":[]}`,
			"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
				{"name":"pods","kind":"Pod","namespaced":true},{"name":"namespaces","kind":"Namespace"},{"name":"nodes","kind":"Node"}]}`,
			"/api/v1/namespaces": `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`,
			"/api/v1/pods":       `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`,
			"/api/v1/nodes":      `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`,
		}
		if answer, found := answers[r.URL.Path]; found {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"not found"}`))
	}))
	defer server.Close()
	for _, dryRun := range []string{"--dry-run", "--dry-run=true", "--dry-run=client", "--dry-run=server"} {
		got := usher(t, "", "uninstall", dryRun, "--server="+server.URL)
		if got.code != 0 || got.out != "nothing of usher is in the cluster\n" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", dryRun, got.code, got.out, got.err)
		}
	}
}

func TestHelpNamesTheProgramAsItWasCalled(t *testing.T) {
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
	if code := run([]string{"/usr/local/bin/kubectl-usher", "drain", "--help"}, streams); code != exitDone {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"kubectl usher drain NODE…", "  kubectl usher drain worker-1", "130 interrupted"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the help:\n%s", want, out.String())
		}
	}
}
