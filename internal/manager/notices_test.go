package manager

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of all ConfigMaps the manager keeps the one with the configuration of notices, and none where it does not follow notices: it may read no other.
func TestOfConfigMapsOneIsKept(t *testing.T) {
	kept := func(o Options) map[client.Object]bool {
		found := map[client.Object]bool{}
		for kind, by := range cacheOptions(&slimmer{}, requests{}, o).ByObject {
			if _, is := kind.(*corev1.ConfigMap); is {
				found[kind] = true
				one, is := by.Namespaces["guards"]
				if !is || len(by.Namespaces) != 1 || one.FieldSelector.String() != fields.OneTermEqualSelector("metadata.name", "usher-notices").String() {
					t.Errorf("kept: %+v", by)
				}
			}
		}
		return found
	}
	if len(kept(Options{Namespace: "guards", NoticesAddress: ":9444"})) != 1 {
		t.Error("the configuration is not kept")
	}
	if len(kept(Options{Namespace: "guards"})) != 0 {
		t.Error("ConfigMaps are kept")
	}
}

func TestAlertHosts(t *testing.T) {
	if got := alertHosts(Options{Namespace: "guards", NoticesAddress: ":9444"}); !slices.Equal(got, []string{"usher-notices.guards.svc"}) {
		t.Error(got)
	}
	if got := alertHosts(Options{Namespace: "guards"}); got != nil {
		t.Error(got)
	}
}

// Alerts are taken by TLS, until the manager ends.
func TestAlertsAreTakenByTLS(t *testing.T) {
	dir, address := t.TempDir(), reserved(t)
	shown := writeCertificate(t, dir)
	files, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	s := &alertServer{address: address, files: files, handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "taken") })}
	if s.NeedLeaderElection() {
		t.Error("one replica alone takes alerts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	awaitStarted(t, func(*http.Request) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address) //nolint:gosec // only whether it listens
		if err == nil {
			_ = conn.Close()
		}
		return err
	}, ended)
	roots := x509.NewCertPool()
	roots.AddCert(shown)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error { //nolint:gosec // it is compared
		if !c.PeerCertificates[0].Equal(shown) {
			t.Errorf("it shows the certificate %s", c.PeerCertificates[0].SerialNumber)
		}
		return nil
	}}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/notices/alerts", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := web.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	web.CloseIdleConnections()
	if string(body) != "taken" {
		t.Errorf("%s", body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
