package openstack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// run has a host emptied, with a turn every ten seconds.
func (b *bench) run(cloud *openstacksim.Cloud, host string, turns int) eviction.Verdict {
	b.t.Helper()
	var v eviction.Verdict
	for range turns {
		if v = b.turn(host); v.Answer == eviction.Allowed {
			return v
		}
		cloud.Advance(10 * time.Second)
	}
	return v
}

func asked(requests []string, method string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, method+" ") {
			n++
		}
	}
	return n
}

// The service is disabled in Usher's name before anything is moved, and nothing is asked for twice.
func TestWhatIsAskedFor(t *testing.T) {
	cloud := openstacksim.New(3)
	for i := range 4 {
		cloud.Boot(fmt.Sprintf("web-%d", i), "compute-1", "active")
	}
	b := simulatedBench(t, cloud)
	b.turn("compute-1")
	if h := cloud.Host("compute-1"); h.Enabled || h.Reason != "Usher (policy cloud/usher): its servers are moved to other hosts" {
		t.Errorf("%+v", h)
	}
	if len(cloud.Migrations()) > 0 || b.job.ID != "migrations after 0" || !b.job.Own() {
		t.Errorf("before the job is known: %+v, job %+v", cloud.Migrations(), b.job)
	}
	b.turn("compute-1")
	b.turn("compute-1")
	if n := len(cloud.Migrations()); n != 3 {
		t.Errorf("%d migrations are begun, and one at a time is allowed, with two waiting", n)
	}
	if v := b.run(cloud, "compute-1", 20); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	if n := len(cloud.Migrations()); n != 4 {
		t.Errorf("%d migrations for four servers", n)
	}
}

// One server costs fewer than ten requests, all listings included.
func TestRequestsPerServer(t *testing.T) {
	cloud := openstacksim.New(3)
	const servers = 20
	for i := range servers {
		cloud.Boot(fmt.Sprintf("web-%d", i), "compute-1", "active")
	}
	b := simulatedBench(t, cloud)
	if v := b.run(cloud, "compute-1", 40); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	requests := len(cloud.TakeRequests())
	t.Logf("%d requests for %d servers, one at a time", requests, servers)
	if requests >= 10*servers {
		t.Errorf("%d requests for %d servers", requests, servers)
	}
}

// A cold migration stops before its end until it is confirmed (Nova 3). Only Usher's own are.
func TestNova3ColdMigrationsAreConfirmed(t *testing.T) {
	cloud := openstacksim.New(3)
	cloud.Boot("batch", "compute-1", "stopped")
	cloud.Boot("resized", "compute-1", "active")
	cloud.Migrate("resized", "resize", "its owner")
	cloud.Advance(10 * time.Second)
	b := simulatedBench(t, cloud)
	v := b.run(cloud, "compute-1", 10)
	if !slices.Equal(reasons(v), []string{"MoveUnconfirmed", "NotEmpty"}) {
		t.Fatal(said(v))
	}
	if s := cloud.Server("batch"); s.State != "stopped" || s.Host == "compute-1" {
		t.Errorf("%+v", s)
	}
	if s := cloud.Server("resized"); s.State != "resized" {
		t.Errorf("the owner's choice is gone: %+v", s)
	}
}

// A resize that was not confirmed for weeks keeps the host as one of today does.
func TestOldResizes(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("resized", "compute-1", "active")
	cloud.Migrate("resized", "resize", "its owner")
	cloud.Advance(30 * 24 * time.Hour)
	b := simulatedBench(t, cloud)
	if v := b.run(cloud, "compute-1", 3); !slices.Equal(reasons(v), []string{"MoveUnconfirmed", "NotEmpty"}) {
		t.Error(said(v))
	}
}

// What the policy says of servers that would be stuck.
func TestServersThatMayStay(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("asleep", "compute-1", "suspended")
	cloud.Boot("off", "compute-1", "stopped")
	b := newBench(t, simulated{cloud}, v1alpha1.OpenStack{Servers: v1alpha1.ServersByState{Suspended: v1alpha1.ServerStay, Stopped: v1alpha1.ServerStay}})
	if v := b.run(cloud, "compute-1", 3); v.Answer != eviction.Allowed || len(cloud.On("compute-1")) != 2 {
		t.Error(said(v))
	}
}

// A call that is cut off is looked up and not sent again: whether it arrived shows.
func TestCallsThatAreCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		fault httpfault.Fault
		begun int // migrations after the call
	}{
		"it arrived":     {httpfault.Fault{Method: "POST", Path: "/action", Times: 1, Lost: true}, 1},
		"it did not":     {httpfault.Fault{Method: "POST", Path: "/action", Times: 1, Status: 502}, 0},
		"it was refused": {httpfault.Fault{Method: "POST", Path: "/action", Times: 1, Refuse: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstacksim.New(2)
			cloud.Boot("web", "compute-1", "active")
			b := simulatedBench(t, cloud)
			b.turn("compute-1")
			cloud.Inject(c.fault)
			if err := b.prepare("compute-1"); err == nil || !strings.Contains(err.Error(), "to live-migrate web") {
				t.Errorf("the call says %v", err)
			}
			if n := len(cloud.Migrations()); n != c.begun {
				t.Fatalf("%d migrations", n)
			}
			cloud.TakeRequests()
			err := b.prepare("compute-1")
			again := asked(cloud.TakeRequests(), "POST")
			if want := c.fault.Refuse; err != nil || (again == 1) != want || again > 1 {
				t.Errorf("a moment later it is asked for %d times, %v", again, err)
			}
			if v := b.run(cloud, "compute-1", 12); v.Answer != eviction.Allowed || len(cloud.Migrations()) != 1 {
				t.Errorf("%s, %+v", said(v), cloud.Migrations())
			}
		})
	}
}

// What a process has asked for is known to the one that is opened after it, when a Secret has changed.
func TestResume(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("web", "compute-1", "active")
	b := simulatedBench(t, cloud)
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "POST", Path: "/action", Times: 1, Status: 502})
	_ = b.prepare("compute-1")
	next, err := open(b.site, v1alpha1.OpenStack{Clouds: cloudsKey}, b.site.clouds())
	if err != nil {
		t.Fatal(err)
	}
	next.(system.Resumer).Resume(b.system)
	b.system = next
	cloud.TakeRequests()
	if err := b.prepare("compute-1"); err != nil || asked(cloud.TakeRequests(), "POST") > 1 { // one of them logs in
		t.Errorf("it is asked for again: %v", err)
	}
}

// A server that Nova refuses to move keeps no other waiting, and is named with Nova's words.
func TestRefusals(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Quota = "Quota exceeded for cores: Requested 1, but already used 20 of 20 cores"
	cloud.Boot("a", "compute-1", "stopped")
	cloud.Boot("b", "compute-1", "active")
	b := simulatedBench(t, cloud)
	v := b.run(cloud, "compute-1", 4)
	if !slices.Equal(reasons(v), []string{"MigrationFailed", "NotEmpty"}) || !strings.Contains(strings.Join(said(v), ""), cloud.Quota+" (403)") {
		t.Error(said(v))
	}
	if on := cloud.On("compute-1"); !slices.Equal(on, []string{"a"}) {
		t.Errorf("on it: %v", on)
	}
	cloud.Quota = ""
	if v := b.run(cloud, "compute-1", 40); v.Answer != eviction.Allowed {
		t.Error(said(v))
	}
}

// A host that others have disabled is emptied, and stays as it is when that is taken back.
func TestAHostThatOthersHaveDisabled(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("web", "compute-1", "active")
	cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled, h.Reason = false, "disk is broken" })
	b := simulatedBench(t, cloud)
	if v := b.run(cloud, "compute-1", 5); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	undone, err := b.undo("compute-1")
	if err != nil || !undone.Done || !strings.Contains(undone.Left, "disk is broken") || cloud.Host("compute-1").Enabled {
		t.Errorf("%+v, %v, %+v", undone, err, cloud.Host("compute-1"))
	}
}

// Undone means seen: an answer to the call that enables the service is none.
func TestUndoIsSeen(t *testing.T) {
	cloud := openstacksim.New(2)
	b := simulatedBench(t, cloud)
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "PUT", Times: 1, Lost: true})
	if undone, err := b.undo("compute-1"); err == nil || undone.Done {
		t.Errorf("%+v, %v", undone, err)
	}
	if undone, err := b.undo("compute-1"); err != nil || !undone.Done || !cloud.Host("compute-1").Enabled {
		t.Errorf("%+v, %v", undone, err)
	}
	if undone, err := b.undo("gone"); err != nil || !undone.Done {
		t.Errorf("of a host that is gone: %+v, %v", undone, err)
	}
}

// Where the answer that named the job was lost, nothing was moved, and what is on its way is another client's.
func TestUndoWithoutAJob(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.Boot("web", "compute-1", "active")
	b := simulatedBench(t, cloud)
	b.turn("compute-1")
	b.job = eviction.Job{}
	cloud.Migrate("web", "live-migration", openstacksim.User)
	cloud.Advance(time.Second)
	for range 2 {
		if _, err := b.undo("compute-1"); err != nil {
			t.Fatal(err)
		}
	}
	if m := cloud.Migrations(); m[0].Status == "cancelled" || !cloud.Host("compute-1").Enabled {
		t.Errorf("%+v, %+v", m, cloud.Host("compute-1"))
	}
}

// A host whose nova-compute is down keeps its servers, and no request is sent for them: each would come to nothing (Nova 1).
func TestNova1ADeadSourceIsNotAsked(t *testing.T) {
	cloud := openstacksim.New(3)
	cloud.Boot("web", "compute-1", "active")
	cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = false })
	b := simulatedBench(t, cloud)
	v := b.run(cloud, "compute-1", 3)
	if !slices.Equal(reasons(v), []string{"ComputeServiceDown", "NotEmpty"}) || len(cloud.Migrations()) != 0 {
		t.Errorf("%s, %+v", said(v), cloud.Migrations())
	}
	if evidence, _ := b.observe("compute-1"); evidence != nil {
		if does, known := kind().Reports(evidence.Members["compute-1"]); does || !known {
			t.Error("it counts as one that does its work")
		}
	}
}

// Pages are read to their end, by what Usher knows of the address: links lead elsewhere behind a proxy.
func TestPages(t *testing.T) {
	cloud := openstacksim.New(5)
	cloud.PageSize, cloud.AtOnce, cloud.Live = 2, 16, time.Second
	for i := range 9 {
		cloud.Boot(fmt.Sprintf("web-%d", i), "compute-1", "active")
	}
	b := newBench(t, simulated{cloud}, v1alpha1.OpenStack{MigrationsAtOnce: 16})
	b.turn("compute-1")
	if v := b.turn("compute-1"); !strings.Contains(strings.Join(said(v), ""), "compute-1: 9") {
		t.Error(said(v))
	}
	cloud.Advance(3 * time.Second)
	evidence, err := b.observe("compute-1")
	if err != nil || evidence.Members["compute-1"]["empty"] != true || evidence.System["hosts"] != int64(5) {
		t.Errorf("%+v, %v", evidence, err)
	}
	if n := len(cloud.Migrations()); n != 9 {
		t.Errorf("%d migrations", n)
	}
}

// A step that is not known is refused for good.
func TestUnknownStep(t *testing.T) {
	b := simulatedBench(t, openstacksim.New(1))
	other := b.step("compute-1")
	other.Name = "Other"
	if _, err := b.system.Prepare(t.Context(), other); !errors.Is(err, system.ErrTerminal) {
		t.Error(err)
	}
	if undone, err := b.system.Undo(t.Context(), other); err != nil || !undone.Done {
		t.Errorf("%+v, %v", undone, err)
	}
}
