package openstack

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/migrations"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
)

// clients are those of a test.
type clients struct{ nova, neutron *gophercloud.ServiceClient }

func connect(t *testing.T, c *Cloud) clients {
	t.Helper()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudsYAML(strings.NewReader(c.Clouds())), clouds.WithCloudName(CloudName))
	check(t, "reading clouds.yaml", err)
	provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	check(t, "authenticating", err)
	provider.HTTPClient = http.Client{Timeout: 90 * time.Second}
	nova, err := openstack.NewComputeV2(provider, endpoint)
	check(t, "finding Nova", err)
	nova.Microversion = "2.93"
	neutron, err := openstack.NewNetworkV2(provider, endpoint)
	check(t, "finding Neutron", err)
	return clients{nova: nova, neutron: neutron}
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// begin starts a control plane for a test that is not short, mostly until it is there, and logs how long that took.
func begin(t *testing.T, start func(testing.TB) *Cloud) *Cloud {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	began := time.Now()
	c := start(t)
	t.Logf("start: %.1f s", time.Since(began).Seconds())
	return c
}

// until is Until for what takes seconds.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	Until(t, 3*time.Minute, what, done)
}

func TestServersMove(t *testing.T) {
	c := begin(t, Start)
	x := connect(t, c)
	until(t, "three hosts are up", func() bool { return x.up(t) == "compute-1 compute-2 compute-3" })
	disk := 1
	flavor, err := flavors.Create(t.Context(), x.nova, flavors.CreateOpts{Name: t.Name(), RAM: 128, VCPUs: 1, Disk: &disk}).Extract()
	check(t, "making a flavor", err)
	moves, stays := x.boot(t, "moves", flavor.ID), x.boot(t, "stays", flavor.ID)
	until(t, "two servers are active", func() bool {
		return x.server(t, moves).Status == "ACTIVE" && x.server(t, stays).Status == "ACTIVE"
	})
	check(t, "live-migrating", servers.LiveMigrate(t.Context(), x.nova, moves, anywhere{}).ExtractErr())
	var migration migrations.Migration
	until(t, "the migration has ended", func() bool {
		migration = x.migration(t, moves)
		return migration.Status == "completed" || migration.Status == "error"
	})
	if migration.Status != "completed" || migration.SourceCompute != "compute-1" || migration.DestCompute == "compute-1" {
		t.Errorf("got migration %+v, want one completed, from compute-1 to another host", migration)
	}
	if host := x.server(t, moves).Host; host != migration.DestCompute {
		t.Errorf("the server that was migrated is on %q, want %q", host, migration.DestCompute)
	}
	if host := x.server(t, stays).Host; host != "compute-1" {
		t.Errorf("the server that was not migrated is on %q", host)
	}
	for _, id := range []string{moves, stays} {
		check(t, "deleting a server", servers.Delete(t.Context(), x.nova, id).ExtractErr())
	}
	until(t, "no server is left", func() bool { return len(x.servers(t)) == 0 })
	check(t, "deleting the flavor", flavors.Delete(t.Context(), x.nova, flavor.ID).ExtractErr())
}

func TestFaultsAreSeenAndUndone(t *testing.T) {
	c := begin(t, Start)
	x := connect(t, c)
	t.Run("a nova-compute", func(t *testing.T) {
		c.KillCompute(t, "compute-2")
		until(t, "down", func() bool { return x.up(t) == "compute-1 compute-3" })
		c.StartCompute(t, "compute-2")
		until(t, "up again", func() bool { return x.up(t) == "compute-1 compute-2 compute-3" })
	})
	t.Run("an agent", func(t *testing.T) {
		c.Silence(t, "compute-1", DHCP)
		until(t, "silent", func() bool { return x.silent(t) == "compute-1/neutron-dhcp-agent" })
		c.Revive(t, "compute-1", DHCP)
		until(t, "back", func() bool { return x.silent(t) == "" })
	})
	t.Run("all agents of a host", func(t *testing.T) {
		c.Silence(t, NetworkHost, AllAgents)
		until(t, "silent", func() bool { return strings.Count(x.silent(t), NetworkHost) == 4 })
	})
	t.Run("after a test", func(t *testing.T) {
		until(t, "all are back", func() bool { return x.silent(t) == "" })
	})
}

// anywhere is a live migration to a host of Nova's choice, which servers.LiveMigrateOpts cannot say.
type anywhere struct{}

func (anywhere) ToLiveMigrateMap() (map[string]any, error) {
	return map[string]any{"os-migrateLive": map[string]any{"host": nil, "block_migration": "auto"}}, nil
}

// boot asks for a server on compute-1.
func (x clients) boot(t *testing.T, name, flavor string) string {
	t.Helper()
	server, err := servers.Create(t.Context(), x.nova, servers.CreateOpts{
		Name: name, ImageRef: ImageID, FlavorRef: flavor, HypervisorHostname: "compute-1", Networks: "none",
	}, nil).Extract()
	check(t, "booting", err)
	return server.ID
}

func (x clients) server(t *testing.T, id string) *servers.Server {
	t.Helper()
	server, err := servers.Get(t.Context(), x.nova, id).Extract()
	check(t, "looking at a server", err)
	if server.Status == "ERROR" {
		t.Fatalf("%s is in ERROR: %s", server.Name, server.Fault.Message)
	}
	return server
}

func (x clients) servers(t *testing.T) []servers.Server {
	t.Helper()
	page, err := servers.List(x.nova, servers.ListOpts{AllTenants: true}).AllPages(t.Context())
	check(t, "listing servers", err)
	list, err := servers.ExtractServers(page)
	check(t, "listing servers", err)
	return list
}

// migration is the server's only one; none yet: without a status.
func (x clients) migration(t *testing.T, server string) migrations.Migration {
	t.Helper()
	page, err := migrations.List(x.nova, migrations.ListOpts{InstanceID: &server}).AllPages(t.Context())
	check(t, "listing migrations", err)
	list, err := migrations.ExtractMigrations(page)
	check(t, "listing migrations", err)
	if len(list) != 1 {
		return migrations.Migration{}
	}
	return list[0]
}

// up are the hosts whose nova-compute is up and enabled.
func (x clients) up(t *testing.T) string {
	t.Helper()
	page, err := services.List(x.nova, services.ListOpts{Binary: "nova-compute"}).AllPages(t.Context())
	check(t, "listing services", err)
	list, err := services.ExtractServices(page)
	check(t, "listing services", err)
	var hosts []string
	for _, s := range list {
		if s.State == "up" && s.Status == "enabled" {
			hosts = append(hosts, s.Host)
		}
	}
	return sorted(hosts)
}

// silent are the agents that are not alive.
func (x clients) silent(t *testing.T) string {
	t.Helper()
	page, err := agents.List(x.neutron, agents.ListOpts{}).AllPages(t.Context())
	check(t, "listing agents", err)
	list, err := agents.ExtractAgents(page)
	check(t, "listing agents", err)
	var names []string
	for _, a := range list {
		if !a.Alive {
			names = append(names, a.Host+"/"+a.Binary)
		}
	}
	return sorted(names)
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, " ")
}
