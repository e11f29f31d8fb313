package hypervisors

import (
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// requests counts what is asked of Nova and Neutron by the endpoints of a region of its own in the catalog.
type requests struct {
	sync.Mutex
	kinds tally
}

// tally is how many requests there were of a kind.
type tally map[string]int

// region is the name of that region; "" where nothing is counted.
func (q *requests) region() string {
	if q == nil {
		return ""
	}
	return "Counted"
}

// identified are the parts of a path that are no kind's.
var identified = regexp.MustCompile(`[0-9a-f-]{32,36}|/[0-9]+$`)

func (q *requests) add(request *http.Request) {
	q.Lock()
	defer q.Unlock()
	q.kinds[request.Method+" "+identified.ReplaceAllString(request.URL.Path, "…")]++
}

// take returns what was counted since it was called before.
func (q *requests) take() tally {
	q.Lock()
	defer q.Unlock()
	taken := q.kinds
	q.kinds = tally{}
	return taken
}

// log logs the kinds, the most frequent first, and returns how many requests there were in all.
func (k tally) log(t *testing.T) (all int) {
	t.Helper()
	for _, kind := range slices.SortedFunc(maps.Keys(k), func(a, b string) int { return cmp.Or(k[b]-k[a], cmp.Compare(a, b)) }) {
		t.Logf("%4d %s", k[kind], kind)
		all += k[kind]
	}
	return all
}

// toNova is how many of them Nova had.
func (k tally) toNova() (all int) {
	for kind, n := range k {
		if strings.Contains(kind, " /v2.1") {
			all += n
		}
	}
	return all
}

// count adds the region, which has what the region itself has, and Nova and Neutron by proxies.
func (r *region) count(t *testing.T) {
	t.Helper()
	r.requests = &requests{kinds: tally{}}
	var catalog struct {
		Endpoints []struct {
			URL     string
			Service string `json:"service_id"`
		}
	}
	call(t, r.keystone, http.MethodGet, nil, &catalog, "endpoints?interface=public")
	for _, e := range catalog.Endpoints {
		address := e.URL
		for _, client := range []*gophercloud.ServiceClient{r.nova, r.neutron} {
			if strings.HasPrefix(client.Endpoint, address) {
				address = r.proxied(t, address)
			}
		}
		var made struct{ Endpoint struct{ ID string } }
		endpoint := object{"interface": "public", "region": r.requests.region(), "service_id": e.Service, "url": address}
		call(t, r.keystone, http.MethodPost, object{"endpoint": endpoint}, &made, "endpoints")
		undoing(t, r.keystone, http.MethodDelete, nil, "endpoints", made.Endpoint.ID)
	}
}

// proxied is an address that leads to another, and counts what goes there.
func (r *region) proxied(t *testing.T, address string) string {
	t.Helper()
	own, err := url.Parse(address)
	must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		r.requests.add(p.In)
		p.SetURL(&url.URL{Scheme: own.Scheme, Host: own.Host})
		p.Out.Host = p.In.Host // of which the links of answers are made
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL + own.Path
}
