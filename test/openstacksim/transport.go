package openstacksim

import (
	"net/http"

	"usher.sh/usher/test/httpfault"
)

// ExpireTokens has all tokens be no longer valid.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

// TakeRequests returns the requests that have come, as METHOD PATH, and forgets them.
func (c *Cloud) TakeRequests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.requests
	c.requests = nil
	return all
}

// Transport carries requests to the region without a socket. Faults happen here.
func (c *Cloud) Transport() http.RoundTripper {
	return httpfault.Transport(func(r *http.Request) (*http.Response, error) {
		c.record(r)
		answer, err := c.Serve("", r, http.HandlerFunc(c.serve))
		if err == nil && answer.StatusCode == hang {
			return httpfault.Silence(r)
		}
		return answer, err
	})
}

func (c *Cloud) record(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
}
