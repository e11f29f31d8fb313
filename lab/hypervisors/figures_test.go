package hypervisors

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lab "usher.sh/usher/lab/openstack"
)

// many is how many servers the host has.
const many = 20

// TestFigures empties a host by a shell loop and then, with as many other servers, by a maintenance, and prints what that takes.
func TestFigures(t *testing.T) {
	if !*figured {
		t.Skip("it takes minutes: make bench-openstack")
	}
	r := newRegion(t)
	r.quota(t, -1, -1)
	defer r.quota(t, 10, 20) // Nova's defaults
	var looped, emptied, migrating, unserved time.Duration
	var asked, askedNova, lost int
	t.Run("a shell loop", func(t *testing.T) { looped = r.shellLoop(t) })
	t.Run("a maintenance", func(t *testing.T) {
		states, things := r.active(t), r.things(t)
		routers := r.watchRouters(t, things)
		r.requests.take()
		began := time.Now()
		t.Log(r.succeeds(t, "maintain", "compute-1"))
		emptied = time.Since(began)
		kinds := r.requests.take()
		asked, askedNova = kinds.log(t), kinds.toNova()
		r.emptied(t)
		migrating = r.migrated(t, states, began)
		r.giveBack(t, "compute-1")
		unserved = routers()
		all := r.lost(t, states)
		t.Log(strings.Join(all, "\n"))
		lost = len(all)
		r.well(t, states, things...)
	})
	if t.Failed() {
		return // what was measured is of something else
	}
	fmt.Printf("host emptied: %.1f s, sum of its migrations at nova's limit: %.1f s\n", emptied.Seconds(), migrating.Seconds())
	fmt.Printf("shell loop of live migrations: %.1f s\n", looped.Seconds())
	fmt.Printf("requests per server moved: %.1f (to Nova %.1f, to Neutron %.1f)\n", float64(asked)/many, float64(askedNova)/many, float64(asked-askedNova)/many)
	fmt.Printf("router without a living agent: %.1f s\n", unserved.Seconds())
	fmt.Printf("servers lost: %d\n", lost)
}

// active boots many servers on compute-1, and returns their states.
func (r *region) active(t *testing.T) map[string]string {
	t.Helper()
	states := map[string]string{}
	for i := range many {
		states[r.boot(t, fmt.Sprintf("web-%d", i), "compute-1")] = "active"
	}
	return states
}

// quota is how many servers and processors a project may have; -1: any number.
func (r *region) quota(t *testing.T, servers, processors int) {
	t.Helper()
	call(t, r.nova, http.MethodPut, object{"quota_class_set": object{"instances": servers, "cores": processors}}, nil, "os-quota-class-sets", "default")
}

// loop is what a person writes to empty a host.
const loop = `set -eu
openstack compute service set --disable --disable-reason maintenance compute-1 nova-compute
servers=$(openstack server list --all-projects --host compute-1 -f value -c ID)
for server in $servers; do
	openstack server migrate --live-migration --wait "$server"
done`

// shellLoop empties compute-1 by it, and returns how long that took.
func (r *region) shellLoop(t *testing.T) time.Duration {
	t.Helper()
	states := r.active(t)
	r.requests.take()
	began := time.Now()
	t.Log(r.shell(t, loop))
	took := time.Since(began)
	r.requests.take().log(t)
	r.emptied(t)
	r.migrated(t, states, began)
	r.shell(t, "openstack compute service set --enable compute-1 nova-compute")
	r.well(t, states)
	return took
}

// shell runs a script that has OpenStack's own command.
func (r *region) shell(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	clouds := strings.Replace(r.cloud.Clouds(), "region_name: RegionOne", "region_name: "+r.requests.region(), 1)
	must(t, os.WriteFile(file, []byte(clouds), 0o600))
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+file, "OS_CLOUD="+lab.CloudName, "OS_COMPUTE_API_VERSION="+r.nova.Microversion, "NO_PROXY=*", "no_proxy=*")
	out, code := ended(t, command)
	if code != 0 {
		t.Fatalf("the script ended with %d:\n%s", code, out)
	}
	return out
}

// emptied checks that compute-1 has no servers.
func (r *region) emptied(t *testing.T) {
	t.Helper()
	if left := r.on(t, "compute-1"); len(left) > 0 {
		t.Errorf("compute-1 is to be empty, and has %v", left)
	}
}

// migrated is how long the migrations of the servers have taken, where each has one. It logs when they ran.
func (r *region) migrated(t *testing.T, states map[string]string, began time.Time) time.Duration {
	t.Helper()
	var all []ran
	for id := range states {
		for _, m := range r.migrations(t, id) {
			all = append(all, m.ran(t))
			if m.Type != "live-migration" || m.Status != "completed" || m.Source != "compute-1" {
				t.Errorf("server %s has the migration %+v", id, m)
			}
		}
	}
	sum := atLimit(all)
	if len(all) != len(states) {
		t.Errorf("%d servers have %d migrations", len(states), len(all))
	}
	for i, m := range all {
		t.Logf("migration %d: %.0f to %.0f s", i+1, m.created.Sub(began).Seconds(), m.updated.Sub(began).Seconds())
	}
	t.Logf("%d migrations take %.0f s at Nova's limit", len(all), sum.Seconds())
	return sum
}

// ran is when a migration was asked for and when it ended, by Nova's own record, in whole seconds.
type ran struct{ created, updated time.Time }

func (m *migration) ran(t *testing.T) ran {
	t.Helper()
	const layout = "2006-01-02T15:04:05.000000" // in UTC
	created, err := time.Parse(layout, m.Created)
	must(t, err)
	updated, err := time.Parse(layout, m.Updated)
	must(t, err)
	return ran{created, updated}
}

// atLimit is how long migrations take of which Nova runs one at a time, its default: each since it was asked for or since the one before it has ended, whichever is
// later. It sorts them.
func atLimit(all []ran) (sum time.Duration) {
	slices.SortFunc(all, func(a, b ran) int { return a.updated.Compare(b.updated) })
	for i, m := range all {
		from := m.created
		if i > 0 && all[i-1].updated.After(from) {
			from = all[i-1].updated
		}
		sum += m.updated.Sub(from)
	}
	return sum
}

func TestAtLimit(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, tc := range map[string]struct {
		all  []ran
		want time.Duration
	}{
		"none":                {},
		"one after another":   {[]ran{{at(0), at(6)}, {at(7), at(12)}}, 11 * time.Second},
		"queued":              {[]ran{{at(0), at(6)}, {at(0), at(11)}, {at(6), at(16)}}, 16 * time.Second},
		"in no order":         {[]ran{{at(10), at(16)}, {at(0), at(6)}}, 12 * time.Second},
		"queued, then paused": {[]ran{{at(0), at(6)}, {at(1), at(11)}, {at(20), at(25)}}, 16 * time.Second},
	} {
		if got := atLimit(tc.all); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// gap is for how long something was seen without a living agent.
type gap struct {
	since   time.Time // when the last look began that saw one
	open    bool      // the last look saw none
	longest time.Duration
}

// saw takes a look. What is between two looks counts as well, so nothing is taken for shorter than it was.
func (g *gap) saw(asked, answered time.Time, living bool) {
	if g.open || !living {
		g.longest = max(g.longest, answered.Sub(g.since))
	}
	if g.open = !living; living {
		g.since = asked
	}
}

func TestGap(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, tc := range map[string]struct {
		living []bool // of looks that take a second, every two seconds
		want   time.Duration
	}{
		"always one":       {[]bool{true, true, true}, 0},
		"none at one look": {[]bool{true, false, true}, 5 * time.Second},
		"none at the end":  {[]bool{true, true, false}, 3 * time.Second},
		"twice":            {[]bool{true, false, false, true, false, true}, 7 * time.Second},
	} {
		g := gap{since: at(0)}
		for i, living := range tc.living {
			g.saw(at(2*i), at(2*i+1), living)
		}
		if g.longest != tc.want {
			t.Errorf("%s: got %s, want %s", name, g.longest, tc.want)
		}
	}
}

// watchRouters asks Neutron again and again which agents have the routers, until it is stopped, and returns for how long one had no living agent at most.
func (r *region) watchRouters(t *testing.T, things []thing) (stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var longest time.Duration
	looks, failed, ended := 0, 0, make(chan struct{})
	routers := slices.DeleteFunc(slices.Clone(things), func(one thing) bool { return one.kind != "router" })
	go func() {
		defer close(ended)
		gaps := make([]gap, len(routers))
		for i := range gaps {
			gaps[i].since = time.Now()
		}
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			for i, one := range routers {
				asked := time.Now()
				living, err := r.served(ctx, one)
				if err != nil { // Neutron answers 500 where an agent is given a router at this moment
					failed++
					continue
				}
				gaps[i].saw(asked, time.Now(), living)
				longest, looks = max(longest, gaps[i].longest), looks+1
			}
		}
	}()
	return func() time.Duration {
		cancel()
		<-ended
		t.Logf("%d looks at who has the routers, and %d without an answer", looks, failed)
		return longest
	}
}

// served reports whether Neutron has a living agent for something.
func (r *region) served(ctx context.Context, one thing) (bool, error) {
	var found struct{ Agents []agent }
	err := try(ctx, r.neutron, http.MethodGet, nil, &found, kinds[one.kind].one, one.id, kinds[one.kind].holders)
	return slices.ContainsFunc(found.Agents, func(a agent) bool { return a.Alive && a.Up }), err
}
