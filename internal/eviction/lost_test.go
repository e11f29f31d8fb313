package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// hypervisors is a policy whose stores have what they carry brought back elsewhere once their nodes are proven off.
func hypervisors(t testing.TB) *Policy {
	t.Helper()
	spec := toySpec()
	own := toyRoles()[0]
	own.Replace = v1alpha1.Replace{Successor: v1alpha1.SuccessorNone}
	own.Lost = &v1alpha1.Lost{Prepare: []v1alpha1.Preparation{
		{Name: "Resign", When: "system.leader == member.id", Message: "another leads"},
		{Name: "Drain", When: "!member.drained", Message: "{{size(member.shards)}} shards are brought back", Remaining: "size(member.shards)"},
	}}
	spec.Roles = []v1alpha1.Role{own}
	return compiled(t, spec)
}

// lostStore is the store s1 of three, whose node is proven off.
func lostStore(t testing.TB) LostInput {
	t.Helper()
	in := world(t)
	in.Policies[0].Policy = hypervisors(t)
	pod := toyPod("s1", "store")
	pod.Node = "dead"
	return LostInput{
		Now: noon, Policy: in.Policies[0], Pods: []*snapshot.Pod{toyPod("s0", "store"), pod, toyPod("r0", "router")},
		Nodes: map[string]NodeState{"node-a": NodeThere, "dead": NodeProvenOff}, Evidence: in.Evidence,
	}
}

// stands is a step of s1 for its lost node, last asked for at a time.
func stands(name string, asked time.Time) v1alpha1.PreparationStatus {
	return v1alpha1.PreparationStatus{
		MemberRef: v1alpha1.MemberRef{Role: "store", ID: "m-s1", PodName: "s1", PodUID: "uid-s1", Node: "dead"},
		Name:      name, For: v1alpha1.ForLost, State: v1alpha1.PreparationBegun, StartTime: metav1.NewTime(noon.Add(-time.Minute)), LastRequestTime: metav1.NewTime(asked),
	}
}

// lostSteps are what a result writes down, and the steps that it asks for.
func lostSteps(result LostResult) (written, asked []string) {
	for _, a := range result.Actions {
		if a.Kind == Prepare {
			asked = append(asked, a.Step.Name+" of "+a.Step.Member.ID)
			continue
		}
		for _, p := range a.Status.Preparations {
			written = append(written, string(p.For)+" "+string(p.State)+" "+p.Name+" of "+p.ID)
		}
	}
	return written, asked
}

// Only so many calls are made at a time, and one that was not made is tried again later than the others: what was asked for longest ago comes first.
func TestLostStepsInTurn(t *testing.T) {
	in := lostStore(t)
	other := toyPod("s2", "store")
	other.Node = "dead"
	in.Pods = append(in.Pods, other)
	in.Evidence.Members["m-s2"] = in.Evidence.Members["m-s1"]
	for _, store := range []string{"s1", "s2"} {
		for _, name := range []string{"Resign", "Drain"} {
			step := stands(name, noon.Add(-time.Minute))
			if step.ID, step.PodName, step.PodUID = "m-"+store, store, types.UID("uid-"+store); store == "s2" {
				step.LastRequestTime = metav1.NewTime(noon.Add(-2 * time.Minute))
			}
			in.Policy.Status.Preparations = append(in.Policy.Status.Preparations, step)
		}
	}
	if _, asked := lostSteps(LoseMembers(in)); !cmp.Equal(asked, []string{"Drain of m-s2", "Resign of m-s1"}) {
		t.Errorf("%v", asked)
	}
}

func TestLoseMembers(t *testing.T) {
	begun := noon.Add(-time.Minute)
	both := []string{"Lost Begun Resign of m-s1", "Lost Begun Drain of m-s1"}
	standing := func(in *LostInput, asked time.Time) {
		in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{stands("Resign", asked), stands("Drain", asked)}
	}
	follows := func(in *LostInput) { in.Evidence.System = expression.Facts{"leader": "m-s2"} }
	reply := func(in *LostInput, reply Reply) {
		p := &in.Policy.Status.Preparations[1]
		reply.Step = Preparation{Name: p.Name, Member: p.MemberRef, Asked: p.LastRequestTime.Time}
		in.Replies = append(in.Replies, reply)
	}
	for name, c := range map[string]struct {
		given   func(*LostInput)
		written []string
		asked   []string
		again   time.Duration // 0: nothing is left to look at
	}{
		"no step stands":                   {given: func(*LostInput) {}, written: both, again: time.Second},
		"its node is there":                {given: func(in *LostInput) { in.Nodes["dead"] = NodeThere }},
		"of its node nothing is known":     {given: func(in *LostInput) { delete(in.Nodes, "dead") }},
		"its node is gone":                 {given: func(in *LostInput) { in.Nodes["dead"] = NodeMissing }},
		"the policy is being deleted":      {given: func(in *LostInput) { in.Policy.Deleted = true }},
		"the steps were just written down": {given: func(in *LostInput) { standing(in, begun) }, written: both, asked: []string{"Resign of m-s1"}, again: lostAgain},
		"its pod is gone":                  {given: func(in *LostInput) { standing(in, begun); in.Pods = nil }, written: both, asked: []string{"Resign of m-s1"}, again: lostAgain},
		"the policy is not held":           {given: func(in *LostInput) { standing(in, begun); in.Policy.Held = false }, again: time.Second},
		"the first is done":                {given: func(in *LostInput) { standing(in, begun); follows(in) }, written: both, asked: []string{"Drain of m-s1"}, again: lostAgain},
		"all are done": {given: func(in *LostInput) {
			standing(in, begun)
			follows(in)
			in.Evidence.Members["m-s1"]["drained"] = true
		}, again: lostAgain},
		"the system does not answer":        {given: func(in *LostInput) { standing(in, begun); in.Evidence.Error = "refused" }, again: lostAgain},
		"nothing was asked":                 {given: func(in *LostInput) { standing(in, begun); in.Evidence = nil }, again: lostAgain},
		"what it said is old":               {given: func(in *LostInput) { standing(in, begun); in.Evidence.Observed = noon.Add(-time.Hour) }, again: lostAgain},
		"what it said is from before":       {given: func(in *LostInput) { standing(in, begun); in.Evidence.Epoch = 3 }, again: lostAgain},
		"it does not know the member":       {given: func(in *LostInput) { standing(in, begun); delete(in.Evidence.Members, "m-s1") }, again: lostAgain},
		"whether the first is done is open": {given: func(in *LostInput) { standing(in, begun); in.Evidence.System = nil }, again: lostAgain},
		"two pods give the id": {given: func(in *LostInput) {
			standing(in, begun)
			in.Evidence.Shared = map[string][]string{"m-s1": {"s1", "s9"}}
		}, again: lostAgain},
		"the last call may still be under way": {given: func(in *LostInput) { standing(in, noon.Add(-callLife+time.Second)); follows(in) }, again: lostAgain},
		"a call without an answer is over":     {given: func(in *LostInput) { standing(in, noon.Add(-callLife)); follows(in) }, written: both, asked: []string{"Drain of m-s1"}, again: lostAgain},
		"a call was answered a moment ago":     {given: func(in *LostInput) { standing(in, noon.Add(-time.Second)); follows(in); reply(in, Reply{}) }, again: lostAgain},
		"a call was answered a while ago":      {given: func(in *LostInput) { standing(in, noon.Add(-askAgain)); follows(in); reply(in, Reply{}) }, written: both, asked: []string{"Drain of m-s1"}, again: lostAgain},
		"a call was refused for good": {given: func(in *LostInput) {
			standing(in, noon.Add(-askAgain))
			follows(in)
			reply(in, Reply{Error: "no", Terminal: true})
		}, written: both, again: lostAgain},
		"… and that is written down": {given: func(in *LostInput) {
			standing(in, noon.Add(-askAgain))
			follows(in)
			in.Policy.Status.Preparations[1].Message = "no"
			reply(in, Reply{Error: "no", Terminal: true})
		}, again: lostAgain},
		"an answer had the job": {given: func(in *LostInput) {
			standing(in, noon.Add(-askAgain))
			follows(in)
			reply(in, Reply{Job: Job{ID: "7"}})
		}, written: both, again: time.Second},
		"a step was begun for its eviction": {given: func(in *LostInput) {
			standing(in, begun)
			in.Policy.Status.Preparations[1].For = ""
		}, written: both, again: time.Second},
		"a call for its eviction may be under way": {given: func(in *LostInput) {
			standing(in, noon.Add(-time.Second))
			in.Policy.Status.Preparations[1].For = ""
		}, again: lostAgain},
		"a step is being taken back": {given: func(in *LostInput) {
			standing(in, begun)
			in.Policy.Status.Preparations[1].State = v1alpha1.PreparationUndoing
		}, written: both, again: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			in := lostStore(t)
			c.given(&in)
			result := LoseMembers(in)
			written, asked := lostSteps(result)
			if diff := cmp.Diff(c.written, written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			again := time.Duration(0)
			if !result.NextLook.IsZero() {
				again = result.NextLook.Sub(noon)
			}
			if again != c.again {
				t.Errorf("looked at again after %s, want %s", again, c.again)
			}
		})
	}
}

// The call has what the system needs to know, and what is left stands in the status.
func TestLostStepIsCounted(t *testing.T) {
	in := lostStore(t)
	in.Evidence.System = expression.Facts{"leader": "m-s2"}
	in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{stands("Resign", noon.Add(-time.Minute)), stands("Drain", noon.Add(-time.Minute))}
	result := LoseMembers(in)
	p, call := result.Actions[0].Status.Preparations[1], result.Actions[1].Step
	if p.Remaining != 2 || p.RemainingAtStart != 2 || call.Remaining != 2 || !call.Asked.Equal(p.LastRequestTime.Time) || call.Message != "2 shards are brought back" {
		t.Errorf("%+v\n%+v", p, call)
	}
}

// The status says what is being done for a step, or what the system says of it, and what is left of it also when nothing is asked for any more. What is not
// known, or was never asked for, stays as it is.
func TestWhatTheStatusSaysOfLostSteps(t *testing.T) {
	const words = "2 shards are brought back"
	ago := noon.Add(-callLife)
	asked := func(p *v1alpha1.PreparationStatus) { p.StartTime = metav1.NewTime(ago.Add(-time.Minute)) }
	done := func(in *LostInput) {
		in.Evidence.Members["m-s1"]["drained"], in.Evidence.Members["m-s1"]["shards"] = true, []string{}
	}
	for name, c := range map[string]struct {
		given   func(*LostInput, *v1alpha1.PreparationStatus)
		message string
		left    int64
		silent  bool // nothing is written
	}{
		"it is asked for":          {func(_ *LostInput, p *v1alpha1.PreparationStatus) { asked(p) }, words, 2, false},
		"the last call has failed": {func(in *LostInput, p *v1alpha1.PreparationStatus) { asked(p); in.Replies[0].Error = "no host" }, "no host", 3, false},
		"… and is made again": {func(in *LostInput, p *v1alpha1.PreparationStatus) {
			asked(p)
			p.Message, in.Replies[0].Error = "no host", "no host"
		}, "no host", 2, false},
		"how much is left is not known": {func(in *LostInput, p *v1alpha1.PreparationStatus) {
			asked(p)
			delete(in.Evidence.Members["m-s1"], "shards")
		}, "(not known) shards are brought back", 3, false},
		"nothing is left":         {func(in *LostInput, p *v1alpha1.PreparationStatus) { asked(p); done(in) }, "", 0, false},
		"nothing was left before": {func(in *LostInput, p *v1alpha1.PreparationStatus) { asked(p); done(in); p.Remaining, p.Message = 0, "" }, "", 0, true},
		"it was never asked for":  {func(in *LostInput, _ *v1alpha1.PreparationStatus) { done(in) }, words, 3, true},
		"what is done cannot be counted": {func(in *LostInput, p *v1alpha1.PreparationStatus) {
			asked(p)
			done(in)
			delete(in.Evidence.Members["m-s1"], "shards")
		}, words, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := lostStore(t)
			in.Evidence.System = expression.Facts{"leader": "m-s2"}
			in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{stands("Resign", ago), stands("Drain", ago)}
			p := &in.Policy.Status.Preparations[1]
			p.StartTime, p.Message, p.Remaining, p.RemainingAtStart = p.LastRequestTime, words, 3, 5
			in.Replies = []Reply{{Step: Preparation{Name: p.Name, Member: p.MemberRef, Asked: p.LastRequestTime.Time}}}
			c.given(&in, p)
			result := LoseMembers(in)
			if (len(result.Actions) == 0) != c.silent {
				t.Fatalf("%+v", result.Actions)
			}
			got := *p
			if !c.silent {
				got = result.Actions[0].Status.Preparations[1]
			}
			if got.Message != c.message || got.Remaining != c.left {
				t.Errorf("%q, %d left", got.Message, got.Remaining)
			}
		})
	}
}

// A pod on a node that is proven off may be removed once the steps stand, though nothing takes its place.
func TestPodsOfLostMembers(t *testing.T) {
	for name, c := range map[string]struct {
		steps []v1alpha1.PreparationStatus
		want  Answer
	}{
		"no step stands":           {want: Blocked},
		"one of two stands":        {steps: []v1alpha1.PreparationStatus{stands("Resign", noon)}, want: Blocked},
		"both stand":               {steps: []v1alpha1.PreparationStatus{stands("Resign", noon), stands("Drain", noon)}, want: Allowed},
		"one was for its eviction": {steps: []v1alpha1.PreparationStatus{stands("Resign", noon), begun("Drain", "s1", v1alpha1.PreparationBegun, noon)}, want: Blocked},
	} {
		in := world(t)
		in.Policies[0].Policy, in.Pod, in.NodeOff = hypervisors(t), toyPod("s1", "store"), true
		in.Policies[0].Status.Preparations = c.steps
		in.Evidence = nil
		if got := judgeDeletion(in).verdict; got.Answer != c.want {
			t.Errorf("%s: %s %v", name, got.Answer, reasons(got))
		}
	}
}

// What was done for a lost node is taken back once it is there again, whether its pod is or not.
func TestLostStepsAreTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		state  NodeState
		policy func(*StatusInput)
		asked  time.Duration // ago
		undone bool
		left   bool // it is crossed out, and that is said
		says   string
	}{
		"its node is off":              {state: NodeProvenOff, asked: time.Hour},
		"of its node nothing is known": {asked: time.Hour},
		"its node is there":            {state: NodeThere, asked: time.Hour, undone: true},
		"a call may be under way":      {state: NodeThere, asked: time.Second},
		"its node is gone":             {state: NodeMissing, asked: time.Hour, says: nodeDeleted},
		"its node does not come back":  {state: NodeMissing, asked: memory, left: true},
		"the policy is being deleted":  {state: NodeProvenOff, asked: time.Hour, policy: func(in *StatusInput) { in.Deleted = true }, undone: true},
		"it is only audited":           {state: NodeProvenOff, asked: time.Hour, policy: func(in *StatusInput) { in.Audited = true }, undone: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := untidy(t)
			step := stands("Drain", noon.Add(-c.asked))
			step.Job, step.JobOrigin, step.Remaining = "7", v1alpha1.JobBegun, 2
			in.Policy.Policy, in.Pods = hypervisors(t), nil
			in.Policy.Status.Leaving, in.Policy.Status.Preparations = nil, []v1alpha1.PreparationStatus{step}
			in.Presences, in.Nodes = map[types.UID]PodPresence{}, map[string]NodeState{"dead": c.state}
			if c.policy != nil {
				c.policy(&in)
			}
			var undone, left bool
			for _, a := range ReconcileStatus(in).Actions {
				undone = undone || a.Kind == Undo
				left = left || len(a.Left) > 0
				if a.Kind == Settle {
					in.Policy.Status = a.Status
				}
			}
			if steps := in.Policy.Status.Preparations; c.says != "" && (len(steps) != 1 || steps[0].Message != c.says || len(ReconcileStatus(in).Actions) > 0) {
				t.Errorf("the status says %+v, and is written again: %v", steps, ReconcileStatus(in).Actions)
			}
			if undone != c.undone || left != c.left {
				t.Errorf("undone %t, left %t", undone, left)
			}
			if reads := LiveReads(in); len(reads) > 0 {
				t.Errorf("its pod is looked for: %v", reads)
			}
		})
	}
}

// Steps for lost nodes cannot look at the pod, which may be gone.
func TestLostStepsLookAtNoPod(t *testing.T) {
	for text, refused := range map[string]bool{"!member.drained": false, "pod.name == 'a'": true, "leaving.size() == 0": true, "node.name == 'a'": true} {
		spec := toySpec()
		own := toyRoles()[0]
		own.Lost = &v1alpha1.Lost{Prepare: []v1alpha1.Preparation{{Name: "Drain", When: text, Message: "it is drained"}}}
		spec.Roles = []v1alpha1.Role{own}
		if _, problems := Compile(spec, toyRoles(), toyDeclared); (len(problems) > 0) != refused {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
