package hypervisors

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	lab "usher.sh/usher/lab/openstack"
)

type object = map[string]any

func (r *region) connect(t *testing.T) {
	t.Helper()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudsYAML(strings.NewReader(r.cloud.Clouds())), clouds.WithCloudName(lab.CloudName))
	must(t, err)
	provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	must(t, err)
	r.keystone, err = openstack.NewIdentityV3(provider, endpoint)
	must(t, err)
	r.nova, err = openstack.NewComputeV2(provider, endpoint)
	must(t, err)
	r.nova.Microversion = "2.87"
	r.neutron, err = openstack.NewNetworkV2(provider, endpoint)
	must(t, err)
	var made struct{ Flavor struct{ ID string } }
	call(t, r.nova, http.MethodPost, object{"flavor": object{"name": t.Name(), "ram": 512, "vcpus": 1, "disk": 0}}, &made, "flavors")
	r.flavor = made.Flavor.ID
	undoing(t, r.nova, http.MethodDelete, nil, "flavors", r.flavor)
}

// call asks a service of OpenStack, beside Usher's back.
func call(t *testing.T, c *gophercloud.ServiceClient, method string, body, answer any, path ...string) {
	t.Helper()
	if err := try(t.Context(), c, method, body, answer, path...); err != nil {
		t.Fatalf("%s %s: %v", method, strings.Join(path, "/"), err)
	}
}

func try(ctx context.Context, c *gophercloud.ServiceClient, method string, body, answer any, path ...string) error {
	options := &gophercloud.RequestOpts{JSONResponse: answer, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}}
	if body != nil {
		options.JSONBody = body
	}
	response, err := c.Request(ctx, method, c.ServiceURL(path...), options)
	if err == nil && answer == nil {
		return response.Body.Close()
	}
	return err
}

// undoing asks for something when the test has ended.
func undoing(t *testing.T, c *gophercloud.ServiceClient, method string, body any, path ...string) {
	t.Helper()
	t.Cleanup(func() { _ = try(context.WithoutCancel(t.Context()), c, method, body, nil, path...) })
}

// server is what Nova says of one.
type server struct {
	ID    string
	Name  string
	State string `json:"OS-EXT-STS:vm_state"`
	Task  string `json:"OS-EXT-STS:task_state"`
	Host  string `json:"OS-EXT-SRV-ATTR:host"`
}

// boot puts a server on a host, active, and has it deleted after the test.
func (r *region) boot(t *testing.T, name, host string, change ...func(object)) string {
	t.Helper()
	wanted := object{"server": object{"name": name, "imageRef": lab.ImageID, "flavorRef": r.flavor, "networks": "none", "host": host}}
	for _, f := range change {
		f(wanted)
	}
	var made struct{ Server server }
	call(t, r.nova, http.MethodPost, wanted, &made, "servers")
	id := made.Server.ID
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = try(ctx, r.nova, http.MethodDelete, nil, nil, "servers", id)
		for try(ctx, r.nova, http.MethodGet, nil, &made, "servers", id) == nil {
			continue // it answers in some 50 ms, and deletes within seconds
		}
	})
	r.becomes(t, id, "active")
	return id
}

func (r *region) becomes(t *testing.T, id, state string) {
	t.Helper()
	until(t, "server "+id+" is "+state, func() bool { s := r.server(t, id); return s.State == state && s.Task == "" })
}

// act has Nova do something with a server, and waits for its state.
func (r *region) act(t *testing.T, id, action, state string) {
	t.Helper()
	call(t, r.nova, http.MethodPost, object{action: nil}, nil, "servers", id, "action")
	r.becomes(t, id, state)
}

func (r *region) server(t *testing.T, id string) server {
	t.Helper()
	var found struct{ Server server }
	call(t, r.nova, http.MethodGet, nil, &found, "servers", id)
	return found.Server
}

// on are the servers of a host, by their names.
func (r *region) on(t *testing.T, host string) (names []string) {
	t.Helper()
	var found struct{ Servers []server }
	call(t, r.nova, http.MethodGet, nil, &found, "servers", "detail?all_tenants=1&host="+host)
	for _, s := range found.Servers {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// migration is one of Nova's records.
type migration struct {
	Type   string `json:"migration_type"`
	Status string
	Source string `json:"source_compute"`
	Dest   string `json:"dest_compute"`
	// In UTC, without a zone.
	Created string `json:"created_at"`
	Updated string `json:"updated_at"`
}

func (r *region) migrations(t *testing.T, id string) []migration {
	t.Helper()
	var found struct{ Migrations []migration }
	call(t, r.nova, http.MethodGet, nil, &found, "os-migrations?instance_uuid="+id)
	return found.Migrations
}

// service is a nova-compute.
type service struct {
	Host, Status, State string
	ForcedDown          bool   `json:"forced_down"`
	Reason              string `json:"disabled_reason"`
}

func (r *region) service(t *testing.T, host string) service {
	t.Helper()
	var found struct{ Services []service }
	call(t, r.nova, http.MethodGet, nil, &found, "os-services?binary=nova-compute&host="+host)
	if len(found.Services) != 1 {
		t.Fatalf("services of %s: %+v", host, found.Services)
	}
	return found.Services[0]
}

// well reports what is not as it is to be at the end of a test, from OpenStack's own API: each server is there once, and as it was, none is left disabled, and what
// agents have is served by a living one.
func (r *region) well(t *testing.T, states map[string]string, things ...thing) {
	t.Helper()
	r.once(t, states)
	for _, host := range lab.Computes() {
		if s := r.service(t, host); s.Status != "enabled" || s.ForcedDown || s.Reason != "" {
			t.Errorf("nova-compute: %+v", s)
		}
	}
	for _, a := range r.agents(t, "agents") {
		if !a.Up || !a.Alive || a.Description != "" {
			t.Errorf("agent: %+v", a)
		}
	}
	for _, one := range things {
		if !slices.ContainsFunc(r.holders(t, one), func(a agent) bool { return a.Alive && a.Up }) {
			t.Errorf("%s %s has no living agent: %+v", one.kind, one.id, r.holders(t, one))
		}
	}
}

// once checks that each server is on one hypervisor, and in the state that it had.
func (r *region) once(t *testing.T, states map[string]string) {
	t.Helper()
	for _, one := range r.lost(t, states) {
		t.Error(one)
	}
}

// lost says of each server that is not on one hypervisor, or not in the state that it had, how it is.
func (r *region) lost(t *testing.T, states map[string]string) (all []string) {
	t.Helper()
	var found struct {
		Hypervisors []struct{ Servers []struct{ UUID string } }
	}
	call(t, r.nova, http.MethodGet, nil, &found, "os-hypervisors", "detail?with_servers=true")
	count := map[string]int{}
	for _, h := range found.Hypervisors {
		for _, s := range h.Servers {
			count[s.UUID]++
		}
	}
	for id, state := range states {
		if s := r.server(t, id); s.State != state || s.Task != "" || count[id] != 1 {
			all = append(all, fmt.Sprintf("server %s is %s %s on %s, was %s; hypervisors have it %d times", s.Name, s.State, s.Task, s.Host, state, count[id]))
		}
	}
	return all
}
