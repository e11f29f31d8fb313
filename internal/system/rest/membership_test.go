package rest_test

import (
	"encoding/json"
	"errors"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// registry is a system that has a list of members, of which it forgets the shares first.
type registry struct {
	mu       sync.Mutex
	members  map[string]bool // whether it has shares
	accepted []string
	loses    bool // the answers to what it has done
	refuses  int  // with this status; 0: nothing
	silent   bool
}

func (r *registry) ServeHTTP(w nethttp.ResponseWriter, request *nethttp.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.TrimPrefix(strings.TrimPrefix(request.URL.Path, "/members"), "/")
	switch _, has := r.members[id]; {
	case r.silent:
		w.WriteHeader(nethttp.StatusServiceUnavailable)
	case request.Method == nethttp.MethodGet && request.URL.Path == "/members":
		ids := []string{}
		for id := range r.members {
			ids = append(ids, id)
		}
		_ = json.NewEncoder(w).Encode(ids)
	case request.Method == nethttp.MethodGet && has:
		_ = json.NewEncoder(w).Encode(map[string]any{"shares": r.members[id]})
	case request.Method == nethttp.MethodGet:
		w.WriteHeader(nethttp.StatusNotFound)
	default:
		r.change(w, request, id)
	}
}

func (r *registry) change(w nethttp.ResponseWriter, request *nethttp.Request, id string) {
	if r.refuses != 0 {
		w.WriteHeader(r.refuses)
		return
	}
	r.accepted = append(r.accepted, request.Method+" "+request.URL.String())
	switch request.Method {
	case nethttp.MethodPut:
		r.members[id] = true
	case nethttp.MethodPost:
		r.members[id] = false
	case nethttp.MethodDelete:
		delete(r.members, id)
	}
	if r.loses {
		panic(nethttp.ErrAbortHandler)
	}
}

// replaceable is a policy of two steps to leave, and one to join.
func replaceable() *v1alpha1.HTTP {
	return &v1alpha1.HTTP{
		Facts: get("members", "/members"), MemberFacts: get("own", "/members/{{member.id}}"),
		Replace: &v1alpha1.ReplaceSteps{
			Leave: []v1alpha1.ReplaceStep{
				{Name: "Disown", Do: v1alpha1.Call{Method: "POST", URL: "/members/{{member.id}}?pod={{pod.name}}&role={{member.role}}"}, Done: "!(member.id in system.members) || !member.own.shares"},
				{Name: "Forget", Do: v1alpha1.Call{Method: "DELETE", URL: "/members/{{member.id}}"}, Done: "!(member.id in system.members)"},
			},
			Join: []v1alpha1.ReplaceStep{
				{Name: "Add", Do: v1alpha1.Call{Method: "PUT", URL: "/members/{{member.id}}", Body: `{"ip": {{pod.ip}}}`}, Done: "member.own.shares"},
			},
		},
	}
}

// membership opens a system of the policy that is asked over a real connection.
func membership(t *testing.T, spec *v1alpha1.HTTP, r *registry) system.Membership {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	opened, err := rest.Open(&v1alpha1.System{HTTP: spec}, system.Access{Endpoints: []string{server.URL}, Timeout: time.Minute, Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened.(system.Membership)
}

func TestMembersLeaveAndJoinBySteps(t *testing.T) {
	for name, loses := range map[string]bool{"answers arrive": false, "answers are lost": true} {
		t.Run(name, func(t *testing.T) {
			r := &registry{members: map[string]bool{"db-1": true, "db-2": true}, loses: loses}
			m := membership(t, replaceable(), r)
			old := &v1alpha1.MemberRegistration{ID: "db-2"}
			var said []string
			for look := range 10 { // as the controller does: one request for a look
				listing, err := m.Listed(t.Context(), member("db-2"), old)
				if err != nil || listing.Member == nil || listing.Member.ID != "db-2" {
					t.Fatalf("look %d: %+v, %v", look, listing, err)
				}
				if !listing.Predecessor {
					break
				}
				missing, err := m.Leave(t.Context(), member("db-2"), old)
				if err != nil != loses {
					t.Fatal(err)
				}
				said = append(said, missing)
			}
			want := []string{"Disown is asked for, and is not done yet", "Forget is asked for, and is not done yet"}
			if loses {
				want = []string{"", ""}
			}
			if diff := cmp.Diff(want, said); diff != "" {
				t.Error(diff)
			}
			if missing, err := m.Leave(t.Context(), member("db-2"), old); missing != "" || err != nil {
				t.Errorf("it has left: %q, %v", missing, err)
			}
			if listing, err := m.Listed(t.Context(), member("db-2"), old); err != nil || listing.Joined {
				t.Errorf("its successor has not joined: %+v, %v", listing, err)
			}
			missing, err := m.Join(t.Context(), member("db-2"), old)
			if err != nil != loses || !loses && missing != `Add is asked for until it is done, and whether it is done is not known: "member.own" is not known` {
				t.Errorf("%q, %v", missing, err)
			}
			if missing, err := m.Join(t.Context(), member("db-2"), old); missing != "" || err != nil {
				t.Errorf("it has joined: %q, %v", missing, err)
			}
			if diff := cmp.Diff([]string{"POST /members/db-2?pod=db-2&role=node", "DELETE /members/db-2", "PUT /members/db-2"}, r.accepted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is done already, whoever did it, is not asked for.
func TestStepsThatAreDoneAreNotAskedFor(t *testing.T) {
	r := &registry{members: map[string]bool{"db-1": true}}
	m := membership(t, replaceable(), r)
	old := &v1alpha1.MemberRegistration{ID: "db-2"}
	if listing, err := m.Listed(t.Context(), member("db-2"), old); err != nil || listing.Predecessor {
		t.Errorf("%+v, %v", listing, err)
	}
	if missing, err := m.Leave(t.Context(), member("db-2"), old); missing != "" || err != nil || len(r.accepted) > 0 {
		t.Errorf("%q, %v, %v", missing, err, r.accepted)
	}
}

func TestStepsOfASystemThatIsSilentOrRefuses(t *testing.T) {
	r := &registry{members: map[string]bool{"db-2": true}, silent: true}
	m := membership(t, replaceable(), r)
	old := &v1alpha1.MemberRegistration{ID: "db-2"}
	_, listed := m.Listed(t.Context(), member("db-2"), old)
	_, left := m.Leave(t.Context(), member("db-2"), old)
	_, joined := m.Join(t.Context(), member("db-2"), old)
	for _, err := range []error{listed, left, joined} {
		if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") {
			t.Errorf("%v", err)
		}
	}
	r.silent = false
	for status, final := range map[int]bool{nethttp.StatusForbidden: true, nethttp.StatusConflict: false, nethttp.StatusNotFound: false, nethttp.StatusInternalServerError: false} {
		r.refuses = status
		if _, err := m.Leave(t.Context(), member("db-2"), old); err == nil || errors.Is(err, system.ErrTerminal) != final {
			t.Errorf("%d: %v", status, err)
		}
	}
	if len(r.accepted) > 0 {
		t.Error(r.accepted)
	}
}

// A policy that says that nothing need be asked has members of any role replaced, and asks nothing.
func TestReplaceWithoutSteps(t *testing.T) {
	r := &registry{silent: true}
	m := membership(t, &v1alpha1.HTTP{Facts: get("members", "/members"), Replace: &v1alpha1.ReplaceSteps{}}, r)
	listing, err := m.Listed(t.Context(), member("db-2"), &v1alpha1.MemberRegistration{ID: "db-2"})
	if err != nil || listing.Predecessor || !listing.Joined {
		t.Errorf("%+v, %v", listing, err)
	}
	orders := func(spec *v1alpha1.HTTP) replacement.Order {
		return rest.Kind().SuccessionOf(&v1alpha1.System{HTTP: spec}).Order
	}
	if got := []replacement.Order{orders(&v1alpha1.HTTP{}), orders(&v1alpha1.HTTP{Replace: &v1alpha1.ReplaceSteps{}}), orders(replaceable())}; !slices.Equal(got, []replacement.Order{"", replacement.BySteps, replacement.BySteps}) {
		t.Error(got)
	}
}

// Steps of members that are prepared meanwhile know their pods still.
func TestReplacingForgetsNoPods(t *testing.T) {
	s := &server{answers: answers{"http://one/members": says(200, `["db-2"]`), "http://one/prepare?ip=10.0.0.7": says(200, `{}`)}}
	spec := replaceable()
	spec.MemberFacts = nil
	spec.Steps = []v1alpha1.Step{{Name: "Prepare", Do: v1alpha1.Call{Method: "POST", URL: "/prepare?ip={{pod.ip}}"}}}
	opened := open(t, spec, s, "http://one")
	if _, err := opened.Observe(t.Context(), []system.Member{member("db-1")}); err != nil {
		t.Fatal(err)
	}
	other := member("db-2")
	other.Pod.UID = "uid-2"
	if _, err := opened.(system.Membership).Listed(t.Context(), other, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Prepare(t.Context(), prep("Prepare")); err != nil {
		t.Error(err)
	}
}
