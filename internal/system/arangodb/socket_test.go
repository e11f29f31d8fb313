package arangodb

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// Over a real socket: the server's certificate is checked, the token arrives, and one that is not trusted is named.
func TestOverTLS(t *testing.T) {
	var authorization string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"role":"SINGLE","mode":"default"}`))
	}))
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	key := v1alpha1.SecretKey{Name: "jwt", Key: "token"}
	observe := func(config *tls.Config) (string, error) {
		sys, err := Open(&v1alpha1.System{ArangoDB: &v1alpha1.ArangoDB{JWT: &key}}, system.Access{
			Endpoints: []string{server.URL}, TLS: config, Loopback: true, Timeout: time.Minute, Secrets: map[v1alpha1.SecretKey][]byte{key: []byte("secret")},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer sys.Close()
		evidence, err := sys.Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{ID: "db-0"}}})
		if err != nil {
			return "", err
		}
		return evidence.Summary, nil
	}
	if summary, err := observe(&tls.Config{RootCAs: trusted}); err != nil || summary != "a single server" {
		t.Errorf("summary is %q, error %v", summary, err)
	}
	if !strings.HasPrefix(authorization, "bearer eyJ") {
		t.Errorf("authorization is %q", authorization)
	}
	if _, err := observe(nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error is %v, want one that speaks of the certificate", err)
	}
}

func TestItselfIsNotAsked(t *testing.T) {
	sys, err := Open(&v1alpha1.System{ArangoDB: &v1alpha1.ArangoDB{}}, system.Access{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	if _, err := sys.Observe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "127.0.0.1 is the manager's own pod") {
		t.Errorf("error %v", err)
	}
}
