package notices

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Requests go to the machine's own service, whatever the environment says of proxies.
func TestClientHasNoProxy(t *testing.T) {
	if newTransport().Proxy != nil {
		t.Error("a proxy may stand between")
	}
}

// On a real connection, the client follows nothing, reads so much and waits so long.
func TestClient(t *testing.T) {
	followed := false
	mux := http.NewServeMux()
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { followed = true })
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Long", strings.Repeat("a", 2*mostHeader))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("a", 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/drops", func(w http.ResponseWriter, r *http.Request) { // an answer that comes byte by byte
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "a") // the client leaves
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	mux.HandleFunc("/coding", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client := newMetadataClient(server.URL, nil)
	for path, want := range map[string]string{
		"/headers": "server response headers exceeded",
		"/endless": "the answer has more than 1048576 bytes",
		"/drops":   "no answer came within 300ms",
	} {
		patience := 10 * time.Second
		if path == "/drops" {
			patience = 300 * time.Millisecond
		}
		if _, err := client.call(t.Context(), patience, http.MethodGet, path, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if a, err := client.call(t.Context(), 10*time.Second, http.MethodGet, "/moved", nil, nil); err != nil || a.status != http.StatusFound || followed {
		t.Errorf("a redirect: %d, %v, followed: %v", a.status, err, followed)
	}
	if a, err := client.call(t.Context(), 10*time.Second, http.MethodGet, "/coding", nil, nil); err != nil || len(a.body) > 0 {
		t.Errorf("it accepts %q, %v", a.body, err)
	}
}
