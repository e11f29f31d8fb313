package rest

import (
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

var machine = system.Machine{
	Node:       &snapshot.Node{Name: "n 1", Labels: map[string]string{"node-restriction.kubernetes.io/bmc": "b7"}},
	ProviderID: "lab://7", Addresses: map[string]string{"InternalIP": "10.0.0.7"},
}

func fenceOf(t *testing.T, url string, change ...func(*v1alpha1.HTTPFence)) *Fence {
	t.Helper()
	spec := &v1alpha1.HTTPFence{
		Method: "POST", URL: url + "/{{node.name}}/off", Body: `{"id": {{node.providerID}}, "bmc": {{node.labels["node-restriction.kubernetes.io/bmc"]}}}`,
		Headers: []v1alpha1.Header{{Name: "Authorization", Secret: &v1alpha1.SecretKey{Name: "bmc", Key: "token"}}},
		Observe: v1alpha1.HTTPObservation{URL: url + "/{{node.name}}", Until: `answer.PowerState == "Off"`},
	}
	for _, f := range change {
		f(spec)
	}
	f, err := NewFence(spec, system.Access{
		Timeout: 5 * time.Second, Loopback: true, Secrets: map[v1alpha1.SecretKey][]byte{{Name: "bmc", Key: "token"}: []byte("secret\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestFenceOff(t *testing.T) {
	var asked string
	code := nethttp.StatusNoContent
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.EscapedPath() + " " + r.Header.Get("Authorization") + " " + string(body)
		if code == 0 {
			panic(nethttp.ErrAbortHandler) // the connection is cut
		}
		w.WriteHeader(code)
	}))
	defer server.Close()
	f := fenceOf(t, server.URL)
	for _, c := range []struct {
		code int
		want v1alpha1.RequestResult
	}{{204, v1alpha1.RequestAccepted}, {403, v1alpha1.RequestRefused}, {302, v1alpha1.RequestRefused}, {500, v1alpha1.RequestUnknown}, {0, v1alpha1.RequestUnknown}} {
		code = c.code
		if got, message := f.Off(t.Context(), machine); got != c.want {
			t.Errorf("%d: %s: %s", c.code, got, message)
		}
	}
	server.Close() // returns when the last handler has: a connection that is cut does not say when
	if want := `POST /n%201/off secret {"id": "lab://7", "bmc": "b7"}`; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if got, message := f.Off(t.Context(), machine); got != v1alpha1.RequestNotSent || strings.Contains(message, "secret") {
		t.Errorf("to a closed port: %s: %s", got, message)
	}
	bare := machine
	bare.ProviderID = ""
	if got, message := f.Off(t.Context(), bare); got != v1alpha1.RequestNotSent || !strings.Contains(message, `"node.providerID" is not known`) {
		t.Errorf("with a value that is missing: %s: %s", got, message)
	}
}

// Only an answer that says so proves anything.
func TestFenceState(t *testing.T) {
	answer, code := "", nethttp.StatusOK
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	f := fenceOf(t, server.URL)
	for _, c := range []struct {
		code   int
		answer string
		want   v1alpha1.PowerState
	}{
		{200, `{"PowerState":"Off"}`, v1alpha1.PowerOff},
		{200, `{"PowerState":"On"}`, v1alpha1.PowerOn},
		{200, `{"PowerState":null}`, v1alpha1.PowerOn},
		{200, `{}`, v1alpha1.PowerUnknown},
		{200, `Off`, v1alpha1.PowerUnknown},
		{200, ``, v1alpha1.PowerUnknown},
		{200, `null`, v1alpha1.PowerUnknown},
		{404, `{"PowerState":"Off"}`, v1alpha1.PowerUnknown},
		{500, `{"PowerState":"Off"}`, v1alpha1.PowerUnknown},
		{200, `"` + strings.Repeat("x", maxReply) + `"`, v1alpha1.PowerUnknown},
	} {
		answer, code = c.answer, c.code
		if got, message := f.State(t.Context(), machine); got != c.want {
			t.Errorf("%d %.40s: %s: %s", c.code, c.answer, got, message)
		}
	}
	server.Close()
	if got, message := f.State(t.Context(), machine); got != v1alpha1.PowerUnknown || !strings.Contains(message, "connection refused") {
		t.Errorf("%s: %s", got, message)
	}
}

func TestFencesThatCannotBeUsed(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.HTTPFence){
		"must begin with http":        func(s *v1alpha1.HTTPFence) { s.URL = "/power" },
		"there is no fact 'nme'":      func(s *v1alpha1.HTTPFence) { s.URL = "http://b/{{node.nme}}" },
		"may speak of node alone":     func(s *v1alpha1.HTTPFence) { s.Body = "{{member.id}}" },
		"{{answer}} may speak of":     func(s *v1alpha1.HTTPFence) { s.Observe.URL = "http://b/{{answer}}" },
		"must speak of answer":        func(s *v1alpha1.HTTPFence) { s.Observe.Until = "true" },
		"type int and must be of":     func(s *v1alpha1.HTTPFence) { s.Observe.Until = "size(answer) + 1" },
		"observe.until: Syntax error": func(s *v1alpha1.HTTPFence) { s.Observe.Until = "answer ==" },
	} {
		spec := &v1alpha1.HTTPFence{Method: "POST", URL: "http://b/", Observe: v1alpha1.HTTPObservation{URL: "http://b/", Until: "answer.off"}}
		change(spec)
		if _, err := NewFence(spec, system.Access{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
