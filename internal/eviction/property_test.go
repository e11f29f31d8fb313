package eviction

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// What is drawn is well for the most part, so that most verdicts hang on one thing.
var roleNames = []string{"store", "store", "store", "store", "router", "single"}

// check draws ten times as often as rapid does by default: these properties are cheap.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 10 {
		rapid.Check(t, property)
	}
}

func drawPod(t *rapid.T, label string) *snapshot.Pod {
	pod := toyPod(fmt.Sprintf("s%d", rapid.IntRange(0, 3).Draw(t, label)), rapid.SampledFrom(roleNames).Draw(t, label+" role"))
	if rapid.IntRange(0, 7).Draw(t, label+" terminating") == 0 {
		terminating(pod)
	}
	return pod
}

func drawTime(t *rapid.T, label string) time.Time {
	return noon.Add(time.Duration(rapid.IntRange(-200, 30).Draw(t, label)) * time.Second)
}

func drawEvidence(t *rapid.T) *Evidence {
	if rapid.IntRange(0, 15).Draw(t, "no evidence") == 0 {
		return nil
	}
	evidence := &Evidence{
		Observed: noon.Add(time.Duration(rapid.IntRange(-12, 11).Draw(t, "observed")) * time.Second),
		Epoch:    rapid.SampledFrom([]int64{4, 4, 4, 4, 3, 5}).Draw(t, "evidence's epoch"),
		Error:    rapid.SampledFrom([]string{"", "", "", "", "", "", "", "503"}).Draw(t, "error"),
		System:   expression.Facts{}, Members: map[string]expression.Facts{},
	}
	if rapid.IntRange(0, 9).Draw(t, "leader known") > 0 {
		evidence.System["leader"] = rapid.SampledFrom([]string{"none", "none", "none", "m-s0", "m-s1"}).Draw(t, "leader")
	}
	for i := range 4 {
		if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
			continue
		}
		facts := expression.Facts{"shards": []string{"x"}}
		if rapid.IntRange(0, 9).Draw(t, "not said") > 0 {
			facts["drained"] = rapid.IntRange(0, 3).Draw(t, "drained") > 0
		}
		evidence.Members[fmt.Sprintf("m-s%d", i)] = facts
	}
	return evidence
}

func drawStatus(t *rapid.T) *v1alpha1.EvictionPolicyStatus {
	status := &v1alpha1.EvictionPolicyStatus{Epoch: 4}
	for i := range 3 {
		name := fmt.Sprintf("s%d", i)
		if rapid.IntRange(0, 7).Draw(t, "permit") == 0 {
			status.Leaving = append(status.Leaving, leaves(name, "store", drawTime(t, "since")))
		}
		if rapid.IntRange(0, 5).Draw(t, "step") == 0 {
			state := rapid.SampledFrom([]v1alpha1.PreparationState{v1alpha1.PreparationBegun, v1alpha1.PreparationUndoing}).Draw(t, "state")
			step := rapid.SampledFrom([]string{"Drain", "Resign"}).Draw(t, "step")
			status.Preparations = append(status.Preparations, begun(step, name, state, drawTime(t, "asked")))
		}
	}
	return status
}

func drawReplies(t *rapid.T, status *v1alpha1.EvictionPolicyStatus) []Reply {
	var replies []Reply
	for _, entry := range status.Preparations {
		answer := Reply{Step: Preparation{Name: entry.Name, Member: entry.MemberRef, Asked: entry.LastRequestTime.Time}}
		if rapid.IntRange(0, 3).Draw(t, "of an earlier call") == 0 {
			answer.Step.Asked = entry.LastRequestTime.Add(-time.Minute)
		}
		answer.Undo = rapid.Bool().Draw(t, "undo")
		answer.Done = answer.Undo && rapid.Bool().Draw(t, "done")
		answer.Error = rapid.SampledFrom([]string{"", "503"}).Draw(t, "reply")
		answer.Done = answer.Done && answer.Error == "" // as it is received
		answer.Terminal = answer.Error != "" && rapid.Bool().Draw(t, "terminal")
		replies = append(replies, answer)
	}
	return replies
}

func drawInput(t *rapid.T, policy *Policy) Input {
	in := Input{
		Now: noon, Pod: drawPod(t, "pod"), Evidence: drawEvidence(t), Fresh: rapid.Bool().Draw(t, "fresh"),
		Policies: []Declared{{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: "7", Policy: policy, Status: drawStatus(t), Held: rapid.IntRange(0, 3).Draw(t, "held") > 0}},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "peers") {
		peer := drawPod(t, fmt.Sprint("peer", i))
		peer.Name, peer.UID = fmt.Sprintf("s%d", i), types.UID(fmt.Sprintf("uid-s%d", i)) // one pod of a name
		in.Peers = append(in.Peers, peer)
	}
	if rapid.IntRange(0, 9).Draw(t, "claimed twice") == 0 {
		in.Policies = append(in.Policies, in.Policies[0])
	}
	return in
}

// mayLeaveByHand says in other words what Judge must find.
func mayLeaveByHand(in *Input) bool {
	status, role := in.Policies[0].Status, in.Pod.Labels["role"]
	if len(in.Policies) > 1 || role == "single" {
		return false
	}
	if role == "router" {
		return true
	}
	for _, l := range status.Leaving {
		if l.PodUID != in.Pod.UID {
			return false
		}
	}
	for _, p := range in.Peers {
		if p.Terminating() && p.UID != in.Pod.UID && p.Labels["role"] == "store" {
			return false
		}
	}
	for _, p := range status.Preparations {
		if p.PodUID == in.Pod.UID && p.State == v1alpha1.PreparationUndoing {
			return false
		}
	}
	e, id := in.Evidence, "m-"+in.Pod.Name
	if e == nil || e.Error != "" || e.Epoch != status.Epoch || e.Observed.Before(noon.Add(-10*time.Second)) || e.Observed.After(noon.Add(10*time.Second)) {
		return false
	}
	leader, known := e.System["leader"]
	return e.Members[id]["drained"] == true && known && leader != id
}

func TestPropertyJudge(t *testing.T) {
	policy := compiled(t, toySpec())
	check(t, func(t *rapid.T) {
		in := drawInput(t, policy)
		got := Judge(in)
		if want := mayLeaveByHand(&in); (got.Answer == Allowed) != want {
			t.Fatalf("%s (%v), want allowed: %v", got.Answer, reasons(got), want)
		}
		if (got.Answer == Allowed) != (len(got.Blockers) == 0) {
			t.Fatalf("%s with %d blockers", got.Answer, len(got.Blockers))
		}
		for _, b := range got.Blockers {
			if b.Message == "" || b.Reason == "" {
				t.Fatalf("a blocker without words: %+v", b)
			}
		}
	})
}

func drawWish(t *rapid.T, in Input) AdmissionInput {
	wish := AdmissionInput{
		Input: in, Verb: rapid.SampledFrom([]Verb{VerbEvict, VerbDelete}).Draw(t, "verb"),
		User: rapid.SampledFrom([]string{
			"alice", "usher", "system:kube-scheduler", systemAccounts + "statefulset-controller", systemAccounts + "taint-eviction-controller",
			garbageCollector, "system:node:node-a",
		}).Draw(t, "user"),
		DryRun: rapid.Bool().Draw(t, "dry run"), Self: []string{"usher"},
		Ask: rapid.SampledFrom([]string{"", "", AskEvict, AskReplace, "x"}).Draw(t, "ask"),
	}
	if rapid.Bool().Draw(t, "by force") {
		wish.Grace = new(int64)
	}
	return wish
}

func TestPropertyAdmit(t *testing.T) {
	policy := compiled(t, toySpec())
	check(t, func(t *rapid.T) {
		wish := drawWish(t, drawInput(t, policy))
		got := Admit(wish)
		switch {
		case wish.Ask != "" && (got.Allow || len(got.Actions) > 0):
			t.Fatal("a question was allowed or has effects")
		case wish.DryRun && len(got.Actions) > 0:
			t.Fatal("a dry run has effects")
		case !got.Allow && (got.Message == "" || got.Code == 0):
			t.Fatal("a refusal without words")
		case wish.Verb == VerbEvict && got.Allow && !wish.Pod.Terminating() && !mayLeaveByHand(&wish.Input):
			t.Fatalf("an eviction was let through: %s", got.Note.Kind)
		case got.Note.Kind == LetThrough && got.Verdict.Role == "store" && !wish.DryRun && !wish.Pod.Terminating() && len(got.Actions) != 1:
			t.Fatal("let through without a permit")
		}
	})
}

// carryOut writes what the actions write and returns how many writes there were.
func carryOut(policy *Declared, actions []Action) (writes int) {
	for i := range actions {
		if actions[i].Status != nil {
			policy.Status = actions[i].Status
			writes++
		}
	}
	return writes
}

func calls(actions []Action) (count int) {
	for i := range actions {
		if actions[i].Kind == Prepare || actions[i].Kind == Undo || actions[i].Status != nil {
			count++
		}
	}
	return count
}

func TestPropertyStepOnce(t *testing.T) {
	policy := compiled(t, toySpec())
	check(t, func(t *rapid.T) {
		in := ResponderInput{Input: drawInput(t, policy), Wanted: rapid.Bool().Draw(t, "wanted"), Active: rapid.Bool().Draw(t, "active")}
		in.Replies = drawReplies(t, in.Policies[0].Status)
		before := statusOf(&in.Policies[0])
		first := Step(in)
		if diff := cmp.Diff(before, statusOf(&in.Policies[0])); diff != "" {
			t.Fatalf("the input was changed: %s", diff)
		}
		for _, action := range first.Actions {
			if action.Kind == Evict && !mayLeaveByHand(&in.Input) {
				t.Fatal("it evicts what may not leave")
			}
		}
		if carryOut(&in.Policies[0], first.Actions) > 1 {
			t.Fatal("more than one write")
		}
		if evicts(first.Actions) {
			return // a permit ends the epoch: the next verdict needs newer evidence
		}
		if second := Step(in); calls(second.Actions) > 0 {
			t.Fatalf("once more: %v after %v", kinds(second.Actions), kinds(first.Actions))
		}
	})
}

func evicts(actions []Action) bool {
	for i := range actions {
		if actions[i].Kind == Evict {
			return true
		}
	}
	return false
}

func TestPropertyTidyOnce(t *testing.T) {
	policy := compiled(t, toySpec())
	unmarked, ended := 0, 0
	property := func(t *rapid.T) {
		in := drawStatusInput(t, policy)
		before := statusOf(&in.Policy)
		first := ReconcileStatus(in)
		if diff := cmp.Diff(before, statusOf(&in.Policy)); diff != "" {
			t.Fatalf("the input was changed: %s", diff)
		}
		if carryOut(&in.Policy, first.Actions) > 1 {
			t.Fatal("more than one write")
		}
		checkTidied(t, &in, before)
		ended += checkEnded(t, &in, before)
		for i := range first.Actions {
			if action := &first.Actions[i]; action.Kind == Undo {
				in.UnderWay = append(in.UnderWay, action.Step)
				unmarked += checkUndo(t, &in, action)
			}
		}
		if second := ReconcileStatus(in); calls(second.Actions) > 0 {
			t.Fatalf("once more: %v after %v", kinds(second.Actions), kinds(first.Actions))
		}
	}
	for range 10 { // one input in 50 has a step that ends
		check(t, property)
	}
	if unmarked == 0 || ended == 0 {
		t.Errorf("%d steps were undone without a mark, and %d have ended: the test says nothing", unmarked, ended)
	}
}

// TestPropertyOthersThatAreNotAskedFor: where it is not asked whether another pod is wanted gone, nothing rests on it.
func TestPropertyOthersThatAreNotAskedFor(t *testing.T) {
	policy := compiled(t, toySpec())
	rapid.Check(t, func(t *rapid.T) {
		in := drawStatusInput(t, policy)
		steps := in.Policy.Status.Preparations
		maps.DeleteFunc(in.Wanted, func(uid types.UID, _ bool) bool {
			return !slices.ContainsFunc(steps, func(p v1alpha1.PreparationStatus) bool { return p.PodUID == uid })
		})
		if len(steps) == 0 || in.AsksForOthers() {
			t.Skip()
		}
		another := in
		another.Wanted = maps.Clone(in.Wanted)
		another.Wanted["uid-another"] = true
		if diff := cmp.Diff(ReconcileStatus(in), ReconcileStatus(another)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func drawStatusInput(t *rapid.T, policy *Policy) StatusInput {
	in := StatusInput{
		Now:       noon,
		Policy:    Declared{Key: snapshot.Key{Namespace: "shop", Name: "db"}, Policy: policy, Status: drawStatus(t)},
		Presences: map[types.UID]PodPresence{}, Gone: map[types.UID]time.Time{},
		Wanted: map[types.UID]bool{}, WantedKnown: rapid.IntRange(0, 3).Draw(t, "wanted known") > 0,
		Deleted: rapid.IntRange(0, 7).Draw(t, "deleted") == 0, Audited: rapid.IntRange(0, 7).Draw(t, "audited") == 0,
	}
	in.Replies = drawReplies(t, in.Policy.Status)
	for i := range 3 {
		uid := types.UID(fmt.Sprintf("uid-s%d", i))
		in.Presences[uid] = rapid.SampledFrom([]PodPresence{"", SeenGone, SeenGone, SeenTerminating, SeenStaying, SeenReady}).Draw(t, "sight")
		if in.Presences[uid] == SeenGone {
			in.Gone[uid] = noon.Add(time.Duration(rapid.IntRange(-12, 1).Draw(t, "gone")) * time.Second)
		}
		if rapid.Bool().Draw(t, "wanted") {
			in.Wanted[uid] = true
		}
		if rapid.Bool().Draw(t, "there") {
			pod := drawPod(t, "pod")
			in.Pods = append(slices.DeleteFunc(in.Pods, func(p *snapshot.Pod) bool { return p.UID == pod.UID }), pod) // one of a UID
		}
		if in.Presences[uid] == SeenGone && rapid.Bool().Draw(t, "back") {
			drawReplacement(t, &in, i)
		}
	}
	return in
}

// drawReplacement draws the pod that follows another under its name, and what the system said when it was asked to undo the other's step for it.
func drawReplacement(t *rapid.T, in *StatusInput, i int) {
	pod := toyPod(fmt.Sprintf("s%d", i), "store")
	former := pod.UID
	pod.UID += "-back"
	in.Pods = append(slices.DeleteFunc(in.Pods, func(p *snapshot.Pod) bool { return p.UID == former }), pod)
	in.Presences[pod.UID] = rapid.SampledFrom([]PodPresence{"", SeenStaying, SeenReady}).Draw(t, "sight of what is back")
	if rapid.IntRange(0, 3).Draw(t, "it is wanted") == 0 {
		in.Wanted[pod.UID] = true
	}
	status, name := in.Policy.Status, pod.Name
	if permitOf(status.Leaving, former) < 0 && rapid.Bool().Draw(t, "it was let go") {
		status.Leaving = append(status.Leaving, leaves(name, "store", drawTime(t, "since")))
	}
	if !slices.ContainsFunc(status.Preparations, func(p v1alpha1.PreparationStatus) bool { return p.Name == "Drain" && p.ID == "m-"+name }) && rapid.Bool().Draw(t, "it was prepared") {
		status.Preparations = append(status.Preparations, begun("Drain", name, v1alpha1.PreparationBegun, noon.Add(-rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Minute}).Draw(t, "asked"))))
	}
	for _, entry := range status.Preparations {
		moved := reassign(entry, pod)
		step := newUndoing(in).stepOf(&moved)
		if entry.PodUID != former || rapid.Bool().Draw(t, "not asked") {
			continue
		}
		if rapid.Bool().Draw(t, "under way") {
			in.UnderWay = append(in.UnderWay, step)
			continue
		}
		reply := Reply{Step: step, Undo: true, Error: rapid.SampledFrom([]string{"", "503"}).Draw(t, "its reply")}
		reply.Done = reply.Error == "" && rapid.Bool().Draw(t, "undone")
		in.Replies = append(in.Replies, reply)
	}
}

// checkUndo: the system is asked to undo what is marked, or what was begun for a pod that is gone and whose permit stands. It returns 1 for the
// latter.
func checkUndo(t *rapid.T, in *StatusInput, action *Action) int {
	for _, entry := range in.Policy.Status.Preparations {
		switch {
		case entry.Name != action.Step.Name || entry.ID != action.Step.Member.ID:
		case entry.State == v1alpha1.PreparationUndoing && entry.PodUID == action.UID:
			return 0
		case entry.PodUID != action.UID && in.Presences[entry.PodUID] == SeenGone && permitOf(in.Policy.Status.Leaving, entry.PodUID) >= 0:
			return 1
		}
	}
	t.Fatalf("%s is undone for %s, and the status is %+v", action.Step.Name, action.UID, in.Policy.Status.Preparations)
	return 0
}

// checkEnded: what ends was undone, and the epoch with it. It returns how much has ended.
func checkEnded(t *rapid.T, in *StatusInput, before *v1alpha1.EvictionPolicyStatus) (ended int) {
	for _, entry := range before.Preparations {
		if slices.ContainsFunc(in.Policy.Status.Preparations, func(p v1alpha1.PreparationStatus) bool { return p.Name == entry.Name && p.ID == entry.ID }) {
			continue
		}
		ended++
		undone := func(r Reply) bool {
			return r.Undo && r.Done && r.Error == "" && r.Step.Name == entry.Name && r.Step.Asked.Equal(entry.LastRequestTime.Time)
		}
		if !slices.ContainsFunc(in.Replies, undone) {
			t.Fatalf("%s of %s ends, and was not undone", entry.Name, entry.ID)
		}
	}
	if grown := in.Policy.Status.Epoch - before.Epoch; grown < int64(ended) {
		t.Fatalf("%d steps have ended, and the epoch grew by %d", ended, grown)
	}
	return ended
}

// checkTidied: no member that may still be on the way is crossed out, and the epoch ends with every entry of leaving.
func checkTidied(t *rapid.T, in *StatusInput, before *v1alpha1.EvictionPolicyStatus) {
	out := int64(0)
	for _, entry := range before.Leaving {
		if permitOf(in.Policy.Status.Leaving, entry.PodUID) >= 0 {
			continue
		}
		out++
		sight, old := in.Presences[entry.PodUID], noon.Sub(entry.StartTime.Time) >= permitLife
		if sight != SeenGone && (!sight.stays() || !old) {
			t.Fatalf("%s was crossed out on %q", entry.PodName, sight)
		}
	}
	if grown := in.Policy.Status.Epoch - before.Epoch; grown < out {
		t.Fatalf("%d were crossed out, and the epoch grew by %d", out, grown)
	}
}
