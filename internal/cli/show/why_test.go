package show

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// A label is a claim: what it says is shown, also when it says nothing.
func TestWhyNamesTheLabel(t *testing.T) {
	for name, c := range map[string]struct {
		labels    map[string]string
		unfounded bool
		want      string
	}{
		"none":                      {nil, false, ""},
		"a policy":                  {map[string]string{v1alpha1.PolicyLabel: "db"}, false, "governed by policy db"},
		"no value":                  {map[string]string{v1alpha1.PolicyLabel: ""}, false, "its label usher.sh/policy is empty and names no policy"},
		"where nothing is governed": {map[string]string{v1alpha1.PolicyLabel: ""}, true, `its label usher.sh/policy="" has no effect: no policy governs its namespace; remove it: kubectl label pod -n shop web usher.sh/policy-`},
	} {
		page := Why{Pod: &snapshot.Pod{Namespace: "shop", Name: "web", Labels: c.labels}, Unfounded: c.unfounded}
		lines := page.Lines(200, Paint{})
		if got := strings.Join(lines[1:], "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What is only audited may go, and what would keep it in mode Enforce is said beside that.
func TestWhyOfAnAuditedPod(t *testing.T) {
	const line = "policy shop/db in mode Audit claims it as replica db-0; its system was asked 3s ago; everything is let through"
	verdict := Verdict{Answer: "Blocked", Role: "replica", Member: "db-0", Audit: "policy shop/db in mode Audit", Evidence: noon.Add(-3 * time.Second)}
	refused := verdict
	refused.Refusals = []drain.Blocker{{Reason: "NotGreen", Message: "the database is not green"}}
	for name, c := range map[string]struct {
		verdict *Verdict
		want    []string
		json    string
	}{
		"it may go":  {&verdict, []string{"shop/web may be evicted now", line}, `"audit": "policy shop/db in mode Audit"`},
		"it may not": {&refused, []string{"shop/web may be evicted now", line, "in mode Enforce it would be refused:", "NotGreen", "the database is not green"}, `"refusals": [`},
		"no answer":  {nil, []string{"shop/web may be evicted now", "a policy in mode Audit claims it, which lets everything through; its verdict was not to be had"}, `"mayGo": true`},
	} {
		pages := WhyPods{One: true, Pods: []Why{{
			Pod: &snapshot.Pod{Namespace: "shop", Name: "web", Labels: map[string]string{v1alpha1.AuditLabel: "db"}}, Verdict: c.verdict, Now: noon,
		}}}
		got := strings.Join(pages.Lines(200, Paint{}), "\n")
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in:\n%s", name, part, got)
			}
		}
		if refusals := strings.Contains(got, "it would be refused"); refusals != (name == "it may not") {
			t.Errorf("%s:\n%s", name, got)
		}
		text, err := pages.JSON()
		if err != nil || !strings.Contains(string(text), c.json) || !pages.AllMayGo() {
			t.Errorf("%s: no %q in %s, %v", name, c.json, text, err)
		}
	}
}

// What the rules say of a replacement is not all that it waits for.
func TestWhyOfAReplacement(t *testing.T) {
	page := Why{
		Pod: &snapshot.Pod{Namespace: "shop", Name: "db-2", Node: "n1"}, Replace: true,
		Replacements: []string{"ReplacementRequest db-2-x of person.usher.sh/anna: waits for NodeNotProvenOff"},
	}
	got := strings.Join(page.Lines(200, Paint{}), "\n")
	const want = "shop/db-2 on n1 may be replaced, by the rules of its role\nReplacementRequest db-2-x of person.usher.sh/anna: waits for NodeNotProvenOff"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	page.Blockers = []drain.Blocker{{Reason: "OnlyReplica", Message: "it is the only one"}}
	if got := page.Lines(200, Paint{})[0]; got != "shop/db-2 on n1 may not be replaced now:" {
		t.Errorf("%q", got)
	}
}

// That its set has not formed its system yet is said beside the answer.
func TestWhyOfASetThatHasNotFormed(t *testing.T) {
	page := WhyPods{One: true, Pods: []Why{{Pod: &snapshot.Pod{Namespace: "shop", Name: "kv-1", Node: "n1"}, Set: "MemberSet kv has not formed its system yet"}}}
	const want = "shop/kv-1 on n1 may be evicted now\nMemberSet kv has not formed its system yet"
	if got := strings.Join(page.Lines(200, Paint{}), "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text, err := page.JSON(); err != nil || !strings.Contains(string(text), `"set": "MemberSet kv has not formed its system yet"`) {
		t.Errorf("%s, %v", text, err)
	}
}
