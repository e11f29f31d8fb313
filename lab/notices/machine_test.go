package notices

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/test/metadatasim"
)

// metadataAddress is where clouds have their metadata services, for each machine its own.
var metadataAddress = netip.MustParseAddrPort("169.254.169.254:80")

// machine is a real node, with the metadata services of two clouds on its link.
type machine struct {
	*realnode.Node

	ec2    *metadatasim.EC2
	gce    *metadatasim.GCE
	server *http.Server
}

// newMachine gives a node that has just started its services.
func newMachine(t *testing.T, node *realnode.Node) *machine {
	t.Helper()
	m := &machine{Node: node}
	m.serve(t)
	t.Cleanup(func() { _ = m.server.Close() })
	return m
}

// serve has services answer that announce nothing.
func (m *machine) serve(t *testing.T) {
	t.Helper()
	m.ec2, m.gce = metadatasim.NewEC2(), metadatasim.NewGCE()
	listener, err := m.Listen(metadataAddress)
	if err != nil {
		t.Fatal(err)
	}
	ec2, gce := m.ec2, m.gce
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/computeMetadata/") {
			gce.ServeHTTP(w, r)
			return
		}
		ec2.ServeHTTP(w, r)
	})}
	m.server = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
}

// kill ends all processes of the machine at once, and returns when they have ended.
func (m *machine) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(m.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.Ended()
	if err := m.server.Close(); err != nil {
		t.Fatal(err)
	}
}

// boot starts it again, as a machine that is not to go.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.serve(t)
}

// spotNotice is how long before a spot machine of EC2 goes that is announced, preemption how long Google's has.
const (
	spotNotice = 2 * time.Minute
	preemption = 30 * time.Second
)

// interrupt has EC2 announce that it takes the machine back, and returns when that is.
func (m *machine) interrupt() time.Time {
	at := time.Now().Add(spotNotice).Truncate(time.Second) // what is announced is in whole seconds
	m.ec2.Interrupt("terminate", at)
	return at
}

// preempt has Google Cloud announce it.
func (m *machine) preempt() time.Time {
	at := time.Now().Add(preemption)
	m.gce.Preempt()
	return at
}
