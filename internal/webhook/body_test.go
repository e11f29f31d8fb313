package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// piped is a server's listener in memory, and its clients' dialer.
type piped struct {
	net.Listener

	connections chan net.Conn
	dials       atomic.Int32
}

func (p *piped) Accept() (net.Conn, error) {
	connection, ok := <-p.connections
	if !ok {
		return nil, net.ErrClosed
	}
	return connection, nil
}

func (p *piped) Close() error { return nil }

func (p *piped) Addr() net.Addr { return &net.TCPAddr{} }

func (p *piped) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.dials.Add(1)
	p.connections <- server
	return client, nil
}

// serve serves a handler in one of the protocols that apiservers speak, and returns a client of it. The server's own limits are those of
// controller-runtime's.
func serve(t *testing.T, http2 bool, hook http.Handler) (*http.Client, *piped) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	line := &piped{connections: make(chan net.Conn)}
	server := &http.Server{Handler: hook, Protocols: protocols, ReadHeaderTimeout: 32 * time.Second, IdleTimeout: 90 * time.Second}
	transport := &http.Transport{DialContext: line.dial, Protocols: protocols}
	go server.Serve(line) //nolint:errcheck // it ends with the test
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		close(line.connections)
		_ = server.Close()
	})
	return &http.Client{Transport: transport}, line
}

// unfinished is a body whose end never comes.
type unfinished struct {
	io.Reader

	ended <-chan struct{}
}

func (u *unfinished) Read(p []byte) (int, error) {
	if n, err := u.Reader.Read(p); err == nil {
		return n, nil
	}
	<-u.ended
	return 0, io.ErrUnexpectedEOF
}

func (u *unfinished) Close() error { return nil }

// TestSlowBodiesGiveTheRoomBack: a body that is sent slowly has its room no longer than an apiserver waits for an answer.
func TestSlowBodiesGiveTheRoomBack(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				yes := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
				client, _ := serve(t, http2, timed(newLarge().shared(&admission.Webhook{Handler: yes}, tooMany)))
				ctx, stop := context.WithCancel(t.Context())
				for _, namespace := range []string{"a", "b", "c"} {
					head := `{"request":{"uid":"u","namespace":"` + namespace + `","object":"` + strings.Repeat("x", 2*mostHead)
					body := &unfinished{strings.NewReader(head), ctx.Done()}
					go post(ctx, client, body, mostBody) //nolint:errcheck // the answer is the server's to give or not
				}
				<-time.After(3 * time.Second)
				whole := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","namespace":"d","name":"` + strings.Repeat("x", 2<<20) + `"}}`
				said, err := post(t.Context(), client, strings.NewReader(whole), int64(len(whole)))
				if err != nil || !strings.Contains(said, `"allowed":true`) {
					t.Errorf("answered %q, %v", said, err)
				}
				stop()
			})
		})
	}
}

func post(ctx context.Context, client *http.Client, body io.Reader, size int64) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://webhook"+PathLeave+"?timeout=2s", body)
	if err != nil {
		return "", err
	}
	request.ContentLength = size
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return string(said), err
}

// The deadline by which a body is read ends neither its answer, which may take a little longer, nor the next request on the connection.
func TestConnectionsOutliveTheirRequestsDeadline(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var early []error
				client, line := serve(t, http2, timed(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						t.Error(err)
					}
					if err := r.Context().Err(); err != nil {
						early = append(early, err)
					}
					<-time.After(5 * time.Second)
					if !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
						t.Errorf("it ends by %v", r.Context().Err())
					}
				})))
				for range 3 {
					if _, err := post(t.Context(), client, strings.NewReader("{}"), 2); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Minute)
				}
				if dials := line.dials.Load(); len(early) > 0 || dials != 1 {
					t.Errorf("%d connections; requests that had ended when they came: %v", dials, early)
				}
			})
		})
	}
}
