package openstack_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/test/httpfault"
)

// proxied is a site where something else answers for what ends with a path.
type proxied struct {
	simulated

	path   string
	status int
	body   string
}

func (p proxied) transport() http.RoundTripper { return answering{p.simulated.transport(), p} }

type answering struct {
	http.RoundTripper

	proxy proxied
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, a.proxy.path) {
		return a.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: a.proxy.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.proxy.body)), Request: r}, nil
}

// A proxy that answers 404 for Neutron says nothing of its extensions: an agent is not given up with Usher's mark on it, and a router that has left it is looked
// for until Neutron itself says that it is not there.
func TestAProxyAnswersForNeutron(t *testing.T) {
	for name, body := range map[string]string{"without words": "<html>nothing here</html>", "in JSON": "{}"} {
		cloud := networkCloud()
		id := cloud.Make("l3", "r", "compute-1")
		b := roleBench(t, cloud, "neutron-l3-agent")
		b.turn("compute-1")
		b.turn("compute-1")
		cloud.Inject(httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true})
		if err := b.prepare("compute-1"); err == nil || cloud.Served(id) {
			t.Fatalf("%s: the router is on %v", name, cloud.Hosts(id))
		}
		for _, at := range []string{"/l3-routers", "/l3-agents", "/v2.0/agents"} {
			cloud.Inject(httpfault.Fault{Path: at, Status: 404, Body: body})
			if undone, err := b.undo("compute-1"); err == nil || undone.Done || !strings.Contains(err.Error(), "it answered 404") {
				t.Errorf("%s, 404 at %s: %+v, %v", name, at, undone, err)
			}
			cloud.Heal()
		}
		for _, status := range []int{200, 404} {
			proxy := newBench(t, proxied{simulated{cloud}, "/v2.0/routers/" + id, status, body}, v1alpha1.OpenStack{})
			proxy.role, proxy.job = b.role, b.job
			if undone, err := proxy.undo("compute-1"); err == nil {
				t.Errorf("%s, %d: what is no router counts as one that is gone: %+v", name, status, undone)
			}
		}
		b.undoAll(cloud)
		if a := cloud.Agent("l3", "compute-1"); !a.Up || a.Description != "" || !cloud.Served(id) {
			t.Errorf("%s: %+v, the router is on %v", name, a, cloud.Hosts(id))
		}
	}
}

// Where an extension is not loaded any more, the agent that was begun by it is given back all the same.
func TestAnExtensionIsUnloadedMidway(t *testing.T) {
	cloud := networkCloud()
	b := roleBench(t, cloud, "neutron-bgp-agent")
	b.run(cloud, "compute-1", 5)
	cloud.Missing = []string{"bgp_dragent_scheduler"}
	undone := b.undoAll(cloud)
	if a := cloud.Agent("bgp", "compute-1"); !a.Up || a.Description != "" || !strings.HasSuffix(undone.Left, "its extension bgp_dragent_scheduler is not loaded in neutron-server") {
		t.Errorf("%+v, %s", a, undone.Left)
	}
}
