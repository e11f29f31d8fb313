package webhook

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

const aQuestion = `,"annotations":{"usher.sh/verdict":"evict"}}`

// audited is a world in which the policy is in mode Audit, and its member has that label alone.
func audited(t *testing.T, change func(*world)) *world {
	t.Helper()
	w := newWorld(t)
	w.audit = true
	w.pods["db-0"] = auditedPod("db-0")
	if change != nil {
		change(w)
	}
	return w
}

func auditedPod(name string) *corev1.Pod {
	pod := testPod(name)
	pod.Labels = map[string]string{"app": "db", v1alpha1.AuditLabel: "trial"}
	return pod
}

func TestAudit(t *testing.T) {
	const refusal = "policy shop/trial in mode Audit would have refused this: pod shop/db-0 (replica) may not leave its node yet: the database is not green"
	const event = "db-0 Normal WouldRefuse: " + refusal
	unjudged := func(why string) []string {
		return []string{"Usher could not tell what policies in mode Audit say of pod shop/db-0, and in mode Enforce would have refused this: " + why}
	}
	for name, c := range map[string]struct {
		body     string
		change   func(*world)
		answered string
		warnings []string
		events   []string
	}{
		"it would be refused": {body: evictionOf("db-0", "", noMore), answered: "WouldRefuse", warnings: []string{refusal}, events: []string{event}},
		"a dry run":           {body: evictionOf("db-0", `"dryRun":true,`, noMore), answered: "WouldRefuse", warnings: []string{refusal}},
		"it may go":           {body: evictionOf("db-0", "", noMore), change: green, answered: "WouldAllow"},
		"an unclaimed pod":    {body: evictionOf("web", "", noMore), answered: "NotGoverned"},
		"no pod":              {body: evictionOf("none", "", noMore), answered: "NotGoverned"},
		"another pod is meant": {
			body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"uid-2"}}`), answered: "NotGoverned",
		},
		"a DELETE":            {body: deletionOf(t, auditedPod("db-0"), "db-0", "jane", ""), answered: "WouldRefuse", warnings: []string{refusal}, events: []string{event}},
		"a DELETE by who may": {body: deletionOf(t, auditedPod("db-0"), "db-0", "operator", ""), answered: "WouldAllow"},
		"a DELETE of a pod that is not seen": {body: deletionOf(t, auditedPod("db-0"), "db-0", "jane", ""), change: func(w *world) {
			w.fresh = map[string]*corev1.Pod{}
			delete(w.pods, "db-0")
		}, answered: "WouldRefuse", warnings: []string{refusal}},
		"policies of both modes": {body: evictionOf("db-0", "", noMore), change: func(w *world) {
			w.audit, w.both, w.pods["db-0"] = false, true, testPod("db-0")
		}, answered: "WouldRefuse", warnings: []string{refusal}, events: []string{event}},
		"the label of what is enforced": {body: evictionOf("db-0", "", noMore), change: func(w *world) {
			w.green = true
			w.pods["db-0"].Labels[v1alpha1.PolicyLabel] = "former"
		}, answered: "WouldAllow"},
		"nothing can be read": {body: evictionOf("db-0", "", noMore), change: func(w *world) {
			w.broken = errors.New("no\x1b[31m answer\n")
		}, answered: "NotJudged", warnings: unjudged("no answer")},
		"a question that cannot be answered": {body: evictionOf("db-0", `"dryRun":true,`, aQuestion), change: func(w *world) {
			w.broken = errors.New("no answer")
		}, answered: "NotJudged", warnings: unjudged("no answer")},
		"a question about what is enforced": {body: evictionOf("db-0", `"dryRun":true,`, aQuestion), change: func(w *world) {
			w.audit, w.both = false, true
		}, answered: "NotGoverned"},
		"a question about a label": {body: evictionOf("db-0", `"dryRun":true,`, aQuestion), change: func(w *world) {
			w.pods["db-0"].Labels[v1alpha1.PolicyLabel] = "former"
		}, answered: "NotGoverned"},
	} {
		t.Run(name, func(t *testing.T) {
			w := audited(t, c.change)
			got := w.post(PathAudit, c.body)
			if !got.Allowed || got.AuditAnnotations["answer"] != c.answered {
				t.Errorf("allowed %t, answered %v, want %s: %+v", got.Allowed, got.AuditAnnotations, c.answered, got.Result)
			}
			if diff := cmp.Diff(c.warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.events, w.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if len(w.did) > 0 {
				t.Errorf("did %v", w.did)
			}
		})
	}
}

// What cannot be read as a question, and a panic, let through.
func TestAuditNeverRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, warning string }{
		"a pod's creation": {creationOf("shop", `{}`), "usher did not audit this request: a CREATE of pods is no question"},
		"a panic":          {evictionOf("panic", "", noMore), "usher did not audit this request: a mistake in Usher"},
	} {
		t.Run(name, func(t *testing.T) {
			got := audited(t, func(w *world) { w.pods["panic"] = auditedPod("panic") }).post(PathAudit, c.body)
			if !got.Allowed || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], c.warning) {
				t.Errorf("allowed %t with %q", got.Allowed, got.Warnings)
			}
		})
	}
}

// A question is answered alike by both webhooks where policies in mode Audit alone claim the pod: the apiserver returns whichever answer
// comes first.
func TestAuditAnswersQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		green bool
		want  eviction.Verdict
		says  string
	}{
		"it may go": {true, eviction.Verdict{Answer: eviction.Allowed}, "pod shop/db-0 (replica) may go: this only answers a question, nothing was evicted; policy shop/trial in mode Audit"},
		"it may not": {false, eviction.Verdict{
			Answer: eviction.Blocked, Blockers: []eviction.Blocker{{Rule: "green", Reason: "NotGreen", Message: "the database is not green"}},
		}, "the database is not green; policy shop/trial in mode Audit, which lets it through"},
	} {
		for _, path := range []string{PathAudit, PathLeave} {
			t.Run(name+path, func(t *testing.T) {
				w := audited(t, func(w *world) { w.green = c.green })
				got := w.post(path, evictionOf("db-0", `"dryRun":true,`, aQuestion))
				if got.Allowed || got.AuditAnnotations["answer"] != "Asked" || !strings.Contains(got.Result.Message, c.says) {
					t.Fatalf("allowed %t, answered %v: %+v", got.Allowed, got.AuditAnnotations, got.Result)
				}
				verdict, ok := eviction.ReadAnswer(got.Result.Details.Causes)
				c.want.Role, c.want.Member, c.want.Evidence = "replica", "db-0", clock.Add(-time.Second)
				c.want.Audit = "policy shop/trial in mode Audit"
				if diff := cmp.Diff(c.want, verdict); diff != "" || !ok {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(w.did)+len(w.events) > 0 {
					t.Errorf("did %v, events %v", w.did, w.events)
				}
			})
		}
	}
}

// A member whose pod is gone may be asked about as well.
func TestAuditAnswersForAPodThatIsGone(t *testing.T) {
	for _, path := range []string{PathAudit, PathLeave} {
		w := audited(t, func(w *world) { w.departed = map[string]*corev1.Pod{"gone": auditedPod("gone")} })
		got := w.post(path, evictionOf("gone", `"dryRun":true,`, `,"annotations":{"usher.sh/verdict":"replace"}}`))
		if got.Allowed || got.AuditAnnotations["answer"] != "Asked" || len(w.did) != 1 || w.did[0] != "judge as deleted" {
			t.Errorf("%s: allowed %t, answered %v, did %v", path, got.Allowed, got.AuditAnnotations, w.did)
		}
	}
}

// A pod that is only audited goes where it would stay otherwise, and no request is made in the caller's name.
func TestLeaveIgnoresPoliciesInModeAudit(t *testing.T) {
	for name, body := range map[string]string{
		"an eviction": evictionOf("db-0", "", noMore), "a DELETE": deletionOf(t, auditedPod("db-0"), "db-0", "jane", ""),
	} {
		w := audited(t, nil)
		got := w.post(PathLeave, body)
		if !got.Allowed || got.AuditAnnotations["answer"] != "NotGoverned" || len(w.did) > 0 || len(w.events) > 0 {
			t.Errorf("%s: allowed %t, answered %v, did %v, events %v", name, got.Allowed, got.AuditAnnotations, w.did, w.events)
		}
	}
}

// The answer comes before the apiserver's patience ends, which would say nothing.
func TestAuditDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := audited(t, func(w *world) { w.delay = 5 * time.Second })
		got := w.post(PathAudit+"?timeout=5s", evictionOf("db-0", "", noMore))
		if !got.Allowed || got.AuditAnnotations["answer"] != "NotJudged" || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "deadline exceeded") {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnswersOfAuditAreCounted(t *testing.T) {
	for answer, change := range map[string]func(*world){
		"WouldRefuse": nil, "WouldAllow": green, "NotJudged": func(w *world) { w.broken = errors.New("no answer") },
	} {
		before := counted(t, answer)
		audited(t, change).post(PathAudit, evictionOf("db-0", "", noMore))
		if got := counted(t, answer) - before; got != 1 {
			t.Errorf("%s was counted %v times", answer, got)
		}
	}
}

// counted is how often an answer to an eviction was given.
func counted(t *testing.T, answer string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			if family.GetName() == "usher_admission_answers_total" && labels[0].GetValue() == answer && labels[1].GetValue() == "evict" {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestNoPodIsMarkedForAPolicyInModeAudit(t *testing.T) {
	w := newWorld(t)
	w.policies = []*v1alpha1.EvictionPolicy{inAudit(testPolicy())}
	if got := w.post(PathCreate, creationOf("shop", `{"metadata":{"labels":{"app":"db"}},"spec":{}}`)); !got.Allowed || len(got.Patch) > 0 || len(got.Warnings) > 0 {
		t.Errorf("allowed %t, patch %s, warnings %v", got.Allowed, got.Patch, got.Warnings)
	}
}

func inAudit(policy *v1alpha1.EvictionPolicy) *v1alpha1.EvictionPolicy {
	policy.Spec.Mode = v1alpha1.ModeAudit
	return policy
}

// A policy in mode Audit and one that is enforced may claim the same pods, and ask the same system; two of one mode may not.
func TestWarningsAreOfOneMode(t *testing.T) {
	for name, c := range map[string]struct {
		there, written v1alpha1.PolicyMode
		warnings       int
	}{
		"both are enforced":      {v1alpha1.ModeEnforce, v1alpha1.ModeEnforce, 2},
		"one says no mode":       {"", v1alpha1.ModeEnforce, 2},
		"one is audited":         {v1alpha1.ModeEnforce, v1alpha1.ModeAudit, 0},
		"one is to be enforced":  {v1alpha1.ModeAudit, v1alpha1.ModeEnforce, 0},
		"both are in mode Audit": {v1alpha1.ModeAudit, v1alpha1.ModeAudit, 2},
	} {
		w, written := newWorld(t), testPolicy()
		w.policies = []*v1alpha1.EvictionPolicy{testPolicy()}
		w.policies[0].Spec.Mode, written.Spec.Mode = c.there, c.written
		written.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "another"}
		raw, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.warningsOf(written.Name, raw); len(got) != c.warnings {
			t.Errorf("%s: warnings %q, want %d", name, got, c.warnings)
		}
	}
}
