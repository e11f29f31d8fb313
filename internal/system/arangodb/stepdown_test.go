package arangodb

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

const shutdownPath = "/_admin/shutdown"

// reigning is a bench whose process has watched agent a lead for so long that it may be restarted.
func reigning(t *testing.T, sim *arangosim.Cluster) *bench {
	t.Helper()
	b := newBench(t, sim)
	b.evidence(agntA)
	b.pass(30)
	return b
}

func (b *bench) stepDown(id string) error {
	_, err := b.sys.Prepare(b.t.Context(), b.step(StepDown, id))
	return err
}

func TestStepDown(t *testing.T) {
	b := reigning(t, plain())
	for tick := 0; b.evict("agent", agntA).Answer != eviction.Allowed; tick++ {
		if tick == 20 {
			t.Fatalf("it may not go: %s", said(b.evict("agent", agntA)))
		}
		for _, step := range b.evict("agent", agntA).Needed {
			if _, err := b.sys.Prepare(t.Context(), b.step(step.Name, agntA)); err != nil {
				t.Error(err)
			}
		}
		if !b.sim.Quorum() {
			t.Fatal("the agency has no majority")
		}
		b.pass(1)
	}
	if n, leader := b.asked(shutdownPath), b.sim.AgencyLeader(); n != 1 || leader == agntA || leader == "" {
		t.Errorf("asked %d times, and %q leads", n, leader)
	}
}

// The evidence that asked for the step may be seconds old: what is so when it is asked for decides.
func TestStepDownLooksAnew(t *testing.T) {
	five := func() *arangosim.Cluster { return agents(5)() }
	cases := []struct {
		name   string
		sim    func() *arangosim.Cluster
		member string
		change func(*bench)
		says   string // "": it is content and does nothing
	}{
		{"another leads by now", plain, agntA, func(b *bench) { b.sim.Elect(agntB) }, ""},
		{"another does not answer", plain, agntA, func(b *bench) { b.sim.Kill(agntC) }, "1 other agents follow it"},
		{"another is cut off", plain, agntA, func(b *bench) { b.sim.Isolate(agntC, true); b.pass(2) }, "1 other agents follow it"},
		{"another is behind", plain, agntA, func(b *bench) { behind(agntC)(b.t, b) }, "1 other agents follow it"},
		{"two of five are behind", five, agntA, func(b *bench) { behind(agntB)(b.t, b); behind(agntC)(b.t, b) }, "2 other agents follow it"},
		{"no majority", plain, agntA, func(b *bench) { b.sim.Kill(agntB); b.sim.Kill(agntC); b.pass(1) }, "no agent reports a leader"},
		{"no agent answers", plain, agntA, func(b *bench) { down(b.t, b) }, "no agent answers"},
		{"the only agent", func() *arangosim.Cluster { return agents(1)() }, agntA, nil, "0 other agents follow it"},
		{"a dbserver", plain, prmrA, nil, "has no such agent"},
		{"an unknown agent", plain, "AGNT-z", nil, "has no such agent"},
		{"elected a moment ago", plain, agntA, func(b *bench) { b.sim.Elect(agntA); b.pass(1) }, "it has led for 0s only"},
		{"a process that has just begun", plain, agntA, func(b *bench) { b.forget(); b.evidence(); b.pass(29) }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := reigning(t, c.sim())
			if c.change != nil {
				c.change(b)
			}
			err := b.stepDown(c.member)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want it to say %q", err, c.says)
			}
			if n := b.asked(shutdownPath); n != 0 {
				t.Errorf("an agent was restarted")
			}
		})
	}
}

// Each fault happens to the first request.
func TestStepDownIsAskedForOnce(t *testing.T) {
	cases := []struct {
		name     string
		fault    httpfault.Fault
		terminal bool
		soon     int // carried out after a second call at once
		later    int // and after another one half a minute later
	}{
		{"the answer is lost", httpfault.Fault{Lost: true}, false, 1, 1},
		{"the answer is cut off", httpfault.Fault{Cut: 5}, false, 1, 1},
		{"no answer in time, and it never arrived", httpfault.Fault{Silent: true}, false, 0, 1},
		{"the connection is refused", httpfault.Fault{Refuse: true}, false, 1, 1},
		{"it is stopping", httpfault.Fault{Status: 503}, false, 0, 1},
		{"forbidden", httpfault.Fault{Status: 403, Body: `{"errorNum":11,"errorMessage":"forbidden"}`}, true, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := reigning(t, plain())
				c.fault.Path, c.fault.Times = shutdownPath, 1
				b.sim.Inject(c.fault)
				if err := b.stepDown(agntA); err == nil || errors.Is(err, system.ErrTerminal) != c.terminal {
					t.Errorf("error is %v, want it terminal: %t", err, c.terminal)
				}
				_ = b.stepDown(agntA)
				if n := b.asked(shutdownPath); n != c.soon {
					t.Errorf("carried out %d times, want %d", n, c.soon)
				}
				b.pass(30)
				if err := b.stepDown(agntA); err != nil {
					t.Error(err)
				}
				if n := b.asked(shutdownPath); n != c.later {
					t.Errorf("half a minute later: carried out %d times, want %d", n, c.later)
				}
			})
		})
	}
}

// It comes back and is elected again: that is seen, and it is restarted once more when it has led for a while.
func TestStepDownOfOneThatIsElectedAgain(t *testing.T) {
	b := reigning(t, plain())
	if err := b.stepDown(agntA); err != nil {
		t.Fatal(err)
	}
	b.pass(5)
	b.sim.Elect(agntA)
	b.pass(5)
	for second := 10; second < 40; second++ {
		err := b.stepDown(agntA)
		if n := b.asked(shutdownPath); n != 1 || (err != nil) != (second >= 30) {
			t.Fatalf("after %d s: asked %d times, error is %v", second, n, err)
		}
		b.pass(1)
	}
	if err := b.stepDown(agntA); err != nil || b.asked(shutdownPath) != 2 {
		t.Errorf("when it has led for half a minute: asked %d times, error is %v", b.asked(shutdownPath), err)
	}
}

// The manager is killed and another goes on: what the first has asked for may be pending.
func TestStepDownAfterTheManagerIsKilled(t *testing.T) {
	b := reigning(t, plain())
	if err := b.stepDown(agntA); err != nil {
		t.Fatal(err)
	}
	b.forget()
	if err := b.stepDown(agntA); err != nil {
		t.Error(err)
	}
	if n := b.asked(shutdownPath); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

// A restart leaves nothing behind; while one may be pending, any other agent that is to go has to wait for it.
func TestUndoStepDown(t *testing.T) {
	b := reigning(t, plain())
	undo := func() bool {
		t.Helper()
		undone, err := b.sys.Undo(t.Context(), b.step(StepDown, agntA))
		if err != nil {
			t.Error(err)
		}
		return undone.Done
	}
	if !undo() {
		t.Error("nothing was asked for, and it is not undone")
	}
	if err := b.stepDown(agntA); err != nil {
		t.Fatal(err)
	}
	if undo() {
		t.Error("it is undone before it can have happened")
	}
	b.pass(30)
	if !undo() {
		t.Error("it is not undone half a minute later")
	}
}

// Which member leaves and which is prepared stands in the policy's status, and not in what the deployment says.
func TestStepDownWaitsForOthers(t *testing.T) {
	b := newBench(t, plain())
	other := b.input("agent", agntB, nil).Pod
	prepared := v1alpha1.EvictionPolicyStatus{Preparations: []v1alpha1.PreparationStatus{{MemberRef: v1alpha1.MemberRef{ID: agntB, PodUID: other.UID}, Name: StepDown}}}
	for name, c := range map[string]struct {
		status v1alpha1.EvictionPolicyStatus
		member string
		want   []string
		needed int
	}{
		"no member leaves":    {member: agntA, want: []string{"LeadsAgency"}, needed: 1},
		"a dbserver leaves":   {v1alpha1.EvictionPolicyStatus{Leaving: []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "arangodb-dbserver", ID: prmrA, PodUID: "u"}}}}, agntA, []string{"LeadsAgency"}, 0},
		"another is prepared": {prepared, agntA, []string{"AnotherStepsDown", "LeadsAgency"}, 0},
		"a follower":          {prepared, agntC, []string{"AnotherStepsDown"}, 0},
		"the prepared one":    {prepared, agntB, []string{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := b.input("agent", c.member, b.evidence(c.member))
			in.Policies[0].Status, in.Peers = &c.status, []*snapshot.Pod{other}
			verdict := eviction.Judge(in)
			if diff := cmp.Diff(c.want, reasons(verdict)); diff != "" || len(verdict.Needed) != c.needed {
				t.Errorf("needed %v, reasons (-want +got):\n%s", verdict.Needed, diff)
			}
		})
	}
}
