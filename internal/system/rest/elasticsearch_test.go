package rest_test

import (
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

const exclusion = "cluster.routing.allocation.exclude._name"

// elasticsearch is as much of one as the policy in the docs speaks to.
type elasticsearch struct {
	mu       sync.Mutex
	status   string
	shards   map[string]int
	settings map[string]any
	puts     []string
	keys     []string // credentials that were shown
}

func (e *elasticsearch) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys = append(e.keys, r.Header.Get("Authorization"))
	switch {
	case r.Method == "GET" && r.URL.Path == "/_cluster/health":
		return answer(200, map[string]any{"status": e.status, "timed_out": false, "relocating_shards": 0, "unassigned_shards": 0}), nil
	case r.Method == "GET" && r.URL.Path == "/_cluster/settings" && r.URL.RawQuery == "flat_settings=true":
		return answer(200, map[string]any{"persistent": e.settings, "transient": map[string]any{}}), nil
	case r.Method == "PUT" && r.URL.Path == "/_cluster/settings":
		return e.put(r), nil
	case r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/_cat/allocation/") && r.URL.Query().Get("format") == "json":
		name := strings.TrimPrefix(r.URL.Path, "/_cat/allocation/")
		n, ok := e.shards[name]
		if !ok {
			return answer(200, []any{}), nil
		}
		return answer(200, []any{map[string]any{"node": name, "shards": strconv.Itoa(n)}}), nil
	}
	return answer(404, map[string]any{"error": "no handler found for uri [" + r.URL.String() + "]"}), nil
}

func (e *elasticsearch) put(r *nethttp.Request) *nethttp.Response {
	var body struct{ Persistent map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		return answer(400, map[string]any{"error": fmt.Sprint(err)})
	}
	value := body.Persistent[exclusion]
	e.puts = append(e.puts, fmt.Sprint(value))
	if value == nil {
		delete(e.settings, exclusion)
	} else {
		e.settings[exclusion] = value
	}
	return answer(200, map[string]any{"acknowledged": true})
}

// move moves one shard away from the node that is excluded.
func (e *elasticsearch) move() {
	e.mu.Lock()
	defer e.mu.Unlock()
	from, _ := e.settings[exclusion].(string)
	for to := range e.shards {
		if to != from && e.shards[from] > 0 {
			e.shards[from]--
			e.shards[to]++
			return
		}
	}
}

// documented is the policy in the docs.
func documented(t *testing.T) *v1alpha1.EvictionPolicySpec {
	t.Helper()
	page, err := os.ReadFile("../../../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "```yaml\n")
	text, _, end := strings.Cut(block, "```")
	if !ok || !end {
		t.Fatal("the page has no policy")
	}
	var policy v1alpha1.EvictionPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	return &policy.Spec
}

// desk judges pods of the documented policy.
type desk struct {
	policy *eviction.Policy
	system system.System
}

func newDesk(t *testing.T, server nethttp.RoundTripper) *desk {
	t.Helper()
	spec := documented(t)
	policy, problems := eviction.Compile(spec, nil, rest.Kind().Declaration(&spec.System))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s, err := rest.Open(&spec.System, system.Access{
		Endpoints: []string{"https://search:9200"}, Timeout: time.Minute, Transport: server,
		Secrets: map[v1alpha1.SecretKey][]byte{{Name: "search-usher", Key: "authorization"}: []byte("ApiKey abc\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{policy: policy, system: s}
}

func (d *desk) judge(t *testing.T, name string) (eviction.Verdict, *eviction.Evidence) {
	t.Helper()
	pod := &snapshot.Pod{
		Namespace: "search", Name: name, UID: "uid", Labels: map[string]string{"app": "search", "tier": "data"},
	}
	evidence, err := d.system.Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{Role: "elasticsearch-data", ID: name}, Pod: pod}})
	if err != nil {
		t.Fatal(err)
	}
	evidence.Observed = time.Unix(1000, 0)
	return eviction.Judge(eviction.Input{
		Now: evidence.Observed, Pod: pod, Evidence: evidence,
		Policies: []eviction.Declared{{
			Key: snapshot.Key{Namespace: "search", Name: "search"}, Policy: d.policy, Status: &v1alpha1.EvictionPolicyStatus{},
		}},
	}), evidence
}

func TestElasticsearchOfTheDocs(t *testing.T) {
	server := &elasticsearch{status: "green", shards: map[string]int{"es-0": 3, "es-1": 3}, settings: map[string]any{}}
	d := newDesk(t, server)
	v, evidence := d.judge(t, "es-0")
	if v.Answer != eviction.Blocked || len(v.Needed) != 1 || v.Needed[0].Name != "ExcludeShards" {
		t.Fatalf("at first: %+v", v)
	}
	if evidence.Summary != "status green, shards on the move: 0" {
		t.Errorf("summary %q", evidence.Summary)
	}
	for range 2 {
		if _, err := d.system.Prepare(t.Context(), v.Needed[0]); err != nil {
			t.Fatal(err)
		}
	}
	step := v.Needed[0]
	var counts []string
	for v, _ = d.judge(t, "es-0"); v.Answer == eviction.Blocked; v, _ = d.judge(t, "es-0") {
		counts = append(counts, v.Blockers[0].Message)
		server.move()
	}
	if diff := cmp.Diff([]string{"3 shards are still on es-0", "2 shards are still on es-0", "1 shards are still on es-0"}, counts); diff != "" || v.Answer != eviction.Allowed {
		t.Errorf("%s, then %s:\n%s", counts, v.Answer, diff)
	}
	if other, _ := d.judge(t, "es-1"); other.Answer != eviction.Blocked || len(other.Needed) != 0 {
		t.Errorf("es-1 takes the exclusion away from es-0: %+v", other)
	}
	if undone, err := d.system.Undo(t.Context(), step); !undone.Done || err != nil {
		t.Errorf("undo: %v, %v", undone, err)
	}
	if diff := cmp.Diff([]string{"es-0", "es-0", "<nil>"}, server.puts); diff != "" {
		t.Errorf("puts (-want +got):\n%s", diff)
	}
	if v, _ = d.judge(t, "es-0"); v.Answer != eviction.Blocked {
		t.Errorf("no longer excluded: %+v", v)
	}
	for _, key := range server.keys {
		if key != "ApiKey abc" {
			t.Fatalf("authorization %q", key)
		}
	}
}

func TestElasticsearchRed(t *testing.T) {
	d := newDesk(t, &elasticsearch{status: "red", shards: map[string]int{"es-0": 0}, settings: map[string]any{exclusion: "es-0"}})
	v, _ := d.judge(t, "es-0")
	if v.Answer != eviction.Blocked || len(v.Blockers) != 1 || v.Blockers[0].Reason != "ClusterRed" || len(v.Needed) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestElasticsearchUnknownNode(t *testing.T) {
	d := newDesk(t, &elasticsearch{status: "green", settings: map[string]any{exclusion: "es-9"}})
	v, _ := d.judge(t, "es-9")
	if v.Answer != eviction.Blocked {
		t.Errorf("%+v", v)
	}
}
