package evictionrequest_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

func TestPlanRequest(t *testing.T) {
	alice := asked("alice")
	const unseen = 10 * time.Second // what was created may be gone before it is seen
	noPod := asked("alice", func(r *api.EvictionRequest) { r.Spec.Target.Pod = nil })
	noResponder := failed(api.EvictionConditionReasonNoFurtherResponder)
	cases := []struct {
		name    string
		target  evictionrequest.Target
		request *api.EvictionRequest
		want    string // conditions
		creates string
		again   time.Duration
		quiet   bool // nothing to write
	}{
		{name: "first request", target: target(0, newPod(), requests(alice)), request: alice, want: waits, creates: "pod-1-db-0", again: unseen},
		{name: "withdrawn before anything", target: target(0, newPod(), requests(asked("alice", withdrawn))), request: asked("alice", withdrawn), want: waits},
		{name: "being deleted, held by a finalizer", target: target(0, newPod(), requests(asked("alice", deleting))), request: asked("alice", deleting), want: waits},
		{name: "no pod named", target: target(0, nil, nil), request: noPod, want: isInvalid},
		{name: "pod does not exist", target: target(0, nil, requests(alice)), request: alice, want: isInvalid},
		{name: "pod gone, but an eviction exists", target: target(0, nil, requests(alice), eviction(1)), request: alice, want: waits},
		{name: "PodGroup", target: target(0, newPod(grouped), requests(alice)), request: alice, want: isInvalid},
		{name: "eviction goes on", target: target(0, newPod(), requests(alice), eviction(1)), request: alice, want: waits},
		{name: "eviction succeeded", target: target(0, nil, requests(alice), eviction(1, succeeded)), request: alice, want: "Failed/AwaitingEviction !TargetEvicted/PodDeleted"},
		{name: "already terminal", target: target(0, newPod(phase(corev1.PodFailed)), requests(alice)), request: alice, want: waits, creates: "pod-1-db-0", again: unseen},
		{
			name: "canceled and wanted anew", request: alice, creates: "pod-2-db-0", again: unseen,
			target: target(0, newPod(), requests(alice), eviction(1, failed(api.EvictionConditionReasonCanceledDueToNoRequesters))),
			want:   "!Failed/CanceledDueToNoRequesters TargetEvicted/AwaitingEviction",
		},
		{
			name: "canceled, and another that was created meanwhile is invalid", request: alice,
			want: "!Failed/CanceledDueToNoRequesters TargetEvicted/AwaitingEviction", creates: "pod-3-db-0", again: unseen,
			target: target(5*time.Second, newPod(), requests(alice), eviction(1, failed(api.EvictionConditionReasonCanceledDueToNoRequesters)),
				eviction(2, failed(api.EvictionConditionReasonEvictionInvalid))),
		},
		{
			name: "the only eviction became invalid a moment ago", request: alice, want: waits, again: 4 * time.Second,
			target: target(time.Second, newPod(), requests(alice), eviction(1, failed(api.EvictionConditionReasonEvictionInvalid))),
		},
		{
			name: "the only eviction is invalid", request: alice, want: waits, creates: "pod-2-db-0", again: unseen,
			target: target(5*time.Second, newPod(), requests(alice), eviction(1, failed(api.EvictionConditionReasonEvictionInvalid))),
		},
		{
			name: "given up a moment ago", request: alice, again: 2 * time.Second,
			target: target(3*time.Second, newPod(), requests(alice), eviction(1, noResponder)), want: "!Failed/NoFurtherResponder TargetEvicted/AwaitingEviction",
		},
		{
			name: "given up twice", request: alice, again: 7 * time.Second,
			target: target(3*time.Second, newPod(), requests(alice), eviction(1, noResponder), eviction(2, noResponder)), want: "!Failed/NoFurtherResponder TargetEvicted/AwaitingEviction",
		},
		{
			name: "given up, pause over", request: alice, creates: "pod-2-db-0", again: unseen,
			target: target(5*time.Second, newPod(), requests(alice), eviction(1, noResponder)), want: "!Failed/NoFurtherResponder TargetEvicted/AwaitingEviction",
		},
		{name: "given up, withdrawn", target: target(time.Hour, newPod(), nil, eviction(1, noResponder)), request: asked("alice", withdrawn), want: "!Failed/NoFurtherResponder TargetEvicted/AwaitingEviction"},
		{name: "numbers of other pods of the name count", target: target(0, newPod(), requests(alice), eviction(3, of("u0"), succeeded)), request: alice, want: waits, creates: "pod-4-db-0", again: unseen},
		{name: "evicted stays", target: target(0, newPod(), nil), request: asked("alice", requestCondition("TargetEvicted", "PodDeleted")), want: "!TargetEvicted/PodDeleted", quiet: true},
		{name: "invalid stays", target: target(0, newPod(), nil), request: asked("alice", requestCondition("Failed", "EvictionInvalid")), want: "!Failed/EvictionInvalid", quiet: true},
		{
			name: "failed otherwise is reset by a new attempt", want: waits,
			target:  target(0, newPod(), requests(alice), eviction(1, noResponder), eviction(2)),
			request: asked("alice", requestCondition("Failed", "NoFurtherResponder")),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := c.request.DeepCopy()
			plan := evictionrequest.PlanRequest(c.target, request)
			same(t, "conditions", c.want, short(plan.Status.Conditions))
			created := ""
			if plan.Create != nil {
				created = plan.Create.Name
			}
			same(t, "created", c.creates, created)
			same(t, "again", c.again, plan.Again)
			same(t, "changed", !c.quiet, plan.Changed)
			if plan.Changed {
				same(t, "observed generation", 1, *plan.Status.ObservedGeneration)
				request.Status = plan.Status
				if evictionrequest.PlanRequest(c.target, request).Changed {
					t.Error("the same facts change the status twice")
				}
			}
		})
	}
}

// A pod may be seen gone before the eviction is that was created for it: that has the last word.
func TestARequestOutlastsItsPod(t *testing.T) {
	alice := asked("alice")
	for name, c := range map[string]struct {
		age   time.Duration
		want  string
		again time.Duration
	}{
		"created a moment ago": {3 * time.Second, "", evictionrequest.UnseenFor - 3*time.Second},
		"created a while ago":  {evictionrequest.UnseenFor, isInvalid, 0},
	} {
		t.Run(name, func(t *testing.T) {
			facts := target(time.Minute, nil, requests(alice))
			facts.Made = evictionrequest.Made{Name: "pod-1-db-0", Time: start.Add(time.Minute - c.age)}
			plan := evictionrequest.PlanRequest(facts, alice)
			same(t, "conditions", c.want, short(plan.Status.Conditions))
			same(t, "again", c.again, plan.Again)
		})
	}
}

// What was created a moment ago is not created once more, though the cache does not show it.
func TestAnEvictionIsCreatedOnce(t *testing.T) {
	alice := asked("alice")
	made := func(name string, after time.Duration) evictionrequest.Made {
		return evictionrequest.Made{Name: name, Time: start.Add(after)}
	}
	gaveUp := eviction(1, failed(api.EvictionConditionReasonCanceledDueToNoRequesters))
	for _, c := range []struct {
		name      string
		made      evictionrequest.Made
		evictions []*api.Eviction
		creates   string
		again     time.Duration
	}{
		{"a moment ago", made("pod-1-db-0", 57*time.Second), nil, "", 7 * time.Second},
		{"a while ago", made("pod-1-db-0", 50*time.Second), nil, "pod-1-db-0", evictionrequest.UnseenFor},
		{"by a clock that was set back", made("pod-1-db-0", 61*time.Second), nil, "pod-1-db-0", evictionrequest.UnseenFor},
		{"and it has failed", made("pod-1-db-0", time.Minute), []*api.Eviction{gaveUp}, "pod-2-db-0", evictionrequest.UnseenFor},
		{"after one that failed", made("pod-2-db-0", time.Minute), []*api.Eviction{gaveUp}, "", evictionrequest.UnseenFor},
		{"and it is there", made("pod-1-db-0", time.Minute), []*api.Eviction{eviction(1)}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			facts := target(time.Minute, newPod(), requests(alice), c.evictions...)
			facts.Made = c.made
			plan := evictionrequest.PlanRequest(facts, alice)
			created := ""
			if plan.Create != nil {
				created = plan.Create.Name
			}
			same(t, "created", c.creates, created)
			same(t, "again", c.again, plan.Again)
		})
	}
}

func TestRefusalsSayWhatIsWrong(t *testing.T) {
	plan := evictionrequest.PlanRequest(target(0, nil, nil), asked("alice"))
	same(t, "message", "there is no pod db-0 with UID u1; request the eviction of the pod that has this name now, if it is meant",
		plan.Status.Conditions[0].Message)
}

func TestPauseIsBounded(t *testing.T) {
	var all []*api.Eviction
	for n := range 20 {
		all = append(all, eviction(n+1, failed(api.EvictionConditionReasonNoFurtherResponder)))
	}
	alice := asked("alice")
	same(t, "again", 10*time.Minute, evictionrequest.PlanRequest(target(0, newPod(), requests(alice), all...), alice).Again)
	all = append(all, eviction(21, failed(api.EvictionConditionReasonCanceledDueToNoRequesters)))
	if plan := evictionrequest.PlanRequest(target(0, newPod(), requests(alice), all...), alice); plan.Create == nil {
		t.Error("asking anew after a cancellation waits for the pause of those who gave up before it")
	}
}

func TestNewEviction(t *testing.T) {
	alice := asked("alice")
	e := evictionrequest.PlanRequest(target(0, newPod(), requests(alice)), alice).Create
	same(t, "labels", map[string]string{"example.com/alice": "requester", evictionrequest.Evictor: "responder"}, e.Labels)
	same(t, "pod", "db-0/u1", e.Spec.Target.Pod.Name+"/"+string(e.Spec.Target.Pod.UID))
	owner := e.OwnerReferences[0]
	same(t, "owner", "lifecycle.usher.sh/v1alpha1 EvictionRequest alice uid-alice",
		strings.Join([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}, " "))
	if len(e.OwnerReferences) != 1 || owner.Controller != nil {
		t.Errorf("owners %+v", e.OwnerReferences)
	}
}

// An eviction is made with the labels that its responders give it, so that no second write is needed.
func TestNewEvictionNeedsNoOtherLabels(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){"governed": governed, "not governed": func(*corev1.Pod) {}} {
		t.Run(name, func(t *testing.T) {
			alice := asked("alice")
			to := target(0, newPod(edit), requests(alice))
			to.Governed = evictionrequest.Governed
			e := evictionrequest.PlanRequest(to, alice).Create
			to.Evictions = []*api.Eviction{e}
			if plan := evictionrequest.PlanMetadata(to, e); plan.Changed {
				t.Errorf("before responders are chosen: labels %v, want %v", e.Labels, plan.Labels)
			}
			e.Status = evictionrequest.PlanEviction(to, e).Status
			if plan := evictionrequest.PlanMetadata(to, e); plan.Changed {
				t.Errorf("labels %v, want %v", e.Labels, plan.Labels)
			}
		})
	}
}

func TestNamesOfPodsWithLongNames(t *testing.T) {
	names := map[string]bool{}
	for _, last := range []string{"a", "b"} {
		to := target(0, newPod(), nil)
		to.Ref.Name = strings.Repeat("long.", 50) + last
		alice := asked("alice", func(r *api.EvictionRequest) { r.Spec.Target.Pod.Name = to.Ref.Name })
		to.Requests = requests(alice)
		name := evictionrequest.PlanRequest(to, alice).Create.Name
		if len(name) > 253 || !strings.HasPrefix(name, "pod-1-long.") {
			t.Errorf("%d: %s", len(name), name)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("two pods share the name of their evictions: %v", names)
	}
}

func TestCheckRequest(t *testing.T) {
	wanted := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "db", Name: "db-0", UID: "u"}, "requester.usher.sh/jane")
	for name, c := range map[string]struct {
		change func(*api.EvictionRequest)
		same   bool
	}{
		"the same":          {func(*api.EvictionRequest) {}, true},
		"withdrawn":         {func(r *api.EvictionRequest) { r.Spec.Intent = api.EvictionRequestIntentWithdrawn }, true},
		"another pod":       {func(r *api.EvictionRequest) { r.Spec.Target.Pod.Name = "db-1" }, false},
		"another of a name": {func(r *api.EvictionRequest) { r.Spec.Target.Pod.UID = "v" }, false},
		"no pod":            {func(r *api.EvictionRequest) { r.Spec.Target.Pod = nil }, false},
		"another requester": {func(r *api.EvictionRequest) { r.Spec.Requester = "requester.usher.sh/joe" }, false},
	} {
		there := wanted.DeepCopy()
		c.change(there)
		if err := evictionrequest.CheckRequest(there, wanted); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestByMaintenance(t *testing.T) {
	for requester, want := range map[string]bool{
		"kernel.maintenance.usher.sh/node-7": true, "kernel.maintenance.usher.sh": true, "maintenance.usher.sh": true,
		snapshot.RequesterOf(snapshot.MaintenancePrefix + "A7B3"): true, snapshot.RequesterOf("A7B3"): false, "drain.usher.sh": false,
		"drain.usher.sh.example.com/maintenance-A7B3": false, "requester.usher.sh/maintenance-A7B3": false, "drain.usher.sh/the-maintenance-A7B3": false,
		"maintenance.usher.sh.example.com": false, "evilmaintenance.usher.sh": false, "drain.usher.sh/maintenance.usher.sh": false, "": false,
	} {
		if evictionrequest.ByMaintenance(requester) != want {
			t.Errorf("%q: %t", requester, !want)
		}
	}
}
