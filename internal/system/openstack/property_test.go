package openstack_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// Whatever breaks, and whatever others do meanwhile: a host that may go has no server and none on its way, no server is asked for twice at a time, it is emptied
// in the end, and gets servers again when that is taken back.
func TestPropertyEmptied(t *testing.T) {
	states := []string{"active", "paused", "stopped"}
	faults := []httpfault.Fault{
		{Method: "POST", Path: "/action", Times: 1, Lost: true},
		{Method: "POST", Path: "/action", Times: 1, Status: 503},
		{Method: "PUT", Times: 1, Lost: true},
		{Path: "/os-migrations", Times: 1, Status: 500},
		{Path: "/servers/detail", Times: 1, Cut: 10},
		{Method: "POST", Path: "/action", Times: 1, Refuse: true},
	}
	rapid.Check(t, func(r *rapid.T) {
		cloud := openstacksim.New(3)
		cloud.Live = time.Duration(rapid.IntRange(1, 40).Draw(r, "live")) * time.Second
		for i := range rapid.IntRange(0, 5).Draw(r, "servers") {
			cloud.Boot(fmt.Sprintf("s%d", i), "compute-1", rapid.SampledFrom(states).Draw(r, "state"))
		}
		b := simulatedBench(t, cloud)
		for range rapid.IntRange(0, 15).Draw(r, "turns") {
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				cloud.Inject(rapid.SampledFrom(faults).Draw(r, "fault"))
			case 1:
				cloud.ExpireTokens()
			case 2: // a manager that was killed knows nothing but what is written down
				b = &bench{t: t, site: b.site, system: simulatedBench(t, cloud).system, policy: b.policy, job: b.job, role: b.role}
			case 3:
				cloud.ChangeHost("compute-2", func(h *openstacksim.Host) { h.Enabled = !h.Enabled })
			}
			b.faultyTurn(r, cloud)
			cloud.Advance(time.Duration(rapid.IntRange(1, 20).Draw(r, "pause")) * time.Second)
		}
		cloud.Heal()
		cloud.ChangeHost("compute-2", func(h *openstacksim.Host) { h.Enabled = true })
		for turns := 0; b.faultyTurn(r, cloud).Answer != eviction.Allowed; turns++ {
			if turns > 100 {
				r.Fatalf("it is never emptied: %s", said(b.judge("compute-1")))
			}
			cloud.Advance(10 * time.Second)
		}
		for range 3 {
			if _, err := b.undo("compute-1"); err != nil {
				r.Fatal(err)
			}
		}
		if !cloud.Host("compute-1").Enabled {
			r.Fatal("it gets no servers after all was taken back")
		}
	})
}

// faultyTurn is a turn in which calls may fail, and checks what must hold at any time.
func (b *bench) faultyTurn(r *rapid.T, cloud *openstacksim.Cloud) eviction.Verdict {
	v := b.judge("compute-1")
	if on := cloud.On("compute-1"); v.Answer == eviction.Allowed && len(on) > 0 {
		r.Fatalf("it may go, and has %v", on)
	}
	if needs(v) {
		_ = b.prepare("compute-1")
	}
	under := map[string]bool{}
	for _, m := range cloud.Migrations() {
		open := !slices.Contains([]string{"completed", "confirmed", "error", "cancelled"}, m.Status)
		if open && under[m.Server] {
			r.Fatalf("server %s is moved twice at a time", m.Server)
		}
		if open && v.Answer == eviction.Allowed {
			r.Fatalf("it may go, and migration %d is %s", m.ID, m.Status)
		}
		under[m.Server] = under[m.Server] || open
	}
	return v
}
