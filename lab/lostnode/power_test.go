package lostnode

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"usher.sh/usher/lab/realnode"
)

// power controls the machines of nodes, as a BMC does: POST /off/NODE takes a machine's power, GET /NODE says whether it has any.
type power struct {
	*httptest.Server

	mu    sync.Mutex
	off   map[string]time.Time
	stuck map[string]bool // machines that stay on
	real  map[string]*realnode.Node
	asked map[string]int
	// received is called before a request is answered, outside of the lock.
	received func(node string)
}

func newPower(t *testing.T) *power {
	t.Helper()
	p := &power{off: map[string]time.Time{}, stuck: map[string]bool{}, real: map[string]*realnode.Node{}, asked: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *power) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		state := "On"
		if !p.offSince(strings.TrimPrefix(r.URL.Path, "/")).IsZero() {
			state = "Off"
		}
		fmt.Fprintf(w, `{"PowerState":%q}`, state)
		return
	}
	node := strings.TrimPrefix(r.URL.Path, "/off/")
	p.mu.Lock()
	p.asked[node]++
	if !p.stuck[node] {
		p.cut(node)
	}
	received := p.received
	p.mu.Unlock()
	if received != nil {
		received(node)
	}
	w.WriteHeader(http.StatusNoContent)
}

// cut takes a machine's power. The caller holds the lock.
func (p *power) cut(node string) {
	if machine := p.real[node]; machine != nil {
		_ = syscall.Kill(machine.PID(), syscall.SIGKILL) // with which all its processes end
		<-machine.Ended()
	}
	p.off[node] = time.Now()
}

// controls gives power over a real node.
func (p *power) controls(node *realnode.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.real[node.Name] = node
}

func (p *power) offSince(node string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off[node]
}

// onRequest has a function called before a request to cut the power is answered.
func (p *power) onRequest(do func(node string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = do
}

// keepOn makes requests for a machine have no effect.
func (p *power) keepOn(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck[node] = true
}

// on gives a machine its power back.
func (p *power) on(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.off, node)
}

func (p *power) requests(node string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[node]
}
