package evictionrequest_test

import (
	"fmt"
	"strings"
	"testing"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/evictionrequest"
)

func known(all ...string) editEviction {
	return func(e *api.Eviction) {
		for _, s := range all {
			name, intent, _ := strings.Cut(s, "=")
			e.Status.Requesters = append(e.Status.Requesters, api.Requester{Name: "example.com/" + name, Intent: api.RequesterIntent(intent)})
		}
	}
}

func shortRequesters(all []api.Requester) string {
	said := make([]string, len(all))
	for i, r := range all {
		said[i] = strings.TrimPrefix(r.Name, "example.com/") + "=" + string(r.Intent)
	}
	return strings.Join(said, " ")
}

func named(name string) editRequest { return func(r *api.EvictionRequest) { r.Name = name } }

func TestRequesters(t *testing.T) {
	cases := []struct {
		name     string
		requests []*api.EvictionRequest
		known    []string
		want     string
	}{
		{"new ones by name", requests(asked("bob"), asked("alice")), nil, "alice=Eviction bob=Eviction"},
		{"known ones keep their place", requests(asked("bob"), asked("alice")), []string{"bob=Eviction"}, "bob=Eviction alice=Eviction"},
		{"gone means withdrawn", requests(asked("bob")), []string{"alice=Eviction", "bob=Eviction"}, "alice=Withdrawn bob=Eviction"},
		{"going means withdrawn", requests(asked("alice", deleting), asked("bob")), nil, "alice=Withdrawn bob=Eviction"},
		{"asks anew", requests(asked("alice")), []string{"alice=Withdrawn"}, "alice=Eviction"},
		{"two requests of one, one withdrawn", requests(asked("alice", withdrawn), asked("alice", named("again"))), nil, "alice=Eviction"},
		{"of another pod", requests(asked("alice"), asked("bob", ofPod("u2"))), nil, "alice=Eviction"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := eviction(1, known(c.known...))
			plan := evictionrequest.PlanEviction(target(0, newPod(), c.requests, e), e)
			same(t, "requesters", c.want, shortRequesters(plan.Status.Requesters))
		})
	}
}

func TestAtMostAHundredRequesters(t *testing.T) {
	var all []*api.EvictionRequest
	for i := range 98 {
		all = append(all, asked(fmt.Sprintf("r%03d", i)))
	}
	e := eviction(1, known("x=Withdrawn", "y=Withdrawn", "z=Withdrawn"))
	got := evictionrequest.PlanEviction(target(0, newPod(), all, e), e).Status.Requesters
	same(t, "first of the rest", "y=Withdrawn z=Withdrawn r000=Eviction", shortRequesters(got[:3]))
	same(t, "how many", 100, len(got))
	for i := range 5 {
		all = append(all, asked(fmt.Sprintf("s%03d", i)))
	}
	got = evictionrequest.PlanEviction(target(0, newPod(), all, e), e).Status.Requesters
	same(t, "first", "r000=Eviction", shortRequesters(got[:1]))
	same(t, "how many", 100, len(got))
}

func TestPlanMetadata(t *testing.T) {
	owned := func(e *api.Eviction) {
		e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "lifecycle.usher.sh/v1alpha1", Kind: "EvictionRequest", Name: "alice", UID: "uid-alice"}}
	}
	labelled := func(labels map[string]string) editEviction { return func(e *api.Eviction) { e.Labels = labels } }
	whole := map[string]string{"example.com/a": "responder", "example.com/alice": "requester"}
	cases := []struct {
		name     string
		requests []*api.EvictionRequest
		eviction *api.Eviction
		labels   map[string]string
		owners   string
		quiet    bool
	}{
		{"as created", requests(asked("alice")), eviction(1, owned, states(active), labelled(map[string]string{"example.com/alice": "requester"})), whole, "alice", false},
		{"nothing new", requests(asked("alice")), eviction(1, owned, states(active), labelled(whole)), whole, "alice", true},
		{"labels of others do not matter", requests(asked("alice")), eviction(1, owned, states(active), labelled(map[string]string{"example.com/a": "responder", "example.com/alice": "requester", "team": "x"})), whole, "alice", true},
		{"one more requester", requests(asked("alice"), asked("bob")), eviction(1, owned, states(active), labelled(whole)), map[string]string{"example.com/a": "responder", "example.com/alice": "requester", "example.com/bob": "requester"}, "alice bob", false},
		{"a requester left", requests(asked("bob")), eviction(1, owned, states(active), labelled(map[string]string{"example.com/a": "responder", "example.com/alice": "requester", "example.com/bob": "requester"})), map[string]string{"example.com/a": "responder", "example.com/bob": "requester"}, "alice bob", false},
		{"the last requester left", nil, eviction(1, owned, states(active), labelled(whole)), nil, "", true},
		{"both roles", requests(asked("a")), eviction(1, owned, states(active)), map[string]string{"example.com/a": "requester-responder"}, "alice a", false},
		{"both roles, then one", requests(asked("a", withdrawn), asked("alice")), eviction(1, owned, states(active), labelled(map[string]string{"example.com/a": "requester-responder", "example.com/alice": "requester"})), whole, "alice", false},
		{"failed, asked again", requests(asked("alice"), asked("bob")), eviction(1, owned, states(active), failed(api.EvictionConditionReasonNoFurtherResponder), labelled(map[string]string{"example.com/a": "responder"})), map[string]string{"example.com/a": "responder"}, "alice", true},
		{"failed, still wanted", requests(asked("alice")), eviction(1, owned, states(active), failed(api.EvictionConditionReasonNoFurtherResponder), labelled(whole)), whole, "alice", true},
		{"failed, wanted no more", nil, eviction(1, owned, states(active), failed(api.EvictionConditionReasonNoFurtherResponder), labelled(whole)), map[string]string{"example.com/a": "responder"}, "alice", false},
		{"canceled", nil, eviction(1, owned, states(active), failed(api.EvictionConditionReasonCanceledDueToNoRequesters), labelled(whole)), map[string]string{"example.com/a": "responder"}, "alice", false},
		{"evicted", nil, eviction(1, owned, states(active), succeeded, labelled(whole)), nil, "", true},
		{"one that is going owns nothing more", requests(asked("alice"), asked("bob", deleting)), eviction(1, owned, states(active), labelled(whole)), whole, "alice", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan := evictionrequest.PlanMetadata(target(0, newPod(), c.requests, c.eviction), c.eviction)
			same(t, "labels", c.labels, plan.Labels)
			var owners []string
			for _, o := range plan.Owners {
				owners = append(owners, o.Name)
			}
			same(t, "owners", c.owners, strings.Join(owners, " "))
			same(t, "changed", !c.quiet, plan.Changed)
		})
	}
}

// Any number of requests of one pod make an eviction that fits into an object, and that nothing changes any more.
func TestManyRequestersFitIntoAnEviction(t *testing.T) {
	all := make([]*api.EvictionRequest, 10000)
	for i := range all {
		all[i] = asked(fmt.Sprintf("r%05d", i))
	}
	e := eviction(1, states(active))
	e.Status = evictionrequest.PlanEviction(target(0, newPod(), all, e), e).Status
	plan := evictionrequest.PlanMetadata(target(0, newPod(), all, e), e)
	same(t, "labels", 101, len(plan.Labels)) // and a responder
	same(t, "owners", 100, len(plan.Owners))
	for _, r := range e.Status.Requesters {
		same(t, "label of "+r.Name, "requester", plan.Labels[r.Name])
	}
	e.Labels, e.OwnerReferences = plan.Labels, plan.Owners
	same(t, "changed", false, evictionrequest.PlanMetadata(target(0, newPod(), all, e), e).Changed)
	e.OwnerReferences = e.OwnerReferences[50:] // the garbage collector drops those that are gone
	plan = evictionrequest.PlanMetadata(target(0, newPod(), all[50:], e), e)
	same(t, "owners where some are gone", 100, len(plan.Owners))
	same(t, "the first that had no room", "r00100", plan.Owners[50].Name)
}
