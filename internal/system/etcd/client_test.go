package etcd_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
)

func openReal(t *testing.T, timeout time.Duration, urls ...string) system.System {
	t.Helper()
	s, err := etcd.Open(&v1alpha1.System{Etcd: &v1alpha1.Etcd{}}, system.Access{Endpoints: urls, Timeout: timeout, Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// closedPort is an address that refuses connections: a bound port without a listener, so that no other process can listen there.
func closedPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// silentPort accepts connections and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// A refused connection is reported as such; without failing fast it would be a time-out.
func TestConnectionRefused(t *testing.T) {
	one, two := closedPort(t), closedPort(t)
	_, err := openReal(t, time.Minute, one, two).Observe(t.Context(), nil)
	for _, part := range []string{
		"no endpoint gives a list of members that a quorum confirms: ",
		one + ": dial tcp " + strings.TrimPrefix(one, "http://") + ": connect: connection refused; ",
		two + ": dial tcp",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}

func TestSilence(t *testing.T) {
	url := silentPort(t)
	_, err := openReal(t, 100*time.Millisecond, url).Observe(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), url+": no answer in time") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := openReal(t, time.Hour, url).Observe(ctx, nil); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("error %v", err)
	}
}

func TestSecretsMustBeThere(t *testing.T) {
	spec := &v1alpha1.System{Etcd: &v1alpha1.Etcd{Auth: &v1alpha1.SecretName{Name: "user"}}}
	_, err := etcd.Open(spec, system.Access{Secrets: map[v1alpha1.SecretKey][]byte{{Name: "user", Key: "username"}: []byte("u")}})
	if err == nil || !strings.Contains(err.Error(), "secret user has no password") {
		t.Errorf("error %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s := openReal(t, time.Second, closedPort(t), silentPort(t))
	_, _ = s.Observe(t.Context(), nil)
	s.Close()
	if _, err := s.Observe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the client is closed") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for left := stacks(); strings.Contains(left, "google.golang.org/grpc"); left = stacks() {
		if ctx.Err() != nil {
			t.Fatalf("goroutines are left:\n%s", left)
		}
		runtime.Gosched()
	}
}

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// Members report the URLs at which they listen; no such URL makes Usher connect to its own pod.
func TestItselfIsNotAsked(t *testing.T) {
	url := closedPort(t)
	s, err := etcd.Open(&v1alpha1.System{Etcd: &v1alpha1.Etcd{}}, system.Access{Endpoints: []string{url}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Observe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "127.0.0.1 is the manager's own pod") {
		t.Errorf("error %v", err)
	}
}

// Any service that speaks HTTP/2 may listen there; its page is not read out.
func TestPagesAreNotShown(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("a secret page"))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	_, err := openReal(t, time.Minute, server.URL).Observe(t.Context(), nil)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "text/html") {
		t.Errorf("error %v", err)
	}
}
