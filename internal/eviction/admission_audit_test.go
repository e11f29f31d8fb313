package eviction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Whatever the policies say, everything is let through but a question, and nothing is done.
func TestAudit(t *testing.T) {
	const one = "policy shop/db in mode Audit"
	zero := int64(0)
	twice := func(in *AdmissionInput) {
		in.Policies = append(in.Policies, in.Policies[0])
		in.Policies[1].Key.Name = "trial"
	}
	for name, c := range map[string]struct {
		given func(*AdmissionInput)
		note  NoteKind
		warns string // "" where nothing is to be said
		says  string
	}{
		"it may go":           {given: func(*AdmissionInput) {}, note: WouldAllow},
		"it may not":          {given: undrained, note: WouldRefuse, warns: one, says: "pod shop/s0 (store m-s0) may not leave its node yet"},
		"a dry run":           {given: func(in *AdmissionInput) { undrained(in); in.DryRun = true }, note: WouldRefuse, warns: one},
		"never":               {given: func(in *AdmissionInput) { in.Pod = toyPod("x0", "single") }, note: WouldRefuse, warns: one, says: MayNever},
		"without time to end": {given: func(in *AdmissionInput) { in.Grace = &zero }, note: WouldRefuse, warns: one, says: "grace period"},
		"the system is away":  {given: func(in *AdmissionInput) { in.Evidence = nil }, note: WouldRefuse, warns: one},
		"suspended":           {given: func(in *AdmissionInput) { in.Policies[0].Policy.suspended = true }, note: WouldRefuse, warns: one, says: "suspended"},
		"two in mode Audit":   {given: twice, note: WouldRefuse, warns: "policies shop/db and shop/trial in mode Audit", says: "trial"},
		"two entries of one":  {given: func(in *AdmissionInput) { in.Policies[0].Policy = overlapping(t) }, note: WouldRefuse, warns: one},
		"by its controller": {given: func(in *AdmissionInput) {
			undrained(in)
			ownersFree(in)
			in.Verb, in.User = VerbDelete, "system:serviceaccount:kube-system:statefulset-controller"
		}, note: WouldAllow},
		"broken glass": {given: func(in *AdmissionInput) {
			undrained(in)
			in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
		}, note: WouldAllow},
		"a role asks nothing":  {given: func(in *AdmissionInput) { in.Pod.Labels["role"] = "router" }, note: WouldAllow}, // its label is another policy's
		"claimed by none":      {given: func(in *AdmissionInput) { in.Pod.Labels["role"] = "other" }, note: NotGoverned},
		"of another namespace": {given: func(in *AdmissionInput) { in.Policies[0].Key.Namespace = "else" }, note: NotGoverned},
		"no policy":            {given: func(in *AdmissionInput) { in.Policies = nil }, note: NotGoverned},
		"a question of none":   {given: func(in *AdmissionInput) { in.Policies, in.Ask = nil, AskEvict }, note: NotGoverned},
	} {
		t.Run(name, func(t *testing.T) {
			in := wish(t)
			c.given(&in)
			got := Audit(in)
			if !got.Allow || got.Note.Kind != c.note || len(got.Actions) > 0 || got.Done != "" {
				t.Errorf("allowed %t, %s: %s; did %v%s", got.Allow, got.Note.Kind, got.Note.Message, kinds(got.Actions), got.Done)
			}
			said := strings.Join(got.Warnings, "; ")
			if (c.warns == "") != (said == "") || c.warns != "" && !strings.HasPrefix(said, c.warns+" would have refused this: ") || !strings.Contains(said, c.says) {
				t.Errorf("warns %q", said)
			}
		})
	}
}

// overlapping is a policy of which two entries claim the same pods.
func overlapping(t *testing.T) *Policy {
	t.Helper()
	spec := toySpec()
	spec.Members[1].Selector = metav1.LabelSelector{MatchLabels: map[string]string{"role": "store"}}
	return compiled(t, spec)
}

// A question is answered as it is in mode Enforce, but that the verdict is one of mode Audit.
func TestAuditAnswersAQuestion(t *testing.T) {
	for name, given := range map[string]func(*AdmissionInput){
		"it may go": func(*AdmissionInput) {}, "it may not": undrained, "a replacement": func(in *AdmissionInput) { in.Ask = AskReplace },
		"what is no question": func(in *AdmissionInput) { in.Ask = "why" },
	} {
		in := wish(t)
		in.Ask, in.DryRun = AskEvict, true
		given(&in)
		enforced, audited := Admit(in), Audit(in)
		want, ok := ReadAnswer(enforced.Causes)
		if ok {
			want.Audit = "policy shop/db in mode Audit"
		}
		got, _ := ReadAnswer(audited.Causes)
		if diff := cmp.Diff(want, got); diff != "" || audited.Allow || audited.Code != enforced.Code || audited.Note != enforced.Note {
			t.Errorf("%s: %+v: %s", name, audited, diff)
		}
		if !strings.HasSuffix(audited.Message, "policy shop/db in mode Audit, which lets it through") {
			t.Errorf("%s: %s", name, audited.Message)
		}
	}
}

// What a policy in mode Audit is asked for is never withdrawn by it, nor what another has refused.
func TestTidyOfADeletedPolicyInModeAudit(t *testing.T) {
	in := untidy(t)
	in.Deleted, in.Audited = true, true
	in.Requests = []AdmissionRequest{{Pod: snapshot.Key{Namespace: "shop", Name: "s0"}, UID: "uid-s0", Requester: "alice", Asked: noon}}
	if got := ReconcileStatus(in); len(got.Actions) > 0 {
		t.Errorf("%+v", got.Actions)
	}
}
