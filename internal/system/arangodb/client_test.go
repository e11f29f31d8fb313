package arangodb

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

// said is everything that a verdict's blockers say.
func said(v eviction.Verdict) string {
	var all []string
	for _, blocker := range v.Blockers {
		all = append(all, blocker.Reason+": "+blocker.Message)
	}
	return strings.Join(all, "\n")
}

// Agent a leads. Every fault leaves a cleaned-out server where it is, and the message says why.
func TestAnswersThatGoWrong(t *testing.T) {
	const read, config = "/_api/agency/read", "/_api/agency/config"
	cases := []struct {
		name  string
		fault httpfault.Fault
		want  []string
	}{
		{"401 of all agents", httpfault.Fault{Path: config, Status: 401, Body: `{"error":true,"code":401,"errorNum":11,"errorMessage":"not authorized"}`}, []string{"NoEvidence", "agnt-a", "401", "spec.system.arangodb.jwt"}},
		{"403 of the leader", httpfault.Fault{Path: read, Status: 403, Body: `{"errorNum":11,"errorMessage":"forbidden"}`}, []string{"AgencyNotServing", "agnt-a", "403", "forbidden"}},
		{"503 with 1495", httpfault.Fault{Path: read, Status: 503, Body: `{"error":true,"code":503,"errorNum":1495,"errorMessage":"leadership challenge is ongoing"}`}, []string{"AgencyNotServing", "not ready", "1495", "leadership challenge"}},
		{"503 with 1496", httpfault.Fault{Path: read, Status: 503, Body: `{"error":true,"code":503,"errorNum":1496,"errorMessage":"not a leader"}`}, []string{"AgencyNotServing", "1496: not a leader"}},
		{"503 of an agent without a leader", httpfault.Fault{Path: read, Status: 503, Body: `{"message":"No leader"}`}, []string{"AgencyNotServing", "503: No leader"}},
		{"503 of a proxy", httpfault.Fault{Path: config, Status: 503, Body: "<html>Service\nUnavailable</html>"}, []string{"NoEvidence", "503, with 32 bytes that are not JSON"}},
		{"200 of something else", httpfault.Fault{Path: read, Status: 200, Body: "<html>hello</html>"}, []string{"AgencyNotServing", "18 bytes that are not JSON"}},
		{"200 with nothing", httpfault.Fault{Path: read, Status: 200}, []string{"AgencyNotServing", "not JSON"}},
		{"JSON of another shape", httpfault.Fault{Path: read, Status: 200, Body: `{"arango":{}}`}, []string{"AgencyNotServing", "understanding the agency"}},
		{"JSON of another shape within", httpfault.Fault{Path: read, Status: 200, Body: `[{"arango":{"Target":{"CleanedServers":["PRMR-a"]},"Plan":{"Collections":{"_system":{"c":{"shards":{"s":"PRMR-b"}}}}}}}]`}, []string{"AgencyNotServing", "understanding the agency"}},
		{"a configuration that says nothing", httpfault.Fault{Path: config, Status: 200, Body: `{}`}, []string{"NoEvidence", "its id or the number"}},
		{"cut off", httpfault.Fault{Path: read, Cut: 40}, []string{"AgencyNotServing", "breaks off"}},
		{"endless", httpfault.Fault{Path: config, Status: 200, Body: strings.Repeat(" ", answerLimit+1)}, []string{"NoEvidence", "longer than"}},
		{"silent", httpfault.Fault{Path: read, Silent: true}, []string{"AgencyNotServing", "did not answer within 1m0s"}},
		{"handed on and on", httpfault.Fault{Path: read, Status: 307, Header: map[string]string{"Location": "http://agnt-a.db.svc:8529/_api/agency/read"}}, []string{"AgencyNotServing", "again and again"}},
		{"handed on to another agent", httpfault.Fault{Path: read, Status: 307, Header: map[string]string{"Location": "http://agnt-b.db.svc:8529/_api/agency/read"}}, []string{"AgencyNotServing", "leadership is moving"}},
		{"handed on to a stranger", httpfault.Fault{Path: read, Status: 307, Header: map[string]string{"Location": "http://thief.example/_api/agency/read"}}, []string{"AgencyNotServing", "thief.example"}},
		{"handed on without a place", httpfault.Fault{Path: read, Status: 307}, []string{"AgencyNotServing", "leadership is moving"}},
		{"another status", httpfault.Fault{Path: read, Status: 418}, []string{"AgencyNotServing", "418"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, shards(2, []string{prmrB, prmrC})())
				b.sim.Set("Target/CleanedServers", []any{prmrA})
				if verdict := b.evict("dbserver", prmrA); verdict.Answer != eviction.Allowed {
					t.Fatalf("without a fault: %s", said(verdict))
				}
				b.sim.Inject(c.fault)
				verdict := b.evict("dbserver", prmrA)
				t.Log(said(verdict))
				if verdict.Answer != eviction.Blocked {
					t.Errorf("answer %s, want %s", verdict.Answer, eviction.Blocked)
				}
				for _, want := range c.want {
					if !strings.Contains(said(verdict), want) {
						t.Errorf("the blockers do not say %q", want)
					}
				}
			})
		})
	}
}

// The address of an agent leads to one of another deployment, as after its pod's address was given to another pod.
func TestForeignAgentIsLeftOut(t *testing.T) {
	const foreign = `{"term":9,"leaderId":"AGNT-x","commitIndex":7,"lastAcked":{"AGNT-x":{"lastAckedTime":0,"lastAckedIndex":7}},
		"configuration":{"id":"AGNT-x","agency size":3,"pool":{"AGNT-x":"tcp://x.other.svc:8529","AGNT-y":"tcp://y.other.svc:8529"}}}`
	for name, agents := range map[string][]string{
		"every address is in the policy": {agntA, agntB, agntC},
		"one leads to the others":        {agntA},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, shards(2, []string{prmrB, prmrC})(), func(own *v1alpha1.ArangoDB, _ *system.Access) {
				own.Agents = slices.DeleteFunc(own.Agents, func(url string) bool {
					return !slices.ContainsFunc(agents, func(id string) bool { return strings.Contains(url, strings.ToLower(id)) })
				})
			})
			b.sim.Set("Target/CleanedServers", []any{prmrA})
			b.sim.Inject(httpfault.Fault{Server: agntC, Path: "/_api/agency/config", Status: 200, Body: foreign})
			if verdict := b.evict("dbserver", prmrA); verdict.Answer != eviction.Allowed {
				t.Errorf("a cleaned-out server stays: %s", said(verdict))
			}
			if verdict := b.evict("agent", agntB); !slices.Equal(reasons(verdict), []string{"NoFollowerAnswers", "QuorumAtRisk"}) {
				t.Errorf("a follower beside one that does not answer: %s", said(verdict))
			}
			if found := b.evidence(prmrA); !strings.Contains(found.Summary, "another agency") {
				t.Errorf("summary %q", found.Summary)
			}
			b.sim.Kill(agntB)
			if verdict := b.evict("dbserver", prmrA); verdict.Answer != eviction.Blocked || !strings.Contains(said(verdict), "AGNT-x") {
				t.Errorf("with one agent left: %s", said(verdict))
			}
		})
	}
}

func TestWrongSecret(t *testing.T) {
	b := newBench(t, plain(), func(own *v1alpha1.ArangoDB, access *system.Access) {
		access.Secrets[*own.JWT] = []byte("another")
	})
	if got := said(b.evict("dbserver", prmrA)); !strings.Contains(got, "it refuses the token (401") {
		t.Errorf("got %s", got)
	}
}

// A leader that redirects to its other address gets the token there as well.
func TestFollowsTheLeaderWithCredentials(t *testing.T) {
	b := newBench(t, plain())
	b.sim.Inject(httpfault.Fault{Server: agntA, Path: "/_api/agency/read", Times: 1, Status: 307, Header: map[string]string{"Location": b.sim.Address(agntA) + "/_api/agency/read"}})
	if got := b.evidence(prmrA); got.System["agencyProblem"] != "" {
		t.Errorf("agencyProblem is %q", got.System["agencyProblem"])
	}
	want := []string{"GET AGNT-a /_api/agency/config", "GET AGNT-b /_api/agency/config", "GET AGNT-c /_api/agency/config", "POST AGNT-a /_api/agency/read"}
	got := b.sim.Requests()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestFindsTheAgents(t *testing.T) {
	nameless := func(own *v1alpha1.ArangoDB, _ *system.Access) { own.Agents = nil }
	oneOf := func(own *v1alpha1.ArangoDB, _ *system.Access) { own.Agents = own.Agents[2:] }
	b := newBench(t, plain(), nameless)
	b.sim.Kill("CRDN-a")
	check := func(what string) {
		t.Helper()
		evidence := b.evidence(prmrA)
		if evidence.System["agentsAnswering"] != int64(3) {
			t.Errorf("%s: %v agents answer, want 3 (%s)", what, evidence.System["agentsAnswering"], evidence.Error)
		}
	}
	check("through the second coordinator")
	b.sim.Kill("CRDN-b")
	check("without any coordinator, once found")

	b = newBench(t, plain(), oneOf)
	check("through the only agent that is named")

	b = newBench(t, plain(), nameless)
	b.sim.Kill("CRDN-a")
	b.sim.Kill("CRDN-b")
	evidence := b.evidence(prmrA)
	if !strings.Contains(evidence.Error, "looking for the agents: server http://crdn-a") {
		t.Errorf("error is %q", evidence.Error)
	}
}

func TestServersByOtherNames(t *testing.T) {
	names := func(prepare func(*arangosim.Cluster)) *bench {
		sim := cluster(3)
		sim.AddCollection("c", 1, []string{prmrA})
		prepare(sim)
		return newBench(t, sim)
	}
	cases := []struct {
		name    string
		id      string
		want    string
		prepare func(*arangosim.Cluster)
	}{
		{"its id", prmrA, prmrA, func(*arangosim.Cluster) {}},
		{"short name", "DBServers-PRMR-a", prmrA, func(*arangosim.Cluster) {}},
		{"first label of its host", "prmr-a", prmrA, func(*arangosim.Cluster) {}},
		{"an agent's host", "agnt-b", agntB, func(*arangosim.Cluster) {}},
		{"nothing", "", "", func(*arangosim.Cluster) {}},
		{"two at one address", "prmr-a", "", func(c *arangosim.Cluster) { c.Renew(prmrA) }},
		{"two at one address, one has failed", "prmr-a", "PRMR-a-again1", func(c *arangosim.Cluster) {
			c.Wipe(prmrA)
			c.Renew(prmrA)
			for range 12 {
				c.Tick()
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _ := names(c.prepare).evidence(c.id).Members[c.id]["server"].(string)
			if got != c.want {
				t.Errorf("%q is %q, want %q", c.id, got, c.want)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	key := v1alpha1.SecretKey{Name: "jwt", Key: "token"}
	for _, c := range []struct {
		name string
		own  v1alpha1.ArangoDB
		at   []string
		want string
	}{
		{"a secret that is blank", v1alpha1.ArangoDB{JWT: &key}, []string{"https://db:8529"}, `entry "token" of Secret "jwt"`},
		{"an endpoint that is no URL", v1alpha1.ArangoDB{}, []string{"db:8529"}, "must be a URL"},
		{"an agent that is no URL", v1alpha1.ArangoDB{Agents: []string{"unix:///socket"}}, nil, "must be a URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(&v1alpha1.System{ArangoDB: &c.own}, system.Access{Endpoints: c.at, Secrets: map[v1alpha1.SecretKey][]byte{key: []byte(" \n")}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestWebURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"tcp://[::1]:4001": "http://[::1]:4001", "ssl://db-0.db.svc:8529": "https://db-0.db.svc:8529", "http+ssl://h:1/x": "https://h:1",
		"https://h": "https://h", "unix:///tmp/s": "", "h:8529": "", "": "", "tcp://": "", " SSL://h:1 ": "https://h:1",
	} {
		if got := webURL(endpoint); got != want {
			t.Errorf("webURL(%q) = %q, want %q", endpoint, got, want)
		}
	}
}

// The example is that of the specification: secrets are trimmed and cut to 64 bytes.
func TestTokenUsesWhatServersUse(t *testing.T) {
	whole, err := token([]byte("\n" + testSecret + " \n"))
	if err != nil {
		t.Fatal(err)
	}
	cut, err := token([]byte(testSecret[:64]))
	if err != nil {
		t.Fatal(err)
	}
	if whole != cut || strings.Count(cut, ".") != 2 {
		t.Errorf("tokens are %q and %q", whole, cut)
	}
}
