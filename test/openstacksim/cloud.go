package openstacksim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/test/httpfault"
)

// The account that may log in, and its clouds.yaml.
const (
	User       = "usher-user-id"
	password   = "right"
	CloudsYAML = `clouds:
  sim:
    region_name: RegionOne
    auth: {auth_url: "http://keystone.sim:5000/v3", username: usher, password: right, project_name: admin, user_domain_name: Default, project_domain_name: Default}
`
)

// Cloud is a region. Its exported fields may be set before it is used.
type Cloud struct {
	httpfault.Faults

	// Least and Most are Nova's microversions.
	Least, Most string
	// Regions are those of the catalog.
	Regions []string
	// PageSize is how many entries a page has at most.
	PageSize int
	// AtOnce is max_concurrent_live_migrations, Live how long one takes, Cold the same for a cold one.
	AtOnce     int
	Live, Cold time.Duration
	// Evacuation is how long one takes.
	Evacuation time.Duration
	// Missing are extensions of Neutron that are not loaded. Refuses is a host whose agents refuse what they are given.
	Missing []string
	Refuses string
	// Quota is what Nova says to cold migrations; "": it does them.
	Quota string
	// NoAdmin: the account may not list hypervisors. NoFilters: it may, and Nova leaves out in silence that it asks for one host.
	NoAdmin, NoFilters bool
	// Strange: the account's project has no machines of Ironic, and it may see no others.
	Strange bool

	// Twice are servers that were rebuilt although they ran elsewhere already.
	Twice []string

	mu         sync.Mutex
	now        time.Time
	hosts      []*Host
	servers    []*Server
	migrations []*Migration
	agents     []*Agent
	deleted    []*Agent
	things     []*Thing
	machines   []*Machine
	tokens     map[string]bool
	made       int // tokens, agents and things
	requests   []string
}

// Host is a compute host with its service.
type Host struct {
	Name    string
	Up      bool
	Enabled bool
	Reason  string
	// Forced: Nova takes it for down, whatever it reports.
	Forced bool
}

// Server is a virtual machine.
type Server struct {
	ID, Name, Host string
	State, Task    string // vm_state and task_state
	// Nowhere: no host is valid for it: its group forbids all, say.
	Nowhere bool
	before  string // its state before a cold migration
}

// Migration is one of Nova's.
type Migration struct {
	ID                  int64
	Server              string
	Kind, Status        string
	Source, Destination string
	User                string
	Created             time.Time
	Changed             time.Time // zero before the first change, and not found by the time of changes then
	left                time.Duration
}

// New is a region with hosts called compute-1, compute-2, …
func New(hosts int) *Cloud {
	var names []string
	for i := range hosts {
		names = append(names, fmt.Sprintf("compute-%d", i+1))
	}
	return Named(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), names...)
}

// Named is a region with hosts of these names, where it is a time.
func Named(now time.Time, hosts ...string) *Cloud {
	c := &Cloud{
		Least: "2.1", Most: "2.93", Regions: []string{"RegionOne"}, PageSize: 1000, AtOnce: 1, Live: 5 * time.Second, Cold: 3 * time.Second, Evacuation: 4 * time.Second,
		now: now, tokens: map[string]bool{},
	}
	for _, name := range hosts {
		c.hosts = append(c.hosts, &Host{Name: name, Up: true, Enabled: true})
	}
	return c
}

// Now is the time there.
func (c *Cloud) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Boot puts a server on a host, and returns its id.
func (c *Cloud) Boot(name, host, state string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", len(c.servers)+1)
	c.servers = append(c.servers, &Server{ID: id, Name: name, Host: host, State: state})
	return id
}

// Change changes a server behind Nova's back, by its name or id.
func (c *Cloud) Change(server string, change func(*Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.server(server))
}

// ChangeHost changes a host.
func (c *Cloud) ChangeHost(name string, change func(*Host)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.host(name))
}

// Server is a copy of one, by name or id.
func (c *Cloud) Server(server string) Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.server(server)
}

// Host is a copy of one.
func (c *Cloud) Host(name string) Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.host(name)
}

// On are the names of the servers on a host.
func (c *Cloud) On(host string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, s := range c.servers {
		if s.Host == host {
			names = append(names, s.Name)
		}
	}
	return names
}

// Servers are copies of all.
func (c *Cloud) Servers() []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Server
	for _, s := range c.servers {
		all = append(all, *s)
	}
	return all
}

// Migrations are copies of all.
func (c *Cloud) Migrations() []Migration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Migration
	for _, m := range c.migrations {
		all = append(all, *m)
	}
	return all
}

// Break has a migration that is under way fail.
func (c *Cloud) Break(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.migrations {
		if m.ID != id {
			continue
		}
		c.set(m, "error")
		s := c.server(m.Server)
		if s.Task = ""; m.Kind == "evacuation" {
			s.State = "error"
		}
	}
}

// Migrate has another account begin a migration: live-migration, migration or resize.
func (c *Cloud) Migrate(server, kind, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.server(server)
	c.begin(s, kind, user)
}

func (c *Cloud) server(server string) *Server {
	for _, s := range c.servers {
		if s.ID == server || s.Name == server {
			return s
		}
	}
	return nil
}

func (c *Cloud) host(name string) *Host {
	for _, h := range c.hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// begin makes a migration that the scheduler has not looked at. That the server is being moved shows at once.
func (c *Cloud) begin(s *Server, kind, user string) {
	m := &Migration{ID: int64(len(c.migrations) + 1), Server: s.ID, Kind: kind, Status: "accepted", Source: s.Host, User: user, Created: c.now}
	s.Task = "migrating"
	if kind != "live-migration" {
		s.Task, m.Status = "resize_prep", "pre-migrating"
	}
	c.migrations = append(c.migrations, m)
}

// Advance lets time pass.
func (c *Cloud) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const tick = time.Second
	for ; by > 0; by -= tick {
		c.now = c.now.Add(tick)
		running := map[string]int{}
		for _, m := range c.migrations {
			if m.Status == "running" {
				running[m.Source]++
			}
		}
		for _, m := range c.migrations {
			c.step(m, running, tick)
		}
		c.stepNetwork(tick)
		for _, m := range c.machines {
			m.stepPower()
		}
	}
}

func (c *Cloud) step(m *Migration, running map[string]int, tick time.Duration) {
	s := c.server(m.Server)
	switch m.Status {
	case "accepted", "pre-migrating":
		c.schedule(m, s)
	case "evacuating":
		c.rebuild(m, s, tick)
	case "queued":
		if running[m.Source] < c.AtOnce {
			running[m.Source]++
			c.set(m, "running")
			m.left = c.Live
		}
	case "running", "migrating":
		if !c.host(m.Source).Up {
			return // which is nowhere written down
		}
		if m.left -= tick; m.left > 0 {
			m.Changed = c.now
			return
		}
		c.arrive(m, s)
	case "confirming":
		c.set(m, "confirmed")
		s.State, s.Task = s.before, ""
	}
}

// schedule finds a host for a server. That there is none shows in the migration alone: the server is as it was.
func (c *Cloud) schedule(m *Migration, s *Server) {
	to := c.target(s)
	if source := c.host(m.Source); to == nil || !source.Up {
		c.set(m, "error")
		s.Task = ""
		return
	}
	m.Destination = to.Name
	if m.Kind == "live-migration" {
		c.set(m, "queued")
		return
	}
	c.set(m, "migrating")
	s.Task, m.left = "resize_migrating", c.Cold
}

// target is the host with the fewest servers that may take one.
func (c *Cloud) target(s *Server) *Host {
	load := map[string]int{}
	for _, other := range c.servers {
		load[other.Host]++
	}
	var open []*Host
	for _, h := range c.hosts {
		if h.Up && !h.Forced && h.Enabled && h.Name != s.Host && !s.Nowhere {
			open = append(open, h)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return slices.MinFunc(open, func(a, b *Host) int { return cmp.Compare(load[a.Name], load[b.Name]) })
}

func (c *Cloud) arrive(m *Migration, s *Server) {
	s.Host, s.Task = m.Destination, ""
	if m.Kind == "live-migration" {
		c.set(m, "completed")
		return
	}
	s.before, s.State = s.State, "resized"
	c.set(m, "finished")
}

func (c *Cloud) set(m *Migration, status string) { m.Status, m.Changed = status, c.now }
