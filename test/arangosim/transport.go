package arangosim

import (
	"net/http"

	"usher.sh/usher/test/httpfault"
)

// Transport carries requests to the deployment without a socket: what a request's host names is asked. Faults happen here.
func (c *Cluster) Transport() http.RoundTripper {
	return httpfault.Transport(func(r *http.Request) (*http.Response, error) {
		id, up := c.listening(r.URL.Host)
		if !up {
			return nil, httpfault.Refused()
		}
		return c.Serve(id, r, c)
	})
}

// listening is the server at an address.
func (c *Cluster) listening(host string) (id string, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.host == host && (p.up || id == "") {
			id, up = p.id, p.up
		}
	}
	return id, up
}
