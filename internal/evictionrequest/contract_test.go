package evictionrequest_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/evictionrequest"
)

const a = "example.com/a"

func spoke(message string, heartbeat time.Duration) editEviction {
	return says(0, func(r *api.ResponderStatus) { r.Message, r.HeartbeatTime = &message, at(heartbeat) })
}

func TestTell(t *testing.T) {
	const minute = time.Minute
	cases := []struct {
		name      string
		eviction  *api.Eviction
		report    evictionrequest.Report
		now       time.Duration
		write     bool
		heartbeat time.Duration
		again     time.Duration
	}{
		{"first word", eviction(1, states(active)), evictionrequest.Report{Message: "x"}, minute, true, minute, 3 * minute},
		{"nothing new", eviction(1, states(active), spoke("x", minute)), evictionrequest.Report{Message: "x"}, 2 * minute, false, minute, 2 * minute},
		{"nothing new for three minutes", eviction(1, states(active), spoke("x", minute)), evictionrequest.Report{Message: "x"}, 4 * minute, true, 4 * minute, 3 * minute},
		{"news", eviction(1, states(active), spoke("x", minute)), evictionrequest.Report{Message: "y"}, 2 * minute, true, 2 * minute, 3 * minute},
		{"news too soon for a heartbeat", eviction(1, states(active), spoke("x", minute)), evictionrequest.Report{Message: "y"}, minute + 19*time.Second, true, minute, 3*minute - 19*time.Second},
		{"own clock behind the controller's", eviction(1, states(active)), evictionrequest.Report{Message: "x"}, -10 * time.Second, true, 0, 3*minute + 10*time.Second},
		{"not its turn", eviction(1, states(done, active)), evictionrequest.Report{Message: "x"}, minute, false, 0, 0},
		{"done already", eviction(1, states(active), says(0, completed(0))), evictionrequest.Report{Message: "x"}, minute, false, 0, 0},
		{"eviction has ended", eviction(1, states(active), succeeded), evictionrequest.Report{Message: "x"}, minute, false, 0, 0},
		{"not a responder of this one", eviction(1), evictionrequest.Report{Message: "x"}, minute, false, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			entry, write, again := evictionrequest.NextEntry(c.eviction, a, c.report, start.Add(c.now))
			same(t, "write", c.write, write)
			same(t, "again", c.again, again)
			if write && !entry.HeartbeatTime.Equal(at(c.heartbeat)) {
				t.Errorf("heartbeat %v, want %v", entry.HeartbeatTime, at(c.heartbeat))
			}
		})
	}
}

func TestExpectations(t *testing.T) {
	before := says(0, func(r *api.ResponderStatus) {
		r.ExpectedCompletionTime, r.HeartbeatTime = at(10*time.Minute), at(time.Minute)
	})
	cases := []struct {
		name  string
		at    time.Time
		want  *metav1.Time
		write bool
	}{
		{"unknown", time.Time{}, nil, true},
		{"past", start, nil, true},
		{"further than the server believes", start.AddDate(11, 0, 0), nil, true},
		{"moved a little", start.Add(10*time.Minute + 15*time.Second), at(10 * time.Minute), false},
		{"moved", start.Add(11*time.Minute - time.Second), at(11 * time.Minute), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			entry, write, _ := evictionrequest.NextEntry(eviction(1, states(active), before), a, evictionrequest.Report{Expected: c.at}, start.Add(90*time.Second))
			if write != c.write || !entry.ExpectedCompletionTime.Equal(c.want) {
				t.Errorf("write %v, expects %v", write, entry.ExpectedCompletionTime)
			}
		})
	}
}

func TestExpectationsAreNotBeforeTheStart(t *testing.T) {
	report := evictionrequest.Report{Message: "x", Expected: start.Add(-5 * time.Second)}
	entry, _, _ := evictionrequest.NextEntry(eviction(1, states(active)), a, report, start.Add(-10*time.Second))
	if entry.ExpectedCompletionTime != nil {
		t.Errorf("expects %v, before its start", entry.ExpectedCompletionTime)
	}
}

func TestDone(t *testing.T) {
	e := eviction(1, states(active), spoke("x", 0))
	entry, write, again := evictionrequest.NextEntry(e, a, evictionrequest.Report{Message: "gone", Done: true}, start.Add(time.Second))
	if !write || again != 0 || !entry.CompletionTime.Equal(at(time.Second)) || !entry.HeartbeatTime.Equal(at(time.Second)) || *entry.Message != "gone" {
		t.Errorf("write %v, again %v, %+v", write, again, entry)
	}
}

// What was written a moment ago counts, though the cache does not show it: nothing is said twice, in another second neither.
func TestNothingIsSaidTwice(t *testing.T) {
	behind := eviction(1, states(active))
	waits, gone := evictionrequest.Report{Message: "it waits"}, evictionrequest.Report{Message: "the pod is gone", Done: true}
	tell := func(e *api.Eviction, report evictionrequest.Report, after time.Duration) (api.ResponderStatus, bool) {
		entry, write, _ := evictionrequest.NextEntry(e, a, report, start.Add(after))
		return entry, write
	}
	first, _ := tell(behind, waits, 900*time.Millisecond)
	last, _ := tell(evictionrequest.WithEntry(behind, first), gone, 2900*time.Millisecond)
	for _, c := range []struct {
		name   string
		cached *api.Eviction
		wrote  api.ResponderStatus
		report evictionrequest.Report
		after  time.Duration
		want   bool
	}{
		{"the first word", behind, first, waits, 1100 * time.Millisecond, false},
		{"another word", behind, first, evictionrequest.Report{Message: "it waits longer"}, 1100 * time.Millisecond, true},
		{"the last word", behind, last, gone, 3100 * time.Millisecond, false},
		{"after the last word", behind, last, waits, 3100 * time.Millisecond, false},
		{"the cache is ahead", eviction(1, states(active), spoke("x", time.Minute)), first, evictionrequest.Report{Message: "x"}, time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.cached.DeepCopy()
			_, write := tell(evictionrequest.WithEntry(c.cached, c.wrote), c.report, c.after)
			same(t, "written", c.want, write)
			same(t, "the cached eviction", before, c.cached)
		})
	}
	if e := eviction(1); evictionrequest.WithEntry(e, first) != e {
		t.Error("an entry is added that the eviction does not have")
	}
}

func TestMessagesAreCut(t *testing.T) {
	cases := map[string]struct{ text, end string }{
		"fits":          {strings.Repeat("ü", 4000), "üü"},
		"lines":         {strings.Repeat("a blocker\n", 1000), "a blocker\n… and 604 more lines"},
		"words":         {strings.Repeat("blocked ", 600), "blocked … and 840 more characters"},
		"no break":      {strings.Repeat("ü", 5000), "ü … and 1040 more characters"},
		"not even text": {"x\xff", "x\uFFFD"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			entry, _, _ := evictionrequest.NextEntry(eviction(1, states(active)), a, evictionrequest.Report{Message: c.text}, start)
			if n := utf8.RuneCountInString(*entry.Message); n > 4000 || !strings.HasSuffix(*entry.Message, c.end) {
				t.Errorf("%d characters, ending %q", n, (*entry.Message)[max(0, len(*entry.Message)-60):])
			}
		})
	}
	if entry, _, _ := evictionrequest.NextEntry(eviction(1, states(active)), a, evictionrequest.Report{Message: " \n"}, start); entry.Message != nil {
		t.Errorf("an empty message is %q", *entry.Message)
	}
}

func TestRequester(t *testing.T) {
	cases := map[string]string{
		"alice":                             "requester.usher.sh/alice",
		"alice@example.com":                 "requester.usher.sh/alice-example.com-ff8d9819fc",
		"system:serviceaccount:kube-system": "requester.usher.sh/system-serviceaccount-kube-system-9316f03480",
		"":                                  "requester.usher.sh/user-e3b0c44298",
		"???":                               "requester.usher.sh/user-a03b221c6c",
	}
	for user, want := range cases {
		same(t, "requester", want, evictionrequest.Requester(user))
	}
	looksMarked := strings.TrimPrefix(evictionrequest.Requester("alice@example.com"), "requester.usher.sh/")
	if evictionrequest.Requester(looksMarked) == evictionrequest.Requester("alice@example.com") {
		t.Error("a user took another's requester by name")
	}
}

func TestRequestersAreKeysAndUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := rapid.String().Draw(t, "one"), rapid.String().Draw(t, "two")
		name := evictionrequest.Requester(one)
		if said := validation.IsQualifiedName(name); len(said) > 0 {
			t.Fatalf("%q becomes %q: %v", one, name, said)
		}
		if one != two && name == evictionrequest.Requester(two) {
			t.Fatalf("%q and %q are both %s", one, two, name)
		}
		if one != name[len("requester.usher.sh/"):] && evictionrequest.Requester(name[len("requester.usher.sh/"):]) == name {
			t.Fatalf("a user named like the requester of %q takes its place", one)
		}
	})
}

// TestMessagesArePrintable: what a system has said stands in the message, which is printed to terminals.
func TestMessagesArePrintable(t *testing.T) {
	e := eviction(1, states(active))
	entry, _, _ := evictionrequest.NextEntry(e, "example.com/a", evictionrequest.Report{Message: "wiped\x1b[2J,\n turned \u202egnp"}, start)
	same(t, "message", "wiped,\n turned gnp", *entry.Message)
}

func TestNewRequest(t *testing.T) {
	one := evictionrequest.NewRequest(ref, "example.com/x")
	same(t, "the same request", one, evictionrequest.NewRequest(ref, "example.com/x"))
	same(t, "owners", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: ref.Name, UID: ref.UID}}, one.OwnerReferences)
	other := ref
	other.UID = "u2"
	for what, r := range map[string]*api.EvictionRequest{
		"another pod of the name": evictionrequest.NewRequest(other, "example.com/x"), "another requester": evictionrequest.NewRequest(ref, "example.com/y"),
	} {
		if r.Name == one.Name {
			t.Errorf("%s has the same request", what)
		}
	}
	long := ref
	long.Name = strings.Repeat("n", 253)
	if name := evictionrequest.NewRequest(long, "example.com/x").Name; len(validation.IsDNS1123Subdomain(name)) > 0 {
		t.Errorf("%q is no name", name)
	}
}

func TestIntentPatch(t *testing.T) {
	patch, err := evictionrequest.IntentPatch(asked("alice"), api.EvictionRequestIntentWithdrawn)
	if err != nil || string(patch) != `{"metadata":{"uid":"uid-alice"},"spec":{"intent":"Withdrawn"}}` {
		t.Errorf("%s, %v", patch, err)
	}
}

// evictorActive gives an eviction the default responder, whose turn it is.
func evictorActive(e *api.Eviction) {
	states(active)(e)
	e.Status.TargetResponders[0].Name, e.Status.Responders[0].Name = evictionrequest.Evictor, evictionrequest.Evictor
}

func TestPlanEvictor(t *testing.T) {
	refused := evictionrequest.Attempts{}.Refused("budget db needs 2", 0, start)
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	}
	likeDaemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	}
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = at(time.Minute) }
	cases := []struct {
		name     string
		eviction *api.Eviction
		pod      *corev1.Pod
		refused  bool
		attempts evictionrequest.Attempts
		now      time.Duration
		evict    bool
		done     bool
		says     string
		again    time.Duration
	}{
		{name: "not its turn", eviction: eviction(1, states(active)), pod: newPod()},
		{name: "done already", eviction: eviction(1, evictorActive, says(0, completed(0))), pod: newPod()},
		{name: "no generation observed", eviction: eviction(1, evictorActive, func(e *api.Eviction) { e.Status.ObservedGeneration = nil }), pod: newPod()},
		{name: "its turn", eviction: eviction(1, evictorActive), pod: newPod(), evict: true},
		{name: "governed pods too", eviction: eviction(1, evictorActive), pod: newPod(governed), evict: true},
		{name: "its callers were refused", eviction: eviction(1, evictorActive), pod: newPod(), refused: true, says: "only callers that admission has refused", again: 10 * time.Second},
		{name: "its callers were refused, and it shuts down", eviction: eviction(1, evictorActive), pod: newPod(terminating), refused: true, says: "it must be gone by", again: 3 * time.Minute},
		{name: "pod gone", eviction: eviction(1, evictorActive), done: true, says: "the pod is gone"},
		{name: "pod terminal", eviction: eviction(1, evictorActive), pod: newPod(phase(corev1.PodFailed)), done: true, says: "the pod has ended"},
		{name: "DaemonSet", eviction: eviction(1, evictorActive), pod: newPod(daemon), done: true, says: "a pod of a DaemonSet is not evicted: agent would"},
		{name: "DaemonSet of another group", eviction: eviction(1, evictorActive), pod: newPod(likeDaemon), evict: true},
		{name: "static pod", eviction: eviction(1, evictorActive), pod: newPod(static), done: true, says: "a static pod cannot be evicted"},
		{name: "shutting down", eviction: eviction(1, evictorActive), pod: newPod(terminating), says: "it must be gone by 2026-11-21T08:01:00Z", again: 3 * time.Minute},
		{name: "DaemonSet pod that shuts down anyway", eviction: eviction(1, evictorActive), pod: newPod(terminating, daemon), says: "it must be gone by", again: 3 * time.Minute},
		{name: "refused", eviction: eviction(1, evictorActive), pod: newPod(), attempts: refused, now: time.Second, says: "attempt 1 was refused, the next is at 2026-11-21T08:00:05Z: budget db needs 2", again: 4 * time.Second},
		{name: "accepted just now", eviction: eviction(1, evictorActive), pod: newPod(), attempts: evictionrequest.Attempts{Accepted: start}, now: time.Second, again: 4 * time.Second},
		{name: "accepted just now, pod gone", eviction: eviction(1, evictorActive), attempts: evictionrequest.Attempts{Accepted: start}, now: time.Second, done: true, says: "the pod is gone"},
		{name: "accepted a while ago", eviction: eviction(1, evictorActive), pod: newPod(), attempts: evictionrequest.Attempts{Accepted: start}, now: 5 * time.Second, evict: true},
		{name: "pause over", eviction: eviction(1, evictorActive), pod: newPod(), attempts: refused, now: 5 * time.Second, evict: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			step := evictionrequest.PlanEvictor(c.eviction, c.pod, c.refused, c.attempts, start.Add(c.now))
			same(t, "evict", c.evict, step.Evict)
			same(t, "write", c.says != "", step.Write)
			same(t, "again", c.again, step.Again)
			same(t, "done", c.done, step.Entry.CompletionTime != nil)
			if c.says != "" && !strings.Contains(*step.Entry.Message, c.says) {
				t.Errorf("says %q, want %q", *step.Entry.Message, c.says)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	var attempts evictionrequest.Attempts
	var pauses []string
	for range 10 {
		attempts = attempts.Refused("no", 0, start)
		pauses = append(pauses, attempts.NotBefore.Sub(start).String())
	}
	same(t, "pauses", "5s 10s 20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s 10m0s", strings.Join(pauses, " "))
	same(t, "Retry-After", time.Minute, evictionrequest.Attempts{}.Refused("wait", time.Minute, start).NotBefore.Sub(start))
	same(t, "shorter Retry-After", 5*time.Second, evictionrequest.Attempts{}.Refused("wait", time.Second, start).NotBefore.Sub(start))
}

func managed(manager, subresource string, operation metav1.ManagedFieldsOperationType, after time.Duration, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Subresource: subresource, Operation: operation, Time: at(after), FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestFindOther(t *testing.T) {
	const (
		apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
		failed        = `"f:conditions":{"k:{\"type\":\"Failed\"}":{}}`
		chosen        = `"f:targetResponders":{}`
		started       = `"f:responders":{"k:{\"name\":\"example.com/a\"}":{"f:name":{},"f:startTime":{}}}`
		said          = `"f:responders":{"k:{\"name\":\"example.com/a\"}":{"f:heartbeatTime":{}}}`
		conditions    = `{"f:status":{` + failed + `}}`
		others        = `{"f:status":{"f:conditions":{"k:{\"type\":\"Noticed\"}":{}},` + chosen + `}}`
		controllers   = `{"f:status":{` + failed + `,` + chosen + `,` + started + `}}`
		whole         = `{"f:status":{` + failed + `,` + chosen + `,` + said + `,"f:observedGeneration":{},"f:requesters":{}}}`
		upstream      = "evictionrequest-controller"
	)
	of := func(m ...metav1.ManagedFieldsEntry) *api.Eviction {
		return eviction(1, func(e *api.Eviction) { e.ManagedFields = m })
	}
	cases := []struct {
		name   string
		object *api.Eviction
		found  bool
	}{
		{"upstream's controller", of(managed(upstream, "status", apply, 0, controllers)), true},
		{"another controller", of(managed("x", "status", apply, 0, controllers)), true},
		{"upstream's, without apply", of(managed("kube-controller-manager", "status", update, 0, controllers)), true},
		{"ours", of(managed(evictionrequest.FieldManager, "status", apply, 0, controllers)), false},
		{"a person", of(managed("kubectl-edit", "status", update, 0, controllers)), false},
		{"a responder", of(managed("x", "status", apply, 0, `{"f:status":{`+said+`}}`)), false},
		{"a responder that applies a status as a whole", of(managed("x", "status", apply, 0, whole)), false},
		{"a generation and requesters", of(managed("x", "status", apply, 0, `{"f:status":{"f:observedGeneration":{},"f:requesters":{}}}`)), false},
		{"target responders alone", of(managed("x", "status", apply, 0, `{"f:status":{`+chosen+`}}`)), false},
		{"an eviction's conditions alone", of(managed("x", "status", apply, 0, conditions)), false},
		{"another client's condition", of(managed("x", "status", apply, 0, others)), false},
		{"not the status", of(managed("x", "", apply, 0, controllers)), false},
		{"a future that no clock explains", of(managed("x", "status", apply, time.Hour, controllers)), false},
		{"a moment ahead of this clock", of(managed("x", "status", apply, 4*time.Second, controllers)), true},
		{"long silent", of(managed("x", "status", apply, -evictionrequest.OtherMemory, controllers)), false},
		{"nonsense", of(managed("x", "status", apply, 0, `[`)), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				other, found := evictionrequest.FindOther(c.object, start)
				if found != c.found || found && (other.Manager != c.object.ManagedFields[0].Manager || other.Seen.After(start)) {
					t.Errorf("found %v: %+v, in %s", found, other, c.object.ManagedFields)
				}
				c.object.ManagedFields = evictionrequest.StatusSigns(c.object.ManagedFields)
			}
		})
	}
	last, _ := evictionrequest.FindOther(of(
		managed("new", "status", apply, time.Minute, controllers), managed("old", "status", apply, 0, controllers),
	), start.Add(time.Hour/4))
	same(t, "last sign", evictionrequest.Other{Manager: "new", Seen: start.Add(time.Minute)}, last)

	e := eviction(1)
	e.ManagedFields = []metav1.ManagedFieldsEntry{
		managed("me", "status", apply, 0, `{"f:status":{`+said+`}}`),
		managed("controller", "status", apply, 0, controllers),
	}
	for range 2 {
		if other, found := evictionrequest.ServedByOther(e, a, "me"); found {
			t.Errorf("%s is taken for another responder", other)
		}
		if other, _ := evictionrequest.ServedByOther(e, a, "you"); other != "me" {
			t.Errorf("the other responder is %q", other)
		}
		e.ManagedFields = evictionrequest.StatusSigns(e.ManagedFields)
	}
}

func TestIntentBy(t *testing.T) {
	const spec, label = `{"f:spec":{"f:intent":{}}}`, `{"f:metadata":{"f:labels":{}}}`
	wrote := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"alone":             {[]metav1.ManagedFieldsEntry{wrote("usher", spec)}, true},
		"another, too":      {[]metav1.ManagedFieldsEntry{wrote("usher", spec), wrote("kubectl", spec)}, false},
		"another, a label":  {[]metav1.ManagedFieldsEntry{wrote("usher", spec), wrote("kubectl", label)}, true},
		"many":              {[]metav1.ManagedFieldsEntry{wrote("usher", spec), wrote("usher", spec), wrote("a", spec), wrote("b", spec)}, false},
		"another alone":     {[]metav1.ManagedFieldsEntry{wrote("usher", label), wrote("kubectl", spec)}, false},
		"it is not known":   {nil, false},
		"it cannot be read": {[]metav1.ManagedFieldsEntry{wrote("usher", `{`)}, false},
	} {
		for _, fields := range [][]metav1.ManagedFieldsEntry{c.fields, evictionrequest.IntentSigns(c.fields)} {
			if got := evictionrequest.IntentBy(&api.EvictionRequest{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}}, "usher"); got != c.want {
				t.Errorf("%s: %t of %s, want %t", name, got, fields, c.want)
			}
		}
	}
}
