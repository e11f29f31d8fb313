package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"usher.sh/usher/internal/cli/show"
)

// clusterWith returns the address of an apiserver that answers every request with answer.
func clusterWith(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

func serveManager(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/apis/apps/v1/namespaces/usher-system/deployments/usher-manager" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"not found"}`))
		return
	}
	_, _ = w.Write([]byte(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"usher-manager","namespace":"usher-system"},
		"spec":{"template":{"spec":{"containers":[{"name":"manager","image":"registry.example/usher:v1.2.3"}]}}},
		"status":{"replicas":2,"updatedReplicas":1,"readyReplicas":2}}`))
}

func TestVersion(t *testing.T) {
	url := clusterWith(t, serveManager)
	tests := []struct {
		name string
		args []string
		want []string
		not  string
	}{
		{"the flag", []string{"--version"}, []string{"usher " + Version() + "\n"}, "manager"},
		{"no cluster", []string{"version"}, []string{"usher " + Version() + "\n", runtime.Version(), "manager      not asked for: no cluster is configured"}, ""},
		{"no cluster is asked", []string{"version", "--client", "--server=" + url}, []string{runtime.GOOS + "/" + runtime.GOARCH}, "manager"},
		{"a manager", []string{"version", "--server=" + url}, []string{"registry.example/usher:v1.2.3 in namespace usher-system, 2 of 2 ready, 1 of them still of another image"}, ""},
		{"no manager", []string{"version", "-n", "elsewhere", "--server=" + url}, []string{"not installed in namespace elsewhere"}, ""},
		{"no answer", []string{"version", "--server=http://127.0.0.1:1"}, []string{"usher " + Version(), "manager      unknown: "}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := usher(t, "", tt.args...)
			for _, want := range tt.want {
				if got.code != exitDone || !strings.Contains(got.out, want) {
					t.Errorf("exit %d, no %q in\n%s%s", got.code, want, got.out, got.err)
				}
			}
			if tt.not != "" && strings.Contains(got.out, tt.not) {
				t.Errorf("%q in\n%s", tt.not, got.out)
			}
		})
	}
}

func TestVersionForPrograms(t *testing.T) {
	got := usher(t, "", "version", "-o", "json", "--server="+clusterWith(t, serveManager))
	var page show.Version
	if err := json.Unmarshal([]byte(got.out), &page); err != nil {
		t.Fatalf("%v in %s", err, got.out)
	}
	if page.Version != Version() || page.Go != runtime.Version() || page.Manager == nil || page.Manager.Image != "registry.example/usher:v1.2.3" || page.Manager.Ready != 2 {
		t.Errorf("got %s", got.out)
	}
}
