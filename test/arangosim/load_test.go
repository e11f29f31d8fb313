package arangosim

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// state is what an agency of two dbservers, one coordinator and so many single servers says.
const state = `{"index": 7, "agency": {"arango": {
	"Plan": {
		"DBServers": {"PRMR-x": "none", "PRMR-y": "none"}, "Coordinators": {"CRDN-x": "none"}, "Singles": {%s},
		"Collections": {"shop": {"1": {"name": "orders", "replicationFactor": 2, "writeConcern": 1, "shards": {"s1": ["PRMR-x", "PRMR-y"]}}}}
	},
	"Current": {
		"Collections": {"shop": {"1": {"s1": {"servers": ["PRMR-x", "PRMR-y"], "failoverCandidates": ["PRMR-x", "PRMR-y"]}}}},
		"ServersRegistered": {"PRMR-x": {"endpoint": "ssl://x.shop.svc:8529"}, "Version": 3}
	},
	"Supervision": {"Health": {
		"PRMR-x": {"Status": "GOOD", "Endpoint": "ssl://x.shop.svc:8529", "Host": "machine-1", "ShortName": "DBServer0001", "Version": "3.9.0", "Engine": "rocksdb"}
	}},
	"Target": {"Finished": {"2041": {"type": "moveShard"}}}
}, ".agency": {"pool": {%s}}}}`

func loaded(t *testing.T, config Config, singles, agents string) *Cluster {
	t.Helper()
	c, err := Load([]byte(fmt.Sprintf(state, singles, agents)), config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const twoAgents = `"AGNT-x": "ssl://agent-x.shop.svc:8529", "AGNT-y": "ssl://agent-y.shop.svc:8529"`

func TestLoadTakesWhatADumpHas(t *testing.T) {
	c := loaded(t, Config{}, "", twoAgents)
	want := []string{"AGNT-x", "AGNT-y", "CRDN-x", "PRMR-x", "PRMR-y"}
	if diff := cmp.Diff(want, c.Members()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	for id, address := range map[string]string{
		"AGNT-y": "https://agent-y.shop.svc:8529", "PRMR-x": "https://x.shop.svc:8529", "PRMR-y": "http://prmr-b.db.svc:8529",
	} {
		if got := c.Address(id); got != address {
			t.Errorf("%s listens at %s, want %s", id, got, address)
		}
	}
	if leader := c.find(c.AgencyLeader()); leader == nil || leader.log < 7 {
		t.Errorf("the agents' log has not the dump's entries: %+v", leader)
	}
	// What is known of a server is kept when its health changes, and those that come are of the deployment's version.
	c.Wipe("PRMR-x")
	fresh := c.Renew("PRMR-x")
	for range 12 {
		c.Tick()
	}
	if got := c.tree.get("Supervision/Health/PRMR-x"); got.(map[string]any)["Host"] != "machine-1" || c.health("PRMR-x") != "FAILED" {
		t.Errorf("its health is %v", got)
	}
	if got := c.tree.get("Supervision/Health/" + fresh).(map[string]any); got["Version"] != "3.9.0" || got["Endpoint"] != "ssl://x.shop.svc:8529" {
		t.Errorf("its successor's health is %v", got)
	}
	if job := c.submit("cleanOutServer", fresh); job != "2042" {
		t.Errorf("a job gets the id %s", job)
	}
}

func TestLoadMakesWhatADumpHasNot(t *testing.T) {
	c := loaded(t, Config{Agents: 5}, "", "")
	if agents := c.of(agent); len(agents) != 5 {
		t.Errorf("%d agents", len(agents))
	}
	if got := loaded(t, Config{}, `"SNGL-x": "none"`, "").of(single); len(got) != 1 || got[0].id != "SNGL-x" {
		t.Errorf("single servers: %v", got)
	}
}

func TestLoadReadsNothingElse(t *testing.T) {
	for name, dump := range map[string]string{"no JSON": "{", "no agency": `{}`, "no tree": `{"agency": {}}`} {
		if _, err := Load([]byte(dump), Config{}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// Its servers may listen elsewhere than the dump says, and say so.
func TestLoadWithAddresses(t *testing.T) {
	c := loaded(t, Config{Host: func(kind string, n int) string { return fmt.Sprintf("%s-%d.db.svc:1", strings.ToLower(kind), n) }}, "", twoAgents)
	if got := c.Address("AGNT-y"); got != "https://agnt-1.db.svc:1" {
		t.Errorf("an agent listens at %s", got)
	}
	for _, path := range []string{"Supervision/Health/PRMR-x/Endpoint", "Current/ServersRegistered/PRMR-x/endpoint"} {
		if got := c.tree.text(path); got != "ssl://prmr-0.db.svc:1" {
			t.Errorf("%s is %q", path, got)
		}
	}
}

// A server that is removed is nowhere any more, however many lists it was in; one that is in the plan, or at which a job is at work, is not removed.
func TestRemovedServersAreNotMentioned(t *testing.T) {
	c := deployment()
	c.Kill("PRMR-c")
	c.Kill("PRMR-a")
	for range 12 {
		c.Tick()
	}
	c.Set("Supervision/DBServers/PRMR-c", "1")
	remove := func(id string) int {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.Address("CRDN-a")+"/_admin/cluster/removeServer", strings.NewReader(`"`+id+`"`)))
		return w.Code
	}
	if got := remove("PRMR-c"); got != http.StatusPreconditionFailed {
		t.Errorf("held by a job: %d", got)
	}
	c.Set("Supervision/DBServers/PRMR-c", nil)
	if got := remove("PRMR-c"); got != http.StatusOK || len(c.Mentions("PRMR-c")) > 0 || c.Knows("PRMR-c") {
		t.Errorf("answer %d, and it stands at %v", got, c.Mentions("PRMR-c"))
	}
	if !slices.Contains(c.Mentions("PRMR-b"), "/Supervision/Health/PRMR-b") || !slices.Contains(c.Mentions("PRMR-b"), "/Plan/Collections/_system/c/shards/sc0") {
		t.Errorf("one that is there stands at %v", c.Mentions("PRMR-b"))
	}
}

// The agency carries a write out as a whole, where its preconditions hold, by its leader.
func TestWriteToTheAgency(t *testing.T) {
	c := New(Config{Agents: 3, Singles: 2})
	write := func(agent, body string) (status int, location string) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.Address(agent)+"/_api/agency/write", strings.NewReader(body)))
		return w.Code, w.Header().Get("Location")
	}
	const remove = `[[{"/arango/Plan/Singles/SNGL-b": {"op": "delete"}}, {"/arango/Supervision/Health/SNGL-b/Status": {"old": "FAILED"}}]]`
	if status, location := write("AGNT-b", remove); status != http.StatusTemporaryRedirect || location != c.Address("AGNT-a")+"/_api/agency/write" {
		t.Errorf("a follower answers %d, %q", status, location)
	}
	if status, _ := write("AGNT-a", remove); status != http.StatusPreconditionFailed || !c.Knows("SNGL-b") {
		t.Errorf("while it is GOOD: %d", status)
	}
	c.Kill("SNGL-b")
	for range 12 {
		c.Tick()
	}
	if status, _ := write("AGNT-a", remove); status != http.StatusOK || c.Knows("SNGL-b") {
		t.Errorf("once it has FAILED: %d", status)
	}
	if c.Tick(); c.health("SNGL-b") != "" {
		t.Error("the supervision goes on judging a server that is not planned")
	}
}
