package arangodb

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/httpfault"
)

const cleanOutPath = "/_admin/cluster/cleanOutServer"

// asked counts the calls of a path that were carried out.
func (b *bench) asked(path string) int {
	n := 0
	for _, request := range b.sim.Requests() {
		if strings.HasSuffix(request, path) {
			n++
		}
	}
	return n
}

// leave does what a responder does until the member may go, and returns how many ticks that took.
func (b *bench) leave(member string) int {
	b.t.Helper()
	for tick := range 60 {
		verdict := b.evict("dbserver", member)
		if verdict.Answer == eviction.Allowed {
			return tick
		}
		if lose, _ := b.sim.WouldLose(member); !lose && len(verdict.Needed) == 0 && tick > 50 {
			break
		}
		for _, step := range verdict.Needed {
			if err := b.prepare(step.Name, member); err != nil {
				b.t.Logf("tick %d: %v", tick, err)
			}
		}
		b.sim.Tick()
	}
	b.t.Fatalf("%s may not go after 60 ticks: %s", member, said(b.evict("dbserver", member)))
	return 0
}

func TestCleanOut(t *testing.T) {
	b := newBench(t, plain())
	if lose, _ := b.sim.WouldLose(prmrA); lose {
		t.Fatal("with a follower in sync for every shard, nothing would be lost")
	}
	if ticks := b.leave(prmrA); ticks < 3 {
		t.Errorf("it took %d ticks: no shard moves that fast", ticks)
	}
	if n := b.asked(cleanOutPath); n != 1 {
		t.Errorf("a clean-out was asked for %d times, want once", n)
	}
	b.sim.Wipe(prmrA)
	if lost := b.sim.Lost(); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// Each fault happens to the first request for a clean-out.
func TestCleanOutIsAskedForOnce(t *testing.T) {
	cases := []struct {
		name  string
		fault httpfault.Fault
		fails bool
		asked int // after two calls
	}{
		{"the answer is lost", httpfault.Fault{Lost: true}, true, 1},
		{"the answer is cut off", httpfault.Fault{Cut: 5}, true, 1},
		{"no answer in time, and it never arrived", httpfault.Fault{Silent: true}, true, 1},
		{"the first coordinator is down", httpfault.Fault{Refuse: true}, false, 1},
		{"the first coordinator is not ready", httpfault.Fault{Status: 503}, false, 1},
		{"the first coordinator cannot reach the agency", httpfault.Fault{Status: 500}, true, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, plain())
				c.fault.Path, c.fault.Times = cleanOutPath, 1
				b.sim.Inject(c.fault)
				if err := b.prepare(CleanOut, prmrA); (err != nil) != c.fails {
					t.Errorf("error is %v, want one: %t", err, c.fails)
				}
				if err := b.prepare(CleanOut, prmrA); err != nil {
					t.Error(err)
				}
				if n := b.asked(cleanOutPath); n != c.asked {
					t.Errorf("carried out %d times, want %d", n, c.asked)
				}
			})
		})
	}
}

// The supervision keeps a server among those that are to be cleaned until its job has ended, whatever of the job is seen.
func TestNoSecondCleanOutWhileToBeCleaned(t *testing.T) {
	b := newBench(t, plain())
	b.sim.Set("Target/ToBeCleanedServers", []any{prmrA})
	if verdict := b.evict("dbserver", prmrA); len(verdict.Needed) > 0 {
		t.Errorf("asks for %v", verdict.Needed)
	}
	if err := b.prepare(CleanOut, prmrA); err != nil || b.asked(cleanOutPath) > 0 {
		t.Errorf("error %v, asked for %d times", err, b.asked(cleanOutPath))
	}
	b.sim.Set("Target/ToBeCleanedServers", []any{})
	if b.leave(prmrA); b.asked(cleanOutPath) != 1 {
		t.Errorf("asked for %d times, want once", b.asked(cleanOutPath))
	}
}

func TestPrepareRefused(t *testing.T) {
	cases := []struct {
		name     string
		step     eviction.Preparation
		fault    *httpfault.Fault
		terminal bool
		says     string
	}{
		{"a step that there is not", eviction.Preparation{Name: "MoveLeader", Member: v1alpha1.MemberRef{ID: prmrA}}, nil, true, "no such step"},
		{"a server that there is not", eviction.Preparation{Name: CleanOut, Member: v1alpha1.MemberRef{ID: "PRMR-z"}}, nil, false, "has no such dbserver"},
		{"a coordinator", eviction.Preparation{Name: CleanOut, Member: v1alpha1.MemberRef{ID: "CRDN-a"}}, nil, false, "has no such dbserver"},
		{"forbidden", eviction.Preparation{Name: CleanOut, Member: v1alpha1.MemberRef{ID: prmrA}}, &httpfault.Fault{Path: cleanOutPath, Status: 403, Body: `{"errorNum":11,"errorMessage":"only with superuser rights"}`}, true, "only with superuser rights"},
		{"no coordinator", eviction.Preparation{Name: CleanOut, Member: v1alpha1.MemberRef{ID: prmrA}}, &httpfault.Fault{Path: cleanOutPath, Refuse: true}, false, "coordinator http://crdn-b"},
		{"agency unknown", eviction.Preparation{Name: CleanOut, Member: v1alpha1.MemberRef{ID: prmrA}}, &httpfault.Fault{Path: "/_api/agency/read", Status: 503}, false, "not ready"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, plain())
			if c.fault != nil {
				b.sim.Inject(*c.fault)
			}
			_, err := b.sys.Prepare(t.Context(), c.step)
			if err == nil || errors.Is(err, system.ErrTerminal) != c.terminal || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want it terminal: %t and to say %q", err, c.terminal, c.says)
			}
			if n := b.asked(cleanOutPath); n != 0 {
				t.Errorf("carried out %d times", n)
			}
		})
	}
}

// undo calls Undo until it is done and returns how many calls that took.
func (b *bench) undo(step, member string) int {
	b.t.Helper()
	for call := 1; call < 20; call++ {
		undone, err := b.sys.Undo(b.t.Context(), b.step(step, member))
		if err != nil {
			b.t.Fatal(err)
		}
		if undone.Done {
			return call
		}
		b.sim.Tick()
	}
	b.t.Fatal("undoing does not end")
	return 0
}

// A clean-out is taken back at every moment of its life, and the server may hold shards again.
func TestUndoCleanOut(t *testing.T) {
	for ticks := range 14 {
		b := newBench(t, plain())
		b.sim.Set("Target/CleanedServers", []any{"PRMR-x"})
		if err := b.prepare(CleanOut, prmrA); err != nil {
			t.Fatal(err)
		}
		b.ticks(ticks)
		b.undo(CleanOut, prmrA)
		b.ticks(5)
		facts, of := b.evidence(prmrA).Members[prmrA], b.evidence(prmrA).System
		if facts["cleaned"] != false || facts["cleanOut"] == "Pending" || facts["cleanOut"] == "ToDo" {
			t.Errorf("undone after %d ticks: %v", ticks, facts)
		}
		if diff := cmp.Diff([]string{"PRMR-x"}, of["cleanedOut"]); diff != "" {
			t.Errorf("undone after %d ticks: others that are cleaned out (-want +got):\n%s", ticks, diff)
		}
		if calls := b.undo(CleanOut, prmrA); calls != 1 {
			t.Errorf("undone after %d ticks, undoing again took %d calls", ticks, calls)
		}
		if lost := b.sim.Lost(); len(lost) > 0 {
			t.Errorf("undone after %d ticks: lost %v", ticks, lost)
		}
		// What was moved stays where it is; asking again works.
		b.sim.ForgetJobs()
		b.leave(prmrA)
	}
}

func TestUndoIsCarefulWithTheRest(t *testing.T) {
	b := newBench(t, plain())
	if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, "PRMR-z")); !undone.Done || err != nil {
		t.Errorf("a server that is gone: done %t, error %v", undone.Done, err)
	}
	b.sim.Inject(httpfault.Fault{Path: "/_api/agency", Refuse: true})
	if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, prmrA)); undone.Done || err == nil {
		t.Errorf("agency down: done %t, error %v", undone.Done, err)
	}
	b.sim.Heal()
	b.jobs[prmrA] = eviction.Job{ID: "7"}
	b.sim.Set("Target/CleanedServers", []any{prmrA})
	b.sim.Inject(httpfault.Fault{Method: "PUT", Refuse: true})
	if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, prmrA)); undone.Done || err == nil {
		t.Errorf("no coordinator: done %t, error %v", undone.Done, err)
	}
	b.sim.Heal()
	successor := b.sim.Renew(prmrA)
	if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, "prmr-a")); undone.Done || err == nil || !strings.Contains(err.Error(), "PRMR-a, PRMR-a-again") {
		t.Errorf("one of two: done %t, error %v", undone.Done, err)
	}
	b.sim.Kill(prmrA)
	b.sim.Kill(successor)
	b.ticks(30)
	if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, "prmr-a")); undone.Done || err == nil || !strings.Contains(err.Error(), "PRMR-a, PRMR-a-again") {
		t.Errorf("one of two that have failed: done %t, error %v", undone.Done, err)
	}
}

// The job ends between the look and the call.
func TestUndoOfAJobThatHasJustEnded(t *testing.T) {
	for _, status := range []int{404, 412} {
		b := newBench(t, plain())
		if err := b.prepare(CleanOut, prmrA); err != nil {
			t.Fatal(err)
		}
		b.sim.Inject(httpfault.Fault{Path: "/_admin/cluster/cancelAgencyJob", Times: 1, Status: status, Body: `{"errorNum":1}`})
		if undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, prmrA)); undone.Done || err != nil {
			t.Errorf("%d: done %t, error %v", status, undone.Done, err)
		}
	}
}

func TestResignLeadership(t *testing.T) {
	b := newBench(t, shards(2, []string{prmrA, prmrB}, []string{prmrA})())
	for range 8 {
		if b.evidence(prmrA).Members[prmrA]["resign"] == "Finished" {
			break
		}
		if err := b.prepare(ResignLeadership, prmrA); err != nil {
			t.Fatal(err)
		}
		b.sim.Tick()
	}
	facts := b.evidence(prmrA).Members[prmrA]
	want := expression.Facts{"resign": "Finished", "leads": []string{"_system/c/sc1"}}
	if diff := cmp.Diff(want, expression.Facts{"resign": facts["resign"], "leads": facts["leads"]}); diff != "" {
		t.Errorf("what has one copy is passed over in silence, and the facts must say so (-want +got):\n%s", diff)
	}
	if n := b.asked("/_admin/cluster/resignLeadership"); n != 1 {
		t.Errorf("asked for %d times, want once", n)
	}
	if err := b.prepare(ResignLeadership, prmrA); err != nil {
		t.Fatal(err)
	}
	if calls := b.undo(ResignLeadership, prmrA); calls < 2 {
		t.Errorf("undoing took %d calls while the job ran", calls)
	}
	if b.asked("cancelAgencyJob") > 0 {
		t.Error("a resignation cannot be cancelled")
	}
}

// arangodb issue 21487: a move fails and is forgotten, and the server counts as cleaned out with a shard on it.
func TestCleanedOutWithShardsLeft(t *testing.T) {
	b := newBench(t, shards(1, []string{prmrA}, []string{prmrA})())
	b.sim.SetForgetful(true)
	if err := b.prepare(CleanOut, prmrA); err != nil {
		t.Fatal(err)
	}
	b.sim.Tick()
	b.sim.Kill(prmrB)
	b.sim.Kill(prmrC)
	b.ticks(10)
	b.sim.Restart(prmrB)
	b.sim.Restart(prmrC)
	b.ticks(5)
	verdict := b.evict("dbserver", prmrA)
	if !slices.Contains(reasons(verdict), "CleanOutIncomplete") || verdict.Answer != eviction.Blocked || len(verdict.Needed) > 0 {
		t.Fatalf("verdict is %s: %s; needed %v", verdict.Answer, said(verdict), verdict.Needed)
	}
	if lose, _ := b.sim.WouldLose(prmrA); !lose {
		t.Fatal("the simulation has left nothing on the server")
	}
	b.sim.SetForgetful(false)
	b.undo(CleanOut, prmrA) // the remedy
	b.leave(prmrA)
	if lose, why := b.sim.WouldLose(prmrA); lose {
		t.Error(why)
	}
}

func TestJobsThatAreLost(t *testing.T) {
	b := newBench(t, plain())
	if err := b.prepare(CleanOut, prmrA); err != nil {
		t.Fatal(err)
	}
	b.ticks(2)
	b.sim.LoseJobs()
	b.leave(prmrA)
	if n := b.asked(cleanOutPath); n != 2 {
		t.Errorf("asked for %d times, want once before the job was lost and once after", n)
	}
}

func TestNoCapacityUntilAServerIsAdded(t *testing.T) {
	b := newBench(t, shards(3, []string{prmrA, prmrB, prmrC})())
	if got := reasons(b.evict("dbserver", prmrA)); !slices.Contains(got, "NoCapacity") {
		t.Errorf("reasons are %v", got)
	}
	b.sim.AddDBServer()
	b.leave(prmrA)
}
