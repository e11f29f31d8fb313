package arangodb

import (
	"net/url"
	"strings"
)

// schemes are what servers say of how they are spoken to, and what HTTP calls it.
var schemes = map[string]string{
	"tcp": "http", "http": "http", "http+tcp": "http",
	"ssl": "https", "https": "https", "http+ssl": "https",
}

// webURL turns an endpoint as servers write it into a URL without a path, "" where that cannot be done: a socket, say.
func webURL(endpoint string) string {
	scheme, address, found := strings.Cut(strings.TrimSpace(endpoint), "://")
	web := schemes[strings.ToLower(scheme)]
	parsed, err := url.Parse(web + "://" + address)
	if !found || web == "" || err != nil || parsed.Host == "" {
		return ""
	}
	return web + "://" + parsed.Host
}

// firstLabel is the host's first label: what a pod of a StatefulSet is called in a name like db-0.db.space.svc.
func firstLabel(endpoint string) string {
	parsed, err := url.Parse(webURL(endpoint))
	if err != nil {
		return ""
	}
	label, _, _ := strings.Cut(parsed.Hostname(), ".")
	return label
}

// sameOrigin reports whether two URLs lead to the same listener.
func sameOrigin(a, b string) bool {
	first, errA := url.Parse(a)
	second, errB := url.Parse(b)
	return errA == nil && errB == nil && first.Scheme == second.Scheme && first.Host == second.Host && first.Host != ""
}
