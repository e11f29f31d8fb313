package cli

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// installed runs usher install without a cluster.
func installed(args ...string) (code int, out, errOut string) {
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	code = run(append([]string{"usher", "install", "--dry-run=client"}, args...), streams)
	return code, o.String(), e.String()
}

func TestInstallNeedsAnImage(t *testing.T) {
	for _, args := range [][]string{nil, {"--agent"}, {"--agent", "--webhook-url", "https://127.0.0.1:9443"}} {
		code, out, errOut := installed(args...)
		if code != 1 || out != "" || !strings.Contains(errOut, "--image is missing") || !strings.Contains(errOut, "make image") {
			t.Errorf("%v: exit code %d, printed %q and said %q; want it to ask for --image and to name make image", args, code, out, errOut)
		}
	}
	if code, _, errOut := installed("--webhook-url", "https://127.0.0.1:9443"); code != 0 {
		t.Errorf("an image is asked for where nothing runs in the cluster: %s", errOut)
	}
}

func TestInstallChecksAddressesBeforeItWrites(t *testing.T) {
	tests := []struct {
		flag, value string
		refused     string // "": taken
	}{
		{"--image", "usher", ""},
		{"--image", "localhost/usher:a", ""},
		{"--image", "registry.example:5000/team/usher_x/us-her:v1.2@sha256:" + strings.Repeat("0a", 32), ""},
		{"--image", "[::1]:5000/usher", ""},
		{"--image", "my usher", `--image "my usher" is not the name of an image`},
		{"--image", "localhost/Usher", "is not the name of an image"},
		{"--image", "https://registry.example/usher", "is not the name of an image"},
		{"--image", "usher:", "is not the name of an image"},
		{"--fdbcli-image", "foundationdb/foundationdb:7.3.63", ""},
		{"--fdbcli-image", "UPPER/x", `--fdbcli-image "UPPER/x" is not the name of an image`},
		{"--fdbcli-image", "", "--fdbcli-image is empty: name an image with fdbcli, or leave it out"},
		{"--image", "UPPER/x", "is not the name of an image"},
		{"--image", "Registry.Example/x", ""},
		{"--image", "REGISTRY:5000/x", ""},
		{"--fdbcli-image", "Foundation", `--fdbcli-image "Foundation" is not the name of an image`},
		{"--webhook-url", "https://127.0.0.1:9443", ""},
		{"--webhook-url", "https://usher.example/hooks", ""},
		{"--webhook-url", "foo", `--webhook-url "foo": apiservers call webhooks at https://HOST[:PORT][/PATH] only`},
		{"--webhook-url", "http://usher.example", "https://HOST[:PORT][/PATH] only"},
		{"--webhook-url", "https://:9443", "https://HOST[:PORT][/PATH] only"},
		{"--webhook-url", "https://usher.example:x", "--webhook-url is no URL"},
		{"--webhook-url", "https://usher.example?a=b", "no user, query or fragment"},
	}
	for _, tt := range tests {
		args := []string{tt.flag, tt.value}
		if tt.flag == "--fdbcli-image" {
			args = append(args, "--image", "usher")
		}
		code, out, errOut := installed(args...)
		switch {
		case tt.refused == "" && code != exitDone:
			t.Errorf("%s %s: exit %d, said %q", tt.flag, tt.value, code, errOut)
		case tt.refused != "" && (code != exitUsage || out != "" || !strings.Contains(errOut, tt.refused)):
			t.Errorf("%s %s: exit %d, printed %q, said %q; want %q", tt.flag, tt.value, code, out, errOut, tt.refused)
		}
	}
}

// TestInstallThatFailsHalfWay: the namespace is applied, and no other kind is known to the apiserver.
func TestInstallThatFailsHalfWay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answers := map[string]string{
			"/version": `{"major":"1","minor":"34","gitVersion":"v1.34.0"}`,
			"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis":    `{"kind":"APIGroupList","groups":[]}`,
			"/api/v1":  `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace"}]}`,
		}
		answer, found := answers[r.URL.Path]
		switch {
		case found:
			_, _ = w.Write([]byte(answer))
		case r.Method == http.MethodPatch:
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"here","uid":"1","resourceVersion":"1"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"not found"}`))
		}
	}))
	t.Cleanup(server.Close)
	got := usher(t, "", "install", "--image=usher", "-n", "here", "--server="+server.URL)
	want := "the installation is not complete: usher --server=" + server.URL + " uninstall -n here removes what is there of it"
	if got.code != exitUsage || !strings.Contains(got.out, "created") || !strings.Contains(got.err, want) {
		t.Errorf("exit %d, printed %q, said %q; want %q", got.code, got.out, got.err, want)
	}
}

func TestInstallDryRun(t *testing.T) {
	want, asked := "", "install --image localhost/usher:a "
	for _, dryRun := range []string{"--dry-run=client", "--dry-run", "--dry-run=true"} {
		got := usher(t, "", strings.Fields(asked+dryRun)...)
		want = cmp.Or(want, got.out)
		if got.code != exitDone || got.out != want || want == "" {
			t.Errorf("%s: exit %d, %d bytes of manifests, want %d; said %q", dryRun, got.code, len(got.out), len(want), got.err)
		}
	}
	for flags, want := range map[string]string{
		"--dry-run=maybe": "--dry-run=maybe is not known: it can be none, client, server",
		"--dry-run maybe": `usher install takes no names, and was given "maybe"`,
	} {
		if got := usher(t, "", strings.Fields(asked+flags)...); got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, said %q, want %q", flags, got.code, got.err, want)
		}
	}
}

func TestInstallTakesTheImage(t *testing.T) {
	of := func(args ...string) string {
		_, out, _ := installed(args...)
		return out
	}
	if !strings.Contains(of("--image", "localhost/usher:a"), "image: localhost/usher:a\n") {
		t.Error("--image is not in the manifests")
	}
	releaseImage = "registry.example/usher:v1"
	t.Cleanup(func() { releaseImage = "" })
	if !strings.Contains(of("--agent"), "image: registry.example/usher:v1\n") {
		t.Error("a release does not install its image")
	}
	if out := of("--image", "localhost/usher:a"); strings.Contains(out, "registry.example") {
		t.Error("a release installs its image where another is named")
	}
}

// TestInstallAsksForTheVersionFirst: an apiserver that is too old is asked for nothing else, and nothing is written to it.
func TestInstallAsksForTheVersionFirst(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/version" {
			t.Errorf("%s %s", r.Method, r.URL)
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "29", GitVersion: "v1.29.3"}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for _, dryRun := range []string{dryRunNone, dryRunServer} {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		code := run([]string{"usher", "install", "--server", server.URL, "--image", "localhost/usher:a", "--dry-run=" + dryRun}, streams)
		if code != 1 || out.Len() > 0 || !strings.Contains(errOut.String(), "runs Kubernetes v1.29.3, which is too old for Usher: installing needs 1.30 or later") {
			t.Errorf("--dry-run=%s: exit code %d, printed %q and said %q", dryRun, code, out, errOut)
		}
	}
}
