package arangosim

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// Fault makes answers go wrong. What it does not name matches everything.
type Fault struct {
	Server string // id
	Method string
	Path   string // how the path begins
	Times  int    // how often; 0: until Heal

	// One of these happens.
	Refuse bool // the connection is refused: the request does not arrive
	Silent bool // there is no answer until the caller gives up
	Lost   bool // the request is carried out and the connection breaks before the answer
	Cut    int  // after so many bytes the answer breaks off
	Status int  // this is the answer, with Location and Body

	Location string
	Body     string
}

// Inject adds a fault; the first that matches a request happens to it.
func (c *Cluster) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Heal takes all faults away.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// strike returns the fault that happens to a request, nil if none does.
func (c *Cluster) strike(server string, r *http.Request) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.faults, func(f *Fault) bool {
		return (f.Server == "" || f.Server == server) && (f.Method == "" || f.Method == r.Method) && strings.HasPrefix(r.URL.Path, f.Path)
	})
	if at < 0 {
		return nil
	}
	f := c.faults[at]
	if f.Times--; f.Times == 0 {
		c.faults = slices.Delete(c.faults, at, at+1)
	}
	return f
}

// brokenBody is a body that ends before its end.
type brokenBody struct{ io.Reader }

func (brokenBody) Close() error { return nil }

func broken(body string, after int) io.ReadCloser {
	return brokenBody{io.MultiReader(strings.NewReader(body[:min(after, len(body))]), failing{})}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
