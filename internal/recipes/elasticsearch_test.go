package recipes_test

import (
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
)

const exclusion = "cluster.routing.allocation.exclude._name"

// elasticsearch is as much of one as its recipe speaks to.
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
		return said(map[string]any{"status": e.status, "timed_out": false, "relocating_shards": 0, "unassigned_shards": 0}), nil
	case r.Method == "GET" && r.URL.Path == "/_cluster/settings" && r.URL.RawQuery == "flat_settings=true":
		return said(map[string]any{"persistent": e.settings, "transient": map[string]any{}}), nil
	case r.Method == "GET" && r.URL.Path == "/_cluster/state/nodes,metadata":
		return said(map[string]any{
			"nodes":    map[string]any{"idA": map[string]any{"name": "es-0"}, "idB": map[string]any{"name": "es-1"}, "idC": map[string]any{"name": "es-2"}},
			"metadata": map[string]any{"cluster_coordination": map[string]any{"last_committed_config": []any{"idA", "idB", "idC"}}},
		}), nil
	case r.Method == "PUT" && r.URL.Path == "/_cluster/settings":
		return e.put(r), nil
	case r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/_cat/allocation/") && r.URL.Query().Get("format") == "json":
		name := strings.TrimPrefix(r.URL.Path, "/_cat/allocation/")
		n, ok := e.shards[name]
		if !ok {
			return said([]any{}), nil
		}
		return said([]any{map[string]any{"node": name, "shards": strconv.Itoa(n)}}), nil
	}
	return answer(nethttp.StatusNotFound, `{"error": "no handler found"}`), nil
}

func (e *elasticsearch) put(r *nethttp.Request) *nethttp.Response {
	var body struct{ Persistent map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		return answer(nethttp.StatusBadRequest, `{"error": "not understood"}`)
	}
	value := body.Persistent[exclusion]
	e.puts = append(e.puts, fmt.Sprint(value))
	if value == nil {
		delete(e.settings, exclusion)
	} else {
		e.settings[exclusion] = value
	}
	return said(map[string]any{"acknowledged": true})
}

func said(value any) *nethttp.Response {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a test's own value
	}
	return answer(nethttp.StatusOK, string(text))
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

// A data node is emptied, leaves, and takes shards again.
func TestElasticsearchEmptiesANode(t *testing.T) {
	server := &elasticsearch{status: "green", shards: map[string]int{"es-0": 3, "es-1": 3}, settings: map[string]any{}}
	d := newDesk(t, "elasticsearch", server)
	v, evidence := d.judge(t, question{role: "elasticsearch-data", pod: "es-0"})
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
	for v, _ = d.judge(t, question{role: "elasticsearch-data", pod: "es-0"}); v.Answer == eviction.Blocked; v, _ = d.judge(t, question{role: "elasticsearch-data", pod: "es-0"}) {
		counts = append(counts, v.Blockers[0].Message)
		server.move()
	}
	if diff := cmp.Diff([]string{"3 shards are still on es-0", "2 shards are still on es-0", "1 shards are still on es-0"}, counts); diff != "" || v.Answer != eviction.Allowed {
		t.Errorf("%s, then %s:\n%s", counts, v.Answer, diff)
	}
	if other, _ := d.judge(t, question{role: "elasticsearch-data", pod: "es-1"}); other.Answer != eviction.Blocked || len(other.Needed) != 0 {
		t.Errorf("es-1 takes the exclusion away from es-0: %+v", other)
	}
	if undone, err := d.system.Undo(t.Context(), step); !undone.Done || err != nil {
		t.Errorf("undo: %v, %v", undone, err)
	}
	if diff := cmp.Diff([]string{"es-0", "es-0", "<nil>"}, server.puts); diff != "" {
		t.Errorf("puts (-want +got):\n%s", diff)
	}
	if v, _ = d.judge(t, question{role: "elasticsearch-data", pod: "es-0"}); v.Answer != eviction.Blocked {
		t.Errorf("no longer excluded: %+v", v)
	}
	for _, key := range server.keys {
		if key != "ApiKey abc" {
			t.Fatalf("authorization %q", key)
		}
	}
}

func TestElasticsearchRed(t *testing.T) {
	d := newDesk(t, "elasticsearch", &elasticsearch{status: "red", shards: map[string]int{"es-0": 0}, settings: map[string]any{exclusion: "es-0"}})
	v, _ := d.judge(t, question{role: "elasticsearch-data", pod: "es-0"})
	if v.Answer != eviction.Blocked || len(v.Blockers) != 1 || v.Blockers[0].Reason != "ClusterRed" || len(v.Needed) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestElasticsearchUnknownNode(t *testing.T) {
	d := newDesk(t, "elasticsearch", &elasticsearch{status: "green", settings: map[string]any{exclusion: "es-9"}})
	v, _ := d.judge(t, question{role: "elasticsearch-data", pod: "es-9"})
	if v.Answer != eviction.Blocked {
		t.Errorf("%+v", v)
	}
}
