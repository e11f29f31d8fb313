package drain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// story plays both sides of a drain step by step: it decides, says what the cluster
// answers, and changes what is true.
type story struct {
	t       testing.TB
	cluster *snapshot.Cluster
	req     drain.Request
	led     *drain.Ledger
	now     time.Time
	last    drain.Decision
	open    []drain.Action // sent and not answered
	limits  map[string]snapshot.HoldLimit
}

// ask is what kubectl drain NODE… --force --delete-emptydir-data --ignore-daemonsets
// asks for, so that only what a case is about stands in the way.
func ask(nodes ...string) drain.Request {
	return drain.Request{
		Self: snapshot.Drainer{ID: me, By: "me@host"}, Nodes: nodes, Started: start,
		Force: true, DeleteEmptyDir: true, DaemonSets: drain.DaemonSetsIgnore, Surge: drain.SurgeAuto, AtDeadline: drain.AtDeadlineStop,
	}
}

func tell(t testing.TB, req drain.Request, facts ...fact) *story {
	t.Helper()
	return &story{t: t, cluster: cluster(facts...), req: req, led: drain.NewLedger(), now: start}
}

func (s *story) view() snapshot.View {
	return snapshot.View{Now: s.now, Cluster: s.cluster, HoldLimits: s.limits}
}

// decide looks once more and enters what is decided as sent.
func (s *story) decide() drain.Decision {
	s.t.Helper()
	s.led.Observe(s.view())
	step := drain.Step(s.view(), s.req, s.led)
	s.last = drain.Decide(s.view(), s.req, s.led)
	if diff := cmp.Diff(deeds(s.last), deeds(step)); diff != "" || s.last.Outcome != step.Outcome {
		s.t.Errorf("Decide and Step differ (outcomes %q, %q):\n%s", s.last.Outcome, step.Outcome, diff)
	}
	s.led.Note(&s.last, s.now)
	for _, a := range s.last.Actions {
		s.led.Begin(a, s.now)
		s.open = append(s.open, a)
	}
	return s.last
}

// expect decides and compares what is to be done.
func (s *story) expect(want ...string) {
	s.t.Helper()
	s.decide()
	if diff := cmp.Diff(want, deeds(s.last)); diff != "" {
		s.t.Errorf("actions (-want +got):\n%s%s", diff, s.where())
	}
}

// holds compares the blockers of the last decision.
func (s *story) holds(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, reasons(s.last)); diff != "" {
		s.t.Errorf("blockers (-want +got):\n%s%s", diff, s.where())
	}
}

// ends compares the outcome of the last decision.
func (s *story) ends(want drain.Outcome) {
	s.t.Helper()
	if s.last.Outcome != want {
		s.t.Errorf("outcome = %q, want %q%s", s.last.Outcome, want, s.where())
	}
}

func (s *story) where() string {
	text := fmt.Sprintf("\nafter %s:", s.now.Sub(start))
	for _, b := range s.last.Blockers() {
		text += fmt.Sprintf("\n  %s %s: %s", nameOf(b), b.Reason, b.Message)
	}
	return text
}

// answer gives the same answer to every action that was not answered yet.
func (s *story) answer(code answers.Code) {
	for _, a := range s.open {
		s.led.Answer(a, answers.Answer{Code: code, Message: "server says " + string(code)}, s.now)
	}
	s.open = nil
}

// say answers the one action of this wording.
func (s *story) say(deed string, answer answers.Answer) {
	s.t.Helper()
	for i, a := range s.open {
		if deedOf(a) == deed {
			s.led.Answer(a, answer, s.now)
			s.open = slices.Delete(s.open, i, i+1)
			return
		}
	}
	s.t.Fatalf("no open action %q", deed)
}

// then makes time pass and changes what is true.
func (s *story) then(after time.Duration, facts ...fact) {
	s.now = s.now.Add(after)
	for _, f := range facts {
		f(s.cluster)
	}
}

// status returns how the pod of this name stands.
func (s *story) status(pod string) drain.PodStatus {
	s.t.Helper()
	for i := range s.last.Pods {
		if s.last.Pods[i].Pod.Name == pod {
			return s.last.Pods[i]
		}
	}
	s.t.Fatalf("no pod %q in the decision", pod)
	return drain.PodStatus{}
}

// states returns "pod state" for every pod of the last decision, in its order.
func (s *story) states() []string {
	var out []string
	for i := range s.last.Pods {
		out = append(out, s.last.Pods[i].Pod.Name+" "+string(s.last.Pods[i].State))
	}
	return out
}

// same reports a difference between what a case wants and what it got.
func same[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func deeds(d drain.Decision) []string {
	var out []string
	for _, a := range d.Actions {
		out = append(out, deedOf(a))
	}
	return out
}

// deedOf words an action: what is changed, to what.
func deedOf(a drain.Action) string {
	switch a.Kind {
	case drain.Cordon, drain.Mark:
		return fmt.Sprintf("%s %s %s", a.Kind, a.Node.Name, a.Record.State)
	case drain.Uncordon, drain.Unmark:
		return fmt.Sprintf("%s %s", a.Kind, a.Node.Name)
	case drain.Scale:
		return fmt.Sprintf("scale %s to %d%s", a.Workload.Name, a.Replicas, recordOf(a.Surge))
	case drain.ScaleMin:
		return fmt.Sprintf("scale-min %s to %d%s", a.Autoscaler.Name, a.Replicas, recordOf(a.Surge))
	case drain.Evict, drain.Delete:
		if a.Grace != nil {
			return fmt.Sprintf("%s %s in %s", a.Kind, a.Pod.Name, *a.Grace)
		}
	case drain.RenewLease, drain.DeleteLease:
		return fmt.Sprintf("%s of %s", a.Kind, a.Lease.ID)
	case drain.Withdraw:
		return fmt.Sprintf("%s %s", a.Kind, a.Request.Name)
	case drain.LowerCost, drain.RestoreCost, drain.Ask:
	}
	return fmt.Sprintf("%s %s", a.Kind, a.Pod.Name)
}

func recordOf(r *snapshot.SurgeRecord) string {
	if r == nil {
		return ", no record"
	}
	return fmt.Sprintf(", was %d", r.Was)
}

// reasons words blockers as "pod or node: Reason", dead ones with an exclamation mark.
func reasons(d drain.Decision) []string { return reasonsOf(d.Blockers()) }

func reasonsOf(blockers []drain.Blocker) []string {
	var out []string
	for _, b := range blockers {
		mark := ""
		if b.Dead {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%s: %s%s", nameOf(b), b.Reason, mark))
	}
	return out
}

func nameOf(b drain.Blocker) string {
	if b.Pod.Name != "" {
		return b.Pod.Name
	}
	return b.Node
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

// count returns how many actions of these kinds the last decision has.
func (s *story) count(kinds ...drain.Kind) int {
	return len(slices.DeleteFunc(slices.Clone(s.last.Actions), func(a drain.Action) bool { return !slices.Contains(kinds, a.Kind) }))
}
