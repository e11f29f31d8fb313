package arangodb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/arangodb/agency"
	"usher.sh/usher/test/httpfault"
)

// process is a manager that looks after the clean-out of one server and may end at any instant. Its policy's status outlives it,
// what it was answered does not.
type process struct {
	*bench
	status  *v1alpha1.EvictionPolicyStatus
	replies []eviction.Reply
	left    []eviction.Leftover
	// instants are how many are left until it ends; negative: it does not.
	instants int
	ended    bool
	noted    bool // a step was ever written down
}

// instant reports whether the process still is.
func (p *process) instant() bool {
	if p.instants == 0 {
		p.ended, p.replies = true, nil
	}
	p.instants--
	return !p.ended
}

// restart begins another process.
func (p *process) restart() { p.ended, p.instants, p.replies = false, -1, nil }

// round is one round of a manager while the eviction is wanted, or after it was withdrawn. The deployment gets so many ticks after it.
func (p *process) round(wanted bool, ticks int) {
	p.t.Helper()
	in := p.input("dbserver", prmrA, p.evidence(prmrA))
	in.Evidence.Epoch = p.status.Epoch
	in.Policies[0].Status = p.status
	actions := eviction.Step(eviction.ResponderInput{Input: in, Active: true, Wanted: true, Replies: p.replies}).Actions
	if !wanted {
		actions = eviction.ReconcileStatus(eviction.StatusInput{
			Now: p.now, Policy: in.Policies[0], Pods: []*snapshot.Pod{in.Pod}, Replies: p.replies, WantedKnown: true, Wanted: map[types.UID]bool{},
		}).Actions
	}
	for i := range actions {
		p.carryOut(&actions[i])
	}
	p.now = p.now.Add(11 * time.Second)
	p.ticks(ticks)
}

func (p *process) carryOut(a *eviction.Action) {
	if a.Kind == eviction.Respond || !p.instant() {
		return
	}
	reply := eviction.Reply{Step: a.Step, Undo: a.Kind == eviction.Undo}
	var err error
	switch a.Kind {
	case eviction.Begin, eviction.Settle:
		p.left = append(p.left, a.Left...)
		if p.instant() {
			p.status, p.noted = a.Status, p.noted || len(a.Status.Preparations) > 0
		}
		return
	case eviction.Prepare:
		reply.Job, err = p.sys.Prepare(p.t.Context(), a.Step)
	case eviction.Undo:
		var undone eviction.Undone
		undone, err = p.sys.Undo(p.t.Context(), a.Step)
		reply.Done, reply.Left = undone.Done, undone.Left
	default:
		return
	}
	if err != nil {
		reply.Error = err.Error()
	}
	if p.instant() {
		p.replies = append([]eviction.Reply{reply}, p.replies...)
	}
}

// begin begins a clean-out as another client does, and returns its job.
func (p *process) begin() string {
	p.t.Helper()
	id, err := p.sys.(*deployment).submit(p.t.Context(), cleanOutPath, prmrA)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// withdrawn lets processes work until the step is crossed out.
func (p *process) withdrawn(ticks int) {
	p.t.Helper()
	for range 40 {
		p.round(false, ticks)
		if len(p.status.Preparations) == 0 {
			return
		}
	}
	p.t.Fatalf("the step stays: %+v", p.status.Preparations)
}

// own is the id of the step's own job as far as a process could write it down.
func (p *process) own() string {
	if len(p.status.Preparations) == 1 && p.status.Preparations[0].JobOrigin == v1alpha1.JobBegun {
		return p.status.Preparations[0].Job
	}
	return ""
}

// The process ends at each of its instants: before it has written the step down, before it has asked for the clean-out, before the
// answer, before it has written the job's id down, and after. Another client begins a clean-out before all that, while no process
// runs, or never. The next process has the step done, or finds the eviction withdrawn. No job of another client is ever
// cancelled, nor a server filled again that it has had cleaned out; Usher's own is taken back where its id was written down, and
// else it is said that it is left.
func TestCleanOutAtEachCrash(t *testing.T) {
	const instants = 8 // more than a process has until the job's id is written down
	known := 0
	for _, other := range []string{"never", "before", "while no process runs"} {
		for end := range instants {
			for _, retried := range []bool{false, true} {
				for _, ticks := range []int{0, 1, 9} {
					t.Run(fmt.Sprintf("another client %s, ends at %d, retried %t, %d ticks", other, end, retried, ticks), func(t *testing.T) {
						p := &process{bench: newBench(t, plain()), status: &v1alpha1.EvictionPolicyStatus{}, instants: end}
						if other == "before" {
							p.begin()
						}
						p.round(true, min(ticks, 1))
						p.round(true, ticks)
						own := p.own()
						p.restart()
						if other == "while no process runs" {
							p.begin()
						}
						if retried {
							p.round(true, ticks)
							p.round(true, ticks)
							own = p.own()
						}
						p.withdrawn(ticks)
						p.check(other != "never", own)
						if own != "" && other == "never" {
							known++
						}
					})
				}
			}
		}
	}
	if known == 0 {
		t.Error("no process has ever written its job's id down: the test says nothing")
	}
}

func (p *process) check(another bool, own string) {
	p.t.Helper()
	p.ticks(40)
	facts, said := p.evidence(prmrA).Members[prmrA], fmt.Sprint(p.left)
	clean := facts["cleaned"] == true
	reason, _ := facts["cleanOutReason"].(string)
	switch {
	case another && strings.Contains(reason, "has been cleaned out already"):
		// Usher's own job had ended before the other client's began, which was refused for it.
	case another && !clean:
		p.t.Errorf("another client's clean-out was taken back: %v", facts)
	case !another && own != "" && clean:
		p.t.Errorf("job %s is Usher's own, and was not taken back: %v; said: %s", own, facts, said)
	case clean && p.noted && !strings.Contains(said, "cleanedServers"):
		p.t.Errorf("the server stays cleaned out, and nothing was said of it: %q", said)
	}
}

// The answer to the first call is lost, and the process lives on: it does not take the job for its own either.
func TestCleanOutWhoseAnswerWasLost(t *testing.T) {
	p := &process{bench: newBench(t, plain()), status: &v1alpha1.EvictionPolicyStatus{}, instants: -1}
	p.sim.Inject(httpfault.Fault{Path: cleanOutPath, Times: 1, Lost: true})
	for range 3 {
		p.round(true, 0)
	}
	entry := p.status.Preparations[0]
	if entry.Job == "" || entry.JobOrigin != v1alpha1.JobFound {
		t.Errorf("written down: %+v", entry)
	}
	p.withdrawn(0)
	if p.asked("cancelAgencyJob") > 0 || len(p.left) != 1 {
		t.Errorf("cancelled %d times, said %q", p.asked("cancelAgencyJob"), p.left)
	}
	for _, part := range []string{"job " + entry.Job, `cancelAgencyJob {"id":"` + entry.Job + `"}`, "cleanedServers"} {
		if len(p.left) == 1 && !strings.Contains(p.left[0].Message, part) {
			t.Errorf("%+v does not say %q", p.left[0], part)
		}
	}
}

// Undo touches what the step's own job does, and nothing else.
func TestUndoKnowsItsOwnJob(t *testing.T) {
	const done, wait, left = "done", "wait", "left"
	theirs := func(b *bench) string {
		id, err := b.sys.(*deployment).submit(b.t.Context(), cleanOutPath, prmrA)
		if err != nil {
			b.t.Fatal(err)
		}
		return id
	}
	own := func(b *bench) {
		if err := b.prepare(CleanOut, prmrA); err != nil || !b.jobs[prmrA].Own() {
			b.t.Fatal(b.jobs[prmrA], err)
		}
	}
	fail := func(b *bench) {
		if err := b.sys.(*deployment).cancel(b.t.Context(), agency.Job{ID: b.jobs[prmrA].ID}); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		given func(*bench)
		want  string // of the first call
		clean bool   // in the end
	}{
		"nothing was begun":                       {func(*bench) {}, done, false},
		"own, waiting":                            {own, wait, false},
		"own, running":                            {func(b *bench) { own(b); b.ticks(3) }, wait, false},
		"own, finished":                           {func(b *bench) { own(b); b.ticks(20) }, wait, false},
		"own, finished and forgotten":             {func(b *bench) { own(b); b.ticks(20); b.sim.ForgetJobs() }, wait, false},
		"own, failed":                             {func(b *bench) { own(b); fail(b) }, done, false},
		"own, failed, and another's runs":         {func(b *bench) { own(b); fail(b); theirs(b); b.ticks(2) }, left, true},
		"own, failed, and another's has finished": {func(b *bench) { own(b); fail(b); theirs(b); b.ticks(20) }, left, true},
		"own, failed, and another's has finished and is forgotten": {func(b *bench) {
			own(b)
			fail(b)
			id := theirs(b)
			b.ticks(20)
			b.sim.Set("Target/Finished/"+id, nil)
		}, left, true},
		"own runs, and another's waits behind it": {func(b *bench) { own(b); b.ticks(2); theirs(b) }, wait, true},
		"own has finished, was undone, and another's has finished since": {func(b *bench) {
			own(b)
			b.ticks(20)
			b.sim.Set("Target/CleanedServers", []any{})
			theirs(b)
			b.ticks(20)
		}, left, true},
		"another's runs":                         {func(b *bench) { theirs(b); b.ticks(2) }, left, true},
		"another's was found":                    {func(b *bench) { b.jobs[prmrA] = eviction.Job{ID: theirs(b), Found: true}; b.ticks(2) }, left, true},
		"another's was found, and one more runs": {func(b *bench) { b.jobs[prmrA] = eviction.Job{ID: "1", Found: true}; theirs(b); b.ticks(2) }, left, true},
		"it was cleaned out before":              {func(b *bench) { b.sim.Set("Target/CleanedServers", []any{prmrA}) }, left, true},
		"it is to be cleaned out":                {func(b *bench) { b.sim.Set("Target/ToBeCleanedServers", []any{prmrA}) }, left, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, plain())
			c.given(b)
			undone, err := b.sys.Undo(t.Context(), b.step(CleanOut, prmrA))
			got := map[bool]string{true: done, false: wait}[undone.Done]
			if undone.Left != "" {
				got = left
			}
			if err != nil || got != c.want || undone.Left != "" && !undone.Done {
				t.Errorf("%s (%+v), error %v; want %s", got, undone, err, c.want)
			}
			b.undo(CleanOut, prmrA)
			b.ticks(30)
			if clean := b.evidence(prmrA).Members[prmrA]["cleaned"] == true; clean != c.clean {
				t.Errorf("cleaned out in the end: %t, want %t", clean, c.clean)
			}
		})
	}
}

// A job that runs when the step is asked for is found, again and again, until an own one is begun.
func TestPrepareFindsAJob(t *testing.T) {
	b := newBench(t, plain())
	theirs, err := b.sys.(*deployment).submit(t.Context(), cleanOutPath, prmrA)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.prepare(CleanOut, prmrA); err != nil || b.jobs[prmrA] != (eviction.Job{ID: theirs, Found: true}) {
			t.Fatalf("job %+v, error %v", b.jobs[prmrA], err)
		}
	}
	if err := b.sys.(*deployment).cancel(t.Context(), agency.Job{ID: theirs}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.prepare(CleanOut, prmrA); err != nil || !b.jobs[prmrA].Own() || b.jobs[prmrA].ID == theirs {
			t.Fatalf("job %+v, error %v", b.jobs[prmrA], err)
		}
	}
	if b.asked(cleanOutPath) != 2 {
		t.Errorf("asked for %d times", b.asked(cleanOutPath))
	}
}
