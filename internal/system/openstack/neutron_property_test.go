package openstack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// networkFaults are those of calls: a process is killed by one that is lost, or by one that is refused, as far as Neutron can tell.
var networkFaults = []httpfault.Fault{
	{Method: "POST", Path: "/agents", Times: 1, Lost: true},
	{Method: "POST", Path: "/agents", Times: 1, Refuse: true},
	{Method: "POST", Path: "/agents", Times: 1, Status: 503},
	{Method: "POST", Path: "/agents", Times: 1, Status: 409},
	{Method: "DELETE", Times: 1, Lost: true},
	{Method: "DELETE", Times: 1, Refuse: true},
	{Method: "PUT", Times: 1, Lost: true},
	{Method: "PUT", Times: 1, Status: 503},
	{Method: "GET", Path: "/agents", Times: 1, Status: 500},
	{Method: "GET", Path: "/l3-agents", Times: 1, Cut: 5},
}

// history is one of an agent that is emptied, in one of the roles.
type history struct {
	*rapid.T

	cloud *openstacksim.Cloud
	b     *bench
	short string
	// dark is since when things have no agent.
	dark map[string]time.Time
}

// Whatever breaks, and whatever others do meanwhile: nothing has no agent for longer than it takes to look again, an agent that may go has nothing and what has
// left it is served, it is emptied in the end, and is as it was when that is taken back.
func TestPropertyAgentsAreEmptied(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		role := rapid.SampledFrom([]string{"neutron-l3-agent", "neutron-dhcp-agent", "neutron-bgp-agent"}).Draw(r, "role")
		h := &history{T: r, cloud: networkCloud(), short: shorts[role], dark: map[string]time.Time{}}
		h.b = roleBench(t, h.cloud, role)
		most := 12
		if h.short == "bgp" { // of which an agent has one speaker
			most = 1
		}
		for i := range rapid.IntRange(0, most).Draw(r, "things") {
			hosts := []string{"compute-1", "compute-2", "compute-3"}[:rapid.IntRange(1, 3).Draw(r, "holders")]
			h.cloud.Make(h.short, fmt.Sprintf("t%d", i), hosts...)
		}
		for range rapid.IntRange(0, 15).Draw(r, "turns") {
			h.disturb(t)
			h.turn()
			h.cloud.Advance(time.Duration(rapid.IntRange(1, 20).Draw(r, "pause")) * time.Second)
		}
		h.heal()
		for turns := 0; h.turn().Answer != eviction.Allowed; turns++ {
			if turns > 150 {
				r.Fatalf("it is never emptied: %s, job %s", said(h.b.judge("compute-1")), h.b.job.ID)
			}
			h.cloud.Advance(10 * time.Second)
		}
		h.undo()
	})
}

// disturb does what others, the network or the machine of the manager do.
func (h *history) disturb(t *testing.T) {
	t.Helper()
	switch rapid.IntRange(0, 6).Draw(h.T, "what") {
	case 0:
		h.cloud.Inject(rapid.SampledFrom(networkFaults).Draw(h.T, "fault"))
	case 1:
		h.cloud.ExpireTokens()
	case 2: // a manager that was killed knows nothing but what is written down
		h.b = &bench{t: t, site: h.b.site, system: simulatedBench(t, h.cloud).system, policy: h.b.policy, job: h.b.job, role: h.b.role}
	case 3:
		h.cloud.ChangeAgent(h.short, "compute-2", func(a *openstacksim.Agent) { a.Alive = !a.Alive })
	case 4:
		if h.short != "bgp" || len(h.cloud.Things()) == 0 {
			h.cloud.Make(h.short, "new", "compute-1")
		}
	case 5:
		h.cloud.ChangeAgent(h.short, "compute-3", func(a *openstacksim.Agent) { a.Up = !a.Up })
	}
}

func (h *history) heal() {
	h.cloud.Heal()
	h.cloud.ChangeAgent(h.short, "compute-2", func(a *openstacksim.Agent) { a.Alive = true })
	h.cloud.ChangeAgent(h.short, "compute-3", func(a *openstacksim.Agent) { a.Up = true })
}

// turn is one in which calls may fail, and checks what must hold at any time.
func (h *history) turn() eviction.Verdict {
	v := h.b.judge("compute-1")
	for _, id := range h.cloud.Things() {
		hosts := h.cloud.Hosts(id)
		here := slices.ContainsFunc(hosts, func(host string) bool { return strings.HasPrefix(host, "compute-1") })
		if v.Answer == eviction.Allowed && (here || len(hosts) == 0) {
			h.Fatalf("it may go, and %s is on %v", id, hosts)
		}
	}
	if needs(v) {
		_ = h.b.prepare("compute-1")
	}
	now := h.cloud.Now()
	for _, id := range h.cloud.Things() {
		switch since, dark := h.dark[id]; {
		case len(h.cloud.Hosts(id)) > 0 || !h.room():
			delete(h.dark, id)
		case h.short == "dhcp":
			h.Fatalf("network %s has no agent", id)
		case !dark:
			h.dark[id] = now
		case now.Sub(since) > longestDark:
			h.Fatalf("%s has no agent since %s: job %s", id, since, h.b.job.ID)
		}
	}
	return v
}

// longestDark is how long a plain router may have no agent although one lives, when answers are lost time and again: as long as an agent that has not answered
// gets nothing, and a look.
const longestDark = 3 * time.Minute

// room reports whether an agent lives that may have something.
func (h *history) room() bool {
	for _, host := range []string{"compute-2", "compute-3"} {
		if a := h.cloud.Agent(h.short, host); a.Alive && a.Up {
			return true
		}
	}
	return false
}

func (h *history) undo() {
	for range 5 {
		undone, err := h.b.undo("compute-1")
		if err == nil && undone.Done {
			if a := h.cloud.Agent(h.short, "compute-1"); !a.Up || a.Description != "" {
				h.Fatalf("after all was taken back: %+v", a)
			}
			return
		}
		h.cloud.Advance(10 * time.Second)
	}
	h.Fatal("it is never taken back")
}
