package manager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// What is served comes from the directory that the option names, and from nowhere else.
func TestTheServerShowsTheCertificateOfItsDirectory(t *testing.T) {
	dir := t.TempDir()
	want := writeCertificate(t, dir)
	address := reserved(t)
	s, err := newServer(Options{WebhookAddress: address, Certificates: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s.certificates != nil {
		t.Fatal("it waits for a certificate of its own")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	awaitStarted(t, s.StartedChecker(), ended)
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test compares what is shown
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !shown.Equal(want) {
		t.Errorf("it shows the certificate %s", shown.SerialNumber)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// reserved is an address at which only a process that names its port can listen: the kernel gives it to no other while it is
// taken by a socket that does not listen itself.
func reserved(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// awaitStarted asks until the server answers its own connections: it does not say when.
func awaitStarted(t *testing.T, started healthz.Checker, ended <-chan error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := started(&http.Request{})
		if err == nil {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func writeCertificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(4711), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: signed}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
