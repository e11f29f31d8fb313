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
