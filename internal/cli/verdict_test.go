package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// What policies in mode Audit say keeps no pod, and is shown as what would. Whether another may take a member's place is only a question,
// of either mode.
func TestWhatAnAnswerComesTo(t *testing.T) {
	blocked := eviction.Verdict{Answer: eviction.Blocked, Blockers: []eviction.Blocker{{Reason: "NotGreen", Message: "not green"}}}
	inAudit := func(glass string) eviction.Verdict {
		v := blocked
		v.Audit, v.BreakGlass = "policy shop/db in mode Audit", glass
		return v
	}
	enforced, audited := map[string]string{v1alpha1.PolicyLabel: "db"}, map[string]string{v1alpha1.AuditLabel: "db"}
	for name, c := range map[string]struct {
		labels             map[string]string
		replace            bool
		verdict            eviction.Verdict
		err                error
		blockers, refusals int
	}{
		"enforced":                       {labels: enforced, verdict: blocked, blockers: 1},
		"enforced, no answer":            {labels: enforced, err: observe.ErrNoVerdict, blockers: 1},
		"audited":                        {labels: audited, verdict: inAudit(""), refusals: 1},
		"audited, its glass is broken":   {labels: audited, verdict: inAudit("fire")},
		"audited, no answer":             {labels: audited, err: observe.ErrNoVerdict},
		"audited, to be replaced":        {labels: audited, replace: true, verdict: inAudit(""), blockers: 1},
		"audited, replaced, not allowed": {labels: audited, replace: true, err: errors.New("forbidden"), blockers: 1},
	} {
		page := &show.Why{Pod: &snapshot.Pod{Namespace: "shop", Name: "db-0", Labels: c.labels}, Replace: c.replace}
		answered(page, &c.verdict, c.err)
		refusals := 0
		if page.Verdict != nil {
			refusals = len(page.Verdict.Refusals)
		}
		if len(page.Blockers) != c.blockers || refusals != c.refusals || (page.Verdict == nil) != (c.err != nil) {
			t.Errorf("%s: blockers %v, verdict %+v", name, page.Blockers, page.Verdict)
		}
	}
}

// Where a namespace is being deleted the apiserver forbids the question, and no right is missing.
func TestNoVerdictWhereTheNamespaceEnds(t *testing.T) {
	page := &show.Why{Pod: &snapshot.Pod{Namespace: "shop", Name: "db-0"}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "db-0", errors.New("being terminated"))
	if b := unasked(page, fmt.Errorf("asking: %w", forbidden)); !strings.Contains(b.Remedy, "ask for the right") {
		t.Errorf("forbidden: %q", b.Remedy)
	}
	forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if b := unasked(page, fmt.Errorf("asking: %w", forbidden)); !strings.Contains(b.Message, "its namespace is being deleted") || strings.Contains(b.Remedy, "right") {
		t.Errorf("the namespace ends: %q, %q", b.Message, b.Remedy)
	}
}

// In a namespace with policies the evictions of pods that none of them guards are refused too while admission does not answer.
func TestAdmissionDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		blockers int
	}{
		"a verdict":         {nil, 0},
		"let through":       {observe.ErrNoVerdict, 0},
		"no right to ask":   {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no")), 0},
		"the webhook fails": {fmt.Errorf("asking: %w", apierrors.NewInternalError(errors.New(`failed calling webhook "evict.usher.sh"`))), 1},
	} {
		page := &show.Why{Pod: &snapshot.Pod{Namespace: "shop", Name: "web"}}
		if unreached(page, c.err); len(page.Blockers) != c.blockers {
			t.Errorf("%s: %v", name, page.Blockers)
		}
	}
}
