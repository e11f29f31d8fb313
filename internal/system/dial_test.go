package system_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.sh/usher/internal/system"
)

func TestDialerRefuses(t *testing.T) {
	for address, loopback := range map[string]bool{
		"169.254.169.254:80":           true,
		"[fe80::1%lo]:80":              true,
		"[::ffff:169.254.169.254]:80":  true,
		"[ff02::1%lo]:80":              true,
		"[fd00:ec2::254]:80":           true,
		"[64:ff9b::169.254.169.254]:1": true,
		"[64:ff9b::127.0.0.1]:1":       false,
		"100.100.100.200:80":           true,
		"168.63.129.16:80":             true,
		"127.0.0.1:1":                  false,
		"127.8.8.8:1":                  false,
		"[::ffff:127.0.0.1]:1":         false,
		"0.0.0.0:1":                    false,
		"localhost:1":                  false,
		"[::1]:1":                      false,
	} {
		dialer := system.Access{Loopback: loopback, Timeout: time.Minute}.Dialer()
		if err := dialer.Control("tcp", address, nil); err == nil {
			t.Errorf("%s may be connected to", address)
		}
		_, err := dialer.DialContext(t.Context(), "tcp", address)
		if refused(err) || err == nil || !strings.Contains(err.Error(), "Usher does not connect to it") {
			t.Errorf("%s: got %v, want that Usher does not connect to it", address, err)
		}
	}
}

// refused reports whether the connection was tried.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}

func TestDialerRefusesThePodsOwnAddress(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, address := range addresses {
		own, ok := address.(*net.IPNet)
		if !ok || own.IP.IsLoopback() || own.IP.IsLinkLocalUnicast() {
			continue
		}
		tried++
		target := net.JoinHostPort(own.IP.String(), "1")
		if err := (system.Access{}).Dialer().Control("tcp", target, nil); err == nil || !strings.Contains(err.Error(), "the manager's own pod") {
			t.Errorf("%s: got %v", target, err)
		}
		if err := (system.Access{Loopback: true}).Dialer().Control("tcp", target, nil); err != nil {
			t.Errorf("%s, where it may be: got %v", target, err)
		}
	}
	if tried == 0 {
		t.Skip("SKIPPED: this machine has no address but loopback")
	}
	if err := (system.Access{}).Dialer().Control("tcp", "192.0.2.1:1", nil); err != nil {
		t.Errorf("another's address: got %v", err)
	}
}

func TestDialerReachesTheMachineWhereItMay(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connection, err := system.Access{Loopback: true}.Dialer().DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
}

// A redirect leads to another address, and a name may: it is the address that counts.
func TestRequestsAreNotLedAstray(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	}))
	defer server.Close()
	for name, test := range map[string]struct {
		loopback bool
		url      string
		want     string
	}{
		"redirected":      {loopback: true, url: server.URL, want: "169.254.169.254 is an address of the machine's surroundings"},
		"a name":          {url: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), want: "is the manager's own pod"},
		"its own address": {url: server.URL, want: "127.0.0.1 is the manager's own pod"},
	} {
		t.Run(name, func(t *testing.T) {
			access := system.Access{Loopback: test.loopback, Timeout: time.Minute}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := (&http.Client{Transport: access.HTTP()}).Do(request)
			if err == nil {
				_ = answer.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestRequestsKnowNoProxy(t *testing.T) {
	if transport, ok := (system.Access{}).HTTP().(*http.Transport); !ok || transport.Proxy != nil {
		t.Error("requests go by a proxy: what it connects to is not looked at")
	}
}

func TestUnquoted(t *testing.T) {
	for said, want := range map[string]string{
		`net/http: HTTP/1.x transport connection broken: malformed HTTP response "220 secret"`: "what listens there does not speak HTTP",
		`Get "http://a": readLoopPeekFailLocked: %!w(<nil>)`:                                   "what listens there does not speak HTTP",
		"connection refused": "connection refused",
	} {
		if got := system.Unquoted(errors.New(said)); got.Error() != want {
			t.Errorf("%s: %v", said, got)
		}
	}
	if err := system.Unquoted(nil); err != nil {
		t.Error(err)
	}
}
