package arangodb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

// rotation is a drain that wants every agent gone, one manager that may be killed, and pods that come back elsewhere.
type rotation struct {
	*bench
	rt       *rapid.T
	status   *v1alpha1.EvictionPolicyStatus
	pods     map[string]*snapshot.Pod // by agent; absent: evicted and not back
	wanted   map[string]bool
	away     map[string]int // seconds until the pod is back
	replies  []eviction.Reply
	evidence *eviction.Evidence
	restarts int
}

// Every agent is wanted gone at once, in whatever order, on evidence as old as it may be, with calls that go wrong, requests
// that are withdrawn, elections that the same agent wins and managers that are killed: a majority of the agency stays all the
// time, and each agent leaves in the end.
func TestEveryAgentLeavesInTurn(t *testing.T) {
	restarts := 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newRotation(t, rt, rapid.SampledFrom([]int{3, 3, 5}).Draw(rt, "agents"))
		for second := 0; len(r.wanted) > 0; second += 2 {
			if second > 1200 {
				rt.Fatalf("%v are still there: %s", slices.Sorted(maps.Keys(r.wanted)), r.why())
			}
			if second < 120 {
				r.disturb()
			} else {
				r.sim.Heal()
			}
			r.seconds(2)
			r.act(second < 120)
		}
		restarts += r.restarts
	})
	if restarts == 0 {
		t.Error("no agent was ever restarted: nothing was tested")
	}
	t.Logf("%d restarts", restarts)
}

func newRotation(t *testing.T, rt *rapid.T, count int) *rotation {
	t.Helper()
	r := &rotation{
		bench: newBench(t, agents(count)()), rt: rt, status: &v1alpha1.EvictionPolicyStatus{},
		pods: map[string]*snapshot.Pod{}, wanted: map[string]bool{}, away: map[string]int{},
	}
	for n := range count {
		id := arangosim.ID("AGNT", n)
		r.wanted[id] = true
		r.arrive(id)
	}
	r.look()
	r.pass(rapid.SampledFrom([]int{0, 30}).Draw(rt, "seconds that the manager has watched"))
	return r
}

func (r *rotation) arrive(id string) {
	pod := r.input("agent", id, nil).Pod
	pod.UID = types.UID(fmt.Sprintf("%s-%d", id, r.now.Unix()))
	r.pods[id] = pod
}

// seconds lets time pass and looks at the majority all the while.
func (r *rotation) seconds(n int) {
	for range n {
		r.pass(1)
		if !r.sim.Quorum() {
			r.rt.Fatalf("the agency has lost its majority: %v restart, away %v", r.sim.Restarting(), r.away)
		}
		for id := range r.away {
			if r.away[id]--; r.away[id] <= 0 {
				delete(r.away, id)
				r.sim.Restart(id)
				r.arrive(id)
			}
		}
	}
}

func (r *rotation) disturb() {
	switch rapid.IntRange(0, 19).Draw(r.rt, "trouble") {
	case 0:
		r.sim.Inject(rapid.SampledFrom([]httpfault.Fault{
			{Path: shutdownPath, Times: 1, Lost: true},
			{Path: shutdownPath, Times: 1, Refuse: true},
			{Path: shutdownPath, Times: 1, Status: 503},
			{Path: "/_api/agency", Times: 2, Status: 503},
		}).Draw(r.rt, "fault"))
	case 1:
		r.forget()
		r.replies = nil
	case 2, 3:
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(r.wanted))).Draw(r.rt, "agent")
		r.wanted[id] = !r.wanted[id]
	case 4, 5:
		if led := r.sim.AgencyLeader(); len(r.sim.Restarting()) == 0 && led != "" {
			r.sim.Elect(led)
		}
	}
}

// act is one round of a manager.
func (r *rotation) act(disturbed bool) {
	for id := range r.wanted {
		r.wanted[id] = r.wanted[id] || !disturbed
	}
	for _, id := range rapid.Permutation(slices.Sorted(maps.Keys(r.wanted))).Draw(r.rt, "order") {
		if pod := r.pods[id]; pod != nil {
			r.look()
			in := eviction.ResponderInput{Input: r.member(id), Wanted: r.wanted[id], Active: true, Replies: r.replies}
			r.carryOut(id, eviction.Step(in).Actions)
		}
	}
	r.tidy()
}

// look observes where what is known must not decide any more, and now and then before.
func (r *rotation) look() {
	if r.evidence == nil || r.evidence.Epoch != r.status.Epoch || r.now.Sub(r.evidence.Observed) > maxAge || rapid.IntRange(0, 5).Draw(r.rt, "look") == 0 {
		r.evidence = r.bench.evidence(r.sim.Members()...)
		r.evidence.Epoch = r.status.Epoch
	}
}

func (r *rotation) member(id string) eviction.Input {
	in := r.input("agent", id, r.evidence)
	in.Pod, in.Policies[0].Status = r.pods[id], r.status
	in.Peers = slices.Collect(maps.Values(r.pods))
	return in
}

func (r *rotation) carryOut(id string, actions []eviction.Action) {
	for _, action := range actions {
		switch action.Kind {
		case eviction.Permit, eviction.Begin, eviction.Empty, eviction.Settle:
			r.status = action.Status
		case eviction.Prepare, eviction.Undo:
			r.call(&action)
		case eviction.Evict:
			if lose, why := r.sim.WouldLose(id); lose {
				r.rt.Fatalf("%s is evicted: %s", id, why)
			}
			r.sim.Kill(id)
			delete(r.pods, id)
			delete(r.wanted, id)
			r.away[id] = rapid.IntRange(1, 20).Draw(r.rt, "seconds away")
			return
		case eviction.Hold, eviction.Request, eviction.Withdraw, eviction.Respond:
		}
	}
}

func (r *rotation) call(action *eviction.Action) {
	reply, before := eviction.Reply{Step: action.Step, Undo: action.Kind == eviction.Undo}, len(r.sim.Restarting())
	var err error
	if reply.Undo {
		var undone eviction.Undone
		undone, err = r.sys.Undo(r.t.Context(), action.Step)
		reply.Done, reply.Left = undone.Done, undone.Left
	} else {
		reply.Job, err = r.sys.Prepare(r.t.Context(), action.Step)
	}
	if err != nil {
		reply.Error = err.Error()
	}
	r.replies = append(slices.DeleteFunc(r.replies, func(h eviction.Reply) bool { return h.Step.Member.PodUID == action.Step.Member.PodUID }), reply)
	if after := len(r.sim.Restarting()); after > before {
		r.restarts++
	}
}

func (r *rotation) tidy() {
	in := eviction.StatusInput{
		Now: r.now, Policy: r.member("AGNT-a").Policies[0], Pods: slices.Collect(maps.Values(r.pods)), Replies: r.replies,
		Presences: map[types.UID]eviction.PodPresence{}, Wanted: map[types.UID]bool{}, WantedKnown: true,
	}
	for id, pod := range r.pods {
		in.Wanted[pod.UID] = r.wanted[id]
	}
	for _, doubt := range eviction.LiveReads(in) {
		in.Presences[doubt.UID] = eviction.SeenGone
		if slices.ContainsFunc(in.Pods, func(pod *snapshot.Pod) bool { return pod.UID == doubt.UID }) {
			in.Presences[doubt.UID] = eviction.SeenStaying
		}
	}
	r.carryOut("", eviction.ReconcileStatus(in).Actions)
}

func (r *rotation) why() string {
	var all []string
	for id := range r.wanted {
		r.look()
		all = append(all, id+": "+said(eviction.Judge(r.member(id))))
	}
	return strings.Join(all, "\n")
}
