package openstack_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	usher "usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/openstacksim"
)

// site is a region with three hosts compute-1 to compute-3, simulated or real, and what may be done to it beside the system's back.
type site interface {
	clouds() []byte
	transport() http.RoundTripper // nil: the real one
	now() time.Time
	// boot puts a server on a host, in a vm_state, and returns its id.
	boot(t *testing.T, name, host, state string) string
	// stay puts a server on compute-1 for which no other host is valid.
	stay(t *testing.T) string
	resume(t *testing.T, id string)
	// state is a server's vm_state, with its task, and its host.
	state(t *testing.T, id string) (state, host string)
	// pass lets a moment go by.
	pass(ctx context.Context)
	// give makes a router, network or speaker, for agents of a short type, that those of these hosts have, and returns its id. A router that several have is
	// one with HA. Such agents are on compute-1, compute-2 and net-1.
	give(t *testing.T, short, name string, hosts ...string) string
	// holders are the hosts whose agents have one, with the state of a router with HA as HOST(active).
	holders(t *testing.T, short, id string) []string
	power

	// enabled reports whether the agent of a host is, and its description.
	enabled(t *testing.T, short, host string) (up bool, description string)
}

// on runs a case against a simulated region, and against the real one whose clouds.yaml USHER_OPENSTACK_CLOUDS names: its hosts are changed, and servers
// are made and deleted there.
func on(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) {
		cloud := openstacksim.New(3)
		cloud.AddAgents("compute-1=ovs,l3,dhcp,bgp", "compute-2=ovs,l3,dhcp,bgp", "compute-3=ovs", "net-1=ovs,l3,dhcp,bgp")
		test(t, simulated{cloud})
	})
	if path := os.Getenv("USHER_OPENSTACK_CLOUDS"); path != "" {
		t.Run("real", func(t *testing.T) { test(t, newRealSite(t, path)) })
	}
}

type simulated struct{ *openstacksim.Cloud }

func (s simulated) clouds() []byte               { return []byte(openstacksim.CloudsYAML) }
func (s simulated) transport() http.RoundTripper { return s.Transport() }
func (s simulated) now() time.Time               { return s.Now() }
func (s simulated) pass(context.Context)         { s.Advance(time.Second) }

func (s simulated) give(_ *testing.T, short, name string, hosts ...string) string {
	return s.Make(short, name, hosts...)
}

func (s simulated) holders(_ *testing.T, _, id string) []string { return s.Hosts(id) }

func (s simulated) enabled(_ *testing.T, short, host string) (up bool, description string) {
	a := s.Agent(short, host)
	return a.Up, a.Description
}

func (s simulated) boot(_ *testing.T, name, host, state string) string {
	return s.Boot(name, host, state)
}

func (s simulated) stay(*testing.T) string {
	id := s.Boot("alone", "compute-1", "active")
	s.Change(id, func(server *openstacksim.Server) { server.Nowhere = true })
	return id
}

func (s simulated) resume(_ *testing.T, id string) {
	s.Change(id, func(server *openstacksim.Server) { server.State = "active" })
}

func (s simulated) state(_ *testing.T, id string) (state, host string) {
	server := s.Server(id)
	return server.State + server.Task, server.Host
}

// wait waits for so long, or until the context has ended.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// mustCall makes a call that must succeed.
func mustCall(t *testing.T, client *gophercloud.ServiceClient, method, path string, body, answer any) {
	t.Helper()
	options := &gophercloud.RequestOpts{JSONBody: body, JSONResponse: answer, OkCodes: []int{200, 201, 202, 204}}
	if _, err := client.Request(t.Context(), method, client.ServiceURL(path), options); err != nil {
		t.Fatal(err)
	}
}

// realSite is a region whose hypervisors need not be real.
type realSite struct {
	file    []byte
	client  *gophercloud.ServiceClient
	neutron *gophercloud.ServiceClient
	flavor  string
}

// image is the one that the servers are made of: the lab's only one where none is named.
func image() string {
	return cmp.Or(os.Getenv("USHER_OPENSTACK_IMAGE"), "11111111-2222-3333-4444-555555555555")
}

// login is what a clouds.yaml holds, and a client of its account.
func login(t *testing.T, path string) (file []byte, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options, endpoint, err := usher.Account(file)
	if err != nil {
		t.Fatal(err)
	}
	provider, err = openstack.AuthenticatedClient(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return file, provider, endpoint
}

func newRealSite(t *testing.T, path string) *realSite {
	t.Helper()
	file, provider, endpoint := login(t, path)
	client, err := openstack.NewComputeV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "2.87"
	neutron, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	s := &realSite{file: file, client: client, neutron: neutron}
	for _, host := range []string{"compute-1", "compute-2", "compute-3"} {
		s.open(t, host)
	}
	var made struct{ Flavor struct{ ID string } }
	s.post(t, "flavors", map[string]any{"flavor": map[string]any{"name": fmt.Sprintf("usher-%d", time.Now().UnixNano()), "ram": 128, "vcpus": 1, "disk": 0}}, &made)
	s.flavor = made.Flavor.ID
	t.Cleanup(func() { s.remove("flavors/" + s.flavor) })
	return s
}

func (s *realSite) clouds() []byte             { return s.file }
func (*realSite) transport() http.RoundTripper { return nil }
func (*realSite) now() time.Time               { return time.Now() }
func (*realSite) pass(ctx context.Context)     { wait(ctx, time.Second) }

func (s *realSite) post(t *testing.T, path string, body, answer any) {
	t.Helper()
	mustCall(t, s.client, http.MethodPost, path, body, answer)
}

// remove deletes what a test has made, also when its context has ended.
func (s *realSite) remove(path string) {
	_, _ = s.client.Delete(context.Background(), s.client.ServiceURL(path), nil)
}

func (s *realSite) boot(t *testing.T, name, host, state string) string {
	t.Helper()
	id := s.make(t, map[string]any{"server": map[string]any{
		"name": name, "imageRef": image(), "flavorRef": s.flavor, "networks": "none", "host": host,
	}})
	if action := map[string]string{"stopped": "os-stop", "paused": "pause", "suspended": "suspend"}[state]; action != "" {
		s.post(t, "servers/"+id+"/action", map[string]any{action: nil}, nil)
		s.becomes(t, id, state)
	}
	return id
}

// make boots a server. On a host that was enabled a moment ago Nova finds no room: Placement learns of that up to a minute later.
func (s *realSite) make(t *testing.T, body map[string]any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var made struct{ Server struct{ ID string } }
		s.post(t, "servers", body, &made)
		t.Cleanup(func() { s.remove("servers/" + made.Server.ID) })
		state := s.ended(t, made.Server.ID)
		if state == "active" {
			return made.Server.ID
		}
		if fault := s.fault(t, made.Server.ID); ctx.Err() != nil || !strings.Contains(fault, "No valid host") {
			t.Fatalf("server %s is %s: %s", made.Server.ID, state, fault)
		}
		s.remove("servers/" + made.Server.ID) // which counts for the quota
		for range 5 {
			s.pass(ctx)
		}
	}
}

// ended waits until a server that is made has come up, or not.
func (s *realSite) ended(t *testing.T, id string) (state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; s.pass(ctx) {
		if state, _ = s.state(t, id); state == "active" || state == "error" {
			break
		}
	}
	return state
}

func (s *realSite) becomes(t *testing.T, id, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		state, _ := s.state(t, id)
		if state == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("server %s is %s, and not %s: %s", id, state, want, s.fault(t, id))
		}
		s.pass(ctx)
	}
}

// fault is what Nova says of a server that it could not make.
func (s *realSite) fault(t *testing.T, id string) string {
	t.Helper()
	var found struct {
		Server struct {
			Fault struct{ Message, Details string }
		}
	}
	if _, err := s.client.Get(t.Context(), s.client.ServiceURL("servers", id), &found, nil); err != nil {
		return err.Error()
	}
	return found.Server.Fault.Message + " " + found.Server.Fault.Details
}

// stay fills all hosts with members of a group that share none.
func (s *realSite) stay(t *testing.T) string {
	t.Helper()
	var made struct {
		Group struct{ ID string } `json:"server_group"`
	}
	s.post(t, "os-server-groups", map[string]any{"server_group": map[string]any{"name": "usher", "policy": "anti-affinity"}}, &made)
	t.Cleanup(func() { s.remove("os-server-groups/" + made.Group.ID) })
	var here string
	for _, host := range []string{"compute-1", "compute-2", "compute-3"} {
		id := s.make(t, map[string]any{
			"server":             map[string]any{"name": "alone", "imageRef": image(), "flavorRef": s.flavor, "networks": "none", "host": host},
			"os:scheduler_hints": map[string]any{"group": made.Group.ID},
		})
		here = cmp.Or(here, id)
	}
	return here
}

func (s *realSite) resume(t *testing.T, id string) {
	t.Helper()
	s.post(t, "servers/"+id+"/action", map[string]any{"resume": nil}, nil)
	s.becomes(t, id, "active")
}

func (s *realSite) state(t *testing.T, id string) (state, host string) {
	t.Helper()
	var found struct {
		Server struct {
			State string `json:"OS-EXT-STS:vm_state"`
			Task  string `json:"OS-EXT-STS:task_state"`
			Host  string `json:"OS-EXT-SRV-ATTR:host"`
		}
	}
	if _, err := s.client.Get(t.Context(), s.client.ServiceURL("servers", id), &found, nil); err != nil {
		t.Fatal(err)
	}
	return found.Server.State + found.Server.Task, found.Server.Host
}
