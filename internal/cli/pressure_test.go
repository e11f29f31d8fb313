package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/nodepressure/record"
)

const recordedSummary = "../nodepressure/summary/testdata/recorded.json"

func TestPressureBadUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no node", nil, "no node was named: give NODE, or a file with -f"},
		{"two nodes", []string{"a", "b"}, "name one node"},
		{"not a node", []string{"pod/a"}, `"pod/a" is not a node`},
		{"order", []string{"a", "--order=size"}, "--order=size is not known: it can be kubelet, qos"},
		{"scores", []string{"a", "--oom=4.20"}, "--oom=4.20 is not known: it can be 1.37, 3.11"},
		{"output", []string{"a", "-o", "yaml"}, "--output=yaml is not known: it can be table, json"},
		{"watch a file", []string{"-w", "-f", "x"}, "a file stays as it is"},
		{"supposition without a value", []string{"a", "--what-if", "memory.available"}, "give SIGNAL=QUANTITY"},
		{"unknown signal", []string{"a", "--what-if", "memory=1"}, `there is no signal "memory"; there are memory.available, `},
		{"no quantity", []string{"a", "--what-if", "memory.available=much"}, `"much" is no quantity`},
		{"beyond any machine", []string{"a", "--what-if", "memory.available=1e999999999"}, `"1e999999999" is no quantity`},
		{"negative", []string{"a", "--what-if", "memory.available=-1"}, `"-1" is no quantity`},
		{"share beyond all", []string{"a", "--what-if", "memory.available=101%"}, `"101%" is no share`},
		{"share of nothing known", []string{"a", "--what-if", "memory.available=NaN%"}, `"NaN%" is no share`},
		{"twice", []string{"a", "--what-if", "memory.available=1", "--what-if", "memory.available=2"}, "is supposed twice"},
		{"no cluster", []string{"a"}, "no cluster is configured"},
		{"missing file", []string{"-f", "/does/not/exist"}, "reading the file: open /does/not/exist"},
		{"another node's file", []string{"b", "-f", recordedSummary}, `is about node "worker-1", not about b`},
		{"more than there is", []string{"-f", recordedSummary, "--what-if", "memory.available=100Gi"}, "node worker-1 has 23.5Gi in all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := usher(t, "", append([]string{"pressure"}, tt.args...)...)
			if got.code != exitUsage || got.out != "" || !strings.Contains(got.err, tt.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want 1, nothing and %q", got.code, got.out, got.err, tt.want)
			}
		})
	}
}

func TestPressureOfTextsThatAreNeitherSummaryNorRecord(t *testing.T) {
	tests := map[string]string{
		"":               "standard input: the summary is empty",
		`{"node":{"no`:   "standard input: the summary breaks off after 12 bytes",
		`{"record":1,"n`: "standard input: the record breaks off after 14 bytes",
		`{"record":3}`:   "standard input: the record is of version 3",
		`{"kind":"Pod"}`: "standard input: this is no summary of a kubelet, but an object of kind Pod",
	}
	for text, want := range tests {
		got := usher(t, text, "pressure", "-f", "-")
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%q: exit %d, %q; want 1 and %q", text, got.code, got.err, want)
		}
	}
}

func TestPressureOfSummary(t *testing.T) {
	got := usher(t, "", "pressure", "worker-1", "-f", recordedSummary, "--what-if", "memory.available=80Mi")
	if got.code != exitDone {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	for _, want := range []string{
		"Supposed: memory.available of node worker-1 is 80Mi, 20Mi below its hard threshold of 100Mi: shop/cache-0 goes now (order kubelet)",
		"raise MemoryPressure",
		"shop/cache-0 unknown",
		"a summary says nothing of requests",
		"the thresholds are the defaults of Kubernetes 1.37",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "OOM") {
		t.Errorf("scores without requests:\n%s", got.out)
	}
}

// What -o json prints can be read with -f, and says the same again.
func TestPressureReadsWhatItWrote(t *testing.T) {
	once := usher(t, "", "pressure", "-f", recordedSummary, "--order=qos", "-o", "json")
	twice := usher(t, once.out, "pressure", "-f", "-", "-o", "json")
	if diff := cmp.Diff(once.out, twice.out); once.code != exitDone || diff != "" {
		t.Errorf("exit %d %s, -once +twice:\n%s", once.code, once.err, diff)
	}
	if !record.Is([]byte(once.out)) || !strings.Contains(once.out, `"order": "qos"`) {
		t.Errorf("no record of order qos:\n%s", once.out)
	}
	supposed := usher(t, once.out, "pressure", "-f", "-", "-o", "json", "--what-if", "memory.available=1%")
	var got struct {
		Supposed map[string]int64
		Victim   struct {
			Name         string
			GraceSeconds float64
		}
		Conditions []string
		Node       struct {
			Readings map[string]struct{ Available int64 }
		}
	}
	if err := json.Unmarshal([]byte(supposed.out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Supposed["memory.available"] != 252765102 || got.Node.Readings["memory.available"].Available != 17671409664 {
		t.Errorf("supposed %v; the record has %v, want it as it was measured", got.Supposed, got.Node.Readings["memory.available"])
	}
	if got.Victim.Name != "" || len(got.Conditions) != 0 {
		t.Errorf("1%% is 241Mi, above the threshold, and yet: %+v", got)
	}
}

// node serves what usher pressure reads of worker-1: a pod without requests and one with.
func node(t *testing.T, handle func(path string) (code int, body string)) string {
	t.Helper()
	summary, err := os.ReadFile(recordedSummary)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"/api/v1/nodes":          `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"worker-1"}}]}`,
		"/api/v1/nodes/worker-1": `{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1"},"status":{"capacity":{"memory":"24683848Ki"}}}`,
		"/api/v1/pods": `{"kind":"PodList","apiVersion":"v1","items":[
			{"metadata":{"namespace":"shop","name":"cache-0","uid":"u-cache-0"},"spec":{"containers":[{"name":"workload"}]}},
			{"metadata":{"namespace":"shop","name":"files-0","uid":"u-files-0","labels":{"usher.sh/policy":"files"}},"spec":{"containers":[
				{"name":"workload","resources":{"requests":{"memory":"1Mi"}}}]}}]}`,
		"/api/v1/nodes/worker-1/proxy/stats/summary": string(summary),
		"/api/v1/nodes/worker-1/proxy/configz":       `{"kubeletconfig":{"evictionHard":{"memory.available":"200Mi"}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code, body := handle(r.URL.Path); code != 0 {
			w.WriteHeader(code)
			w.Write([]byte(body)) //nolint:errcheck // the test sees what is missing
			return
		}
		body, known := answers[r.URL.Path]
		if !known || r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusNotFound)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"not found"}`
		}
		w.Write([]byte(body)) //nolint:errcheck // as above
	}))
	t.Cleanup(server.Close)
	return "--server=" + server.URL
}

func asUsual(string) (code int, body string) { return 0, "" }

func TestPressureOfNode(t *testing.T) {
	got := usher(t, "", "pressure", "node/worker-1", node(t, asUsual), "--what-if", "memory.available=150Mi", "--order=qos")
	if got.code != exitDone {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	for _, want := range []string{
		"150Mi, 50Mi below its hard threshold of 200Mi: shop/cache-0 goes now (order qos), with 1s to shut down, because it is BestEffort, shop/files-0 is Burstable.",
		" * shop/files-0 Burstable ",
		"The kernel's OOM killer",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	const by = "by the scores of OpenShift 3.11"
	if old := usher(t, "", "pressure", "worker-1", node(t, asUsual), "--oom=3.11"); !strings.Contains(old.out, by) || strings.Contains(got.out, by) {
		t.Errorf("with --oom=3.11:\n%s\nwithout:\n%s", old.out, got.out)
	}
	if strings.Contains(got.out, "To know") {
		t.Errorf("all is known, and yet:\n%s", got.out)
	}
}

func TestPressureOfNodeThatIsNotThere(t *testing.T) {
	for name, want := range map[string]string{
		"worker-2": `the cluster has no node "worker-2"; did you mean worker-1?`,
		"db":       `the cluster has no node "db" (it has 1 nodes)`,
	} {
		got := usher(t, "", "pressure", name, node(t, asUsual))
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("exit %d, %q; want 1 and %q", got.code, got.err, want)
		}
	}
}

func TestPressureWithoutTheKubeletsConfiguration(t *testing.T) {
	server := node(t, func(path string) (int, string) {
		if strings.HasSuffix(path, "/configz") {
			return http.StatusForbidden, "Forbidden"
		}
		return 0, ""
	})
	got := usher(t, "", "pressure", "worker-1", server)
	if got.code != exitDone || !strings.Contains(got.out, "the thresholds are the defaults of Kubernetes 1.37") || !strings.Contains(got.out, "hard 100Mi") {
		t.Errorf("exit %d, %s\n%s", got.code, got.err, got.out)
	}
	asked := usher(t, "", "pressure", "worker-1", server, "-o", "json")
	if !strings.Contains(asked.out, `"configFrom": "defaults"`) {
		t.Errorf("the JSON does not say where the configuration is from:\n%s", asked.out)
	}
}

// stopping is a writer that interrupts once something was written.
type stopping struct {
	bytes.Buffer

	stop context.CancelFunc
}

func (s *stopping) Write(text []byte) (int, error) {
	defer s.stop()
	return s.Buffer.Write(text)
}

func TestPressureWatchEndsCleanly(t *testing.T) {
	tests := map[string]string{
		"table": "  memory.available of node worker-1 is 16.5Gi, 16.3Gi above its hard threshold of 200Mi",
		"json":  `{"record":1,`,
	}
	for output, want := range tests {
		t.Setenv("KUBECONFIG", t.TempDir()+"/none")
		ctx, cancel := context.WithCancel(t.Context())
		out := &stopping{stop: cancel}
		root := newCommand("usher", genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &bytes.Buffer{}})
		root.SetArgs([]string{"pressure", "worker-1", "-w", "-o", output, node(t, asUsual)})
		err := root.ExecuteContext(ctx)
		if text := out.String(); err != nil || !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %v, want no error and one line with %q:\n%s", output, err, want, text)
		}
	}
}

func TestPressureWatchEndsCleanlyInTheMiddleOfALook(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	ctx, cancel := context.WithCancel(t.Context())
	server := node(t, func(path string) (int, string) {
		if strings.HasSuffix(path, "/summary") {
			cancel()
		}
		return 0, ""
	})
	root := newCommand("usher", genericiooptions.NewTestIOStreamsDiscard())
	root.SetArgs([]string{"pressure", "worker-1", "-w", server})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("%v, want no error", err)
	}
}

func TestPressureWatchSaysThatItKnowsAgain(t *testing.T) {
	var out, errOut bytes.Buffer
	o := &pressureOptions{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}
	seen, err := understand([]byte(smallRecord))
	if err != nil {
		t.Fatal(err)
	}
	page, err := o.page(seen)
	if err != nil {
		t.Fatal(err)
	}
	view := newPressureView(o)
	for range 2 {
		if err := errors.Join(view.show(page), view.show(page)); err != nil {
			t.Fatal(err)
		}
		view.trouble(seen.At, errors.New("no answer"))
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d lines, want one before the trouble and one after:\n%s", got, out.String())
	}
	if got, want := errOut.String(), "2026-11-21T09:00:00Z  no answer; asking again\n"; got != want+want {
		t.Errorf("of the trouble it says %q", got)
	}
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestPressureThatCannotBeWrittenFails(t *testing.T) {
	for _, output := range []string{"table", "json"} {
		root := newCommand("usher", genericiooptions.IOStreams{In: strings.NewReader(smallRecord), Out: full{}, ErrOut: &bytes.Buffer{}})
		root.SetArgs([]string{"pressure", "-f", "-", "-o", output})
		if err := root.ExecuteContext(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v, want that there is no space", output, err)
		}
	}
}

func TestPressureWatchOfNothing(t *testing.T) {
	got := usher(t, "", "pressure", "worker-2", "-w", node(t, asUsual))
	if got.code != exitUsage || !strings.Contains(got.err, "did you mean worker-1?") {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
}

func TestPressureDocumentNamesEveryRuleAndSource(t *testing.T) {
	text, output := document(t, "pressure.md"), document(t, "output.md")
	for _, rule := range constants(t, "../nodepressure/rank_keys.go") {
		if !strings.Contains(text, "| `"+rule+"` |") {
			t.Errorf("pressure.md does not name the rule %s", rule)
		}
	}
	for _, source := range []record.Source{record.FromKubelet, record.FromAgent, record.FromDefaults} {
		if !strings.Contains(output, "`"+string(source)+"`") {
			t.Errorf("output.md does not name the source %s", source)
		}
	}
}
