package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
)

// TestServerDryRunEnds: programs read until the end line, which carries the outcome.
func TestServerDryRunEnds(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		code    int
		outcome string
	}{
		{"allowed", http.StatusCreated, exitDone, "drained"},
		{"a budget is used up", http.StatusTooManyRequests, exitBlocked, "blocked"},
		{"forbidden", http.StatusForbidden, exitUsage, "no-access"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "w"}, Spec: corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				status := apierrors.NewGenericServerResponse(tt.status, "create", corev1.Resource("pods"), "web", "", 0, false).Status()
				if tt.status == http.StatusCreated {
					status.Status = metav1.StatusSuccess
				}
				status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.status)
				if err := json.NewEncoder(w).Encode(status); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(server.Close)
			asked, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			clock := &observe.Clock{}
			source, err := observe.Start(t.Context(), client, observe.Options{Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			s := &session{connection: &connection{client: asked, clock: clock}, source: source}
			defer s.close()
			var out bytes.Buffer
			v := newVoice(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, "json", show.Commands{Flags: []string{"--context=lab"}})
			req := drain.Request{Nodes: []string{"a"}, Force: true, Started: clock.Now()}
			var ended exit
			if err := askServer(t.Context(), s, req, v); err != nil && !errors.As(err, &ended) || ended.code != tt.code {
				t.Errorf("ended with %v, want code %d", err, tt.code)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, `{"type":"end",`) || !strings.Contains(last, `"outcome":"`+tt.outcome+`"`) {
				t.Errorf("the last line is %s", last)
			}
			if want := "a drain may start a replacement first (--surge), and waits for what others will allow. `usher --context=lab plan`"; !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		})
	}
}
