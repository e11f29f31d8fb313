//go:build !race

package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/test/arangosim"
)

// TestScenarios plays the files in testdata: governed evictions that a person can read. A command makes a system and its policy
// (`etcd members=3`, `arangodb agents=3 dbservers=3`, `store keepers=3 routers=2`), and Usher with `replicas=` (1). Each line under it
// has a time, and who does what then. What is printed is what of that can be seen: answers of the apiserver, calls that change the
// system, pods that go and come, and what waits after `for=` (1m); with `ledger=1` also what is written of who leaves and what is prepared.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("looking for scenarios: %v, %d found", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) (output string) {
				t.Helper()
				synctest.Test(t, func(t *testing.T) { output = playScenario(t, d) })
				return output
			})
		})
	}
}

// scenario is a world in which nothing is left to chance.
type scenario struct {
	*world
	t        *testing.T
	d        *datadriven.TestData
	requests map[string][]*api.EvictionRequest // by whose they are
	cancels  map[string]context.CancelFunc     // of drains, by name
}

func playScenario(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	time.Sleep(time.Until(epoch))
	ctx, cancel := context.WithCancel(context.Background())
	s := &scenario{world: newWorld(ctx, 1), t: t, d: d, requests: map[string][]*api.EvictionRequest{}, cancels: map[string]context.CancelFunc{}}
	s.calm, s.odds.delivery, s.odds.linger = true, 1, s.number("linger", 0)
	s.site = s.newSite()
	if err := s.populate(); err != nil {
		t.Fatal(err)
	}
	if err := s.deploy(s.number("replicas", 1)); err != nil {
		t.Fatal(err)
	}
	s.until(10 * time.Second) // until evidence is there and all pods are labelled
	s.begun, s.trace = time.Now(), nil
	for line := range strings.Lines(d.Input) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.until(s.duration(at))
		s.note("-- %s", strings.TrimSpace(what))
		s.do(strings.Fields(what))
	}
	s.until(s.argument("for", "1m"))
	s.summarize()
	output := readable(s.trace, s.number("ledger", 0) == 1)
	s.close(cancel)
	return output
}

func (s *scenario) newSite() site {
	switch s.d.Cmd {
	case "etcd":
		return etcdOf(s.world, s.number("members", 3))
	case "arangodb":
		a := deploymentOf(s.world, arangosim.Config{Agents: s.number("agents", 3), DBServers: s.number("dbservers", 3), Coordinators: 2})
		a.collection("orders", 2, []string{arangosim.ID("PRMR", 0), arangosim.ID("PRMR", 1)}, []string{arangosim.ID("PRMR", 1), arangosim.ID("PRMR", 0)})
		return a
	case "store":
		store := storeOf(s.world, s.number("keepers", 3), s.number("routers", 2))
		store.floor = true
		return store
	}
	s.t.Fatalf("%s: no system is called %q", s.d.Pos, s.d.Cmd)
	return nil
}

func (s *scenario) number(name string, otherwise int) int {
	text := strconv.Itoa(otherwise)
	s.d.MaybeScanArgs(s.t, name, &text)
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %s: %v", s.d.Pos, name, err)
	}
	return n
}

func (s *scenario) argument(name, otherwise string) time.Duration {
	s.d.MaybeScanArgs(s.t, name, &otherwise)
	return s.duration(otherwise)
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%s: reading a duration: %v", s.d.Pos, err)
	}
	return d
}

// until lets everything happen up to a time of the scenario.
func (s *scenario) until(at time.Duration) {
	for left := time.Until(s.begun.Add(at)); left > 0; left = time.Until(s.begun.Add(at)) {
		s.settle(min(left, time.Second))
	}
}

// do carries out a line: `alice drains etcd-0`.
func (s *scenario) do(words []string) {
	if len(words) < 2 {
		s.t.Fatalf("%s: who does what: %q", s.d.Pos, words)
	}
	who, what, of := words[0], words[1], strings.Join(words[2:], " ")
	switch who + " " + what {
	case "machine crashes":
		s.site.stop(of)
		s.crashed[of] = true
		s.probe(of)
	case "machine repairs":
		s.repair()
	case "machine kills":
		s.end(s.onlyLeader())
	case "machine restarts":
		s.restart()
	case "budget allows":
		s.tight = of == "none"
	case "owner breaks-glass":
		s.annotate(of)
	case "owner suspends":
		s.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Suspend = true })
	case "owner resumes":
		s.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Suspend = false })
	case "owner deletes-policy":
		s.deletePolicy(firstPolicy)
	case "owner audits":
		s.reform(func(r *regime) { r.audited = true })
	default:
		s.act(who, what, of)
	}
}

// act is what a client does with a pod.
func (s *scenario) act(who, what, pod string) {
	r := removal{user: who, of: who, pod: pod}
	switch what {
	case "drains":
		ctx, cancel := context.WithCancel(s.ctx)
		s.cancels[who] = cancel
		s.spawn(func() { s.repeat(ctx, r) })
	case "stops":
		s.cancels[who]()
	case "evicts":
		s.spawn(func() { s.send(s.ctx, r) })
	case "deletes":
		r.delete = true
		s.spawn(func() { s.send(s.ctx, r) })
	case "rolls":
		r.user, r.delete = "system:serviceaccount:kube-system:statefulset-controller", true
		s.spawn(func() { s.repeat(s.ctx, r) })
	case "requests":
		request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: namespace, Name: pod, UID: s.uid(pod)}, who+".example.com/drain")
		if err := s.store.create(request); err != nil {
			s.t.Fatal(err)
		}
		s.requests[who] = append(s.requests[who], request)
	case "withdraws":
		for _, request := range s.requests[who] {
			if object := s.store.get(requests, keyOf(request)); object != nil {
				s.store.remove(object)
			}
		}
	default:
		s.t.Fatalf("%s: nothing is called %q", s.d.Pos, what)
	}
}

func (s *scenario) uid(name string) types.UID {
	pod := s.store.pod(name)
	if pod == nil {
		s.t.Fatalf("%s: there is no pod %s", s.d.Pos, name)
	}
	return pod.UID
}

// send sends a removal once, and reports whether it is to be sent again.
func (s *scenario) send(ctx context.Context, r removal) bool {
	err := s.remove(ctx, &r)
	switch {
	case err == nil:
		s.note("apiserver: %s: accepted", &r)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		s.note("apiserver: %s: %v", &r, err)
		return false
	}
	return err != nil
}

// repeat sends a removal of this very pod every five seconds until it is accepted, as kubectl does with evictions.
func (s *scenario) repeat(ctx context.Context, r removal) {
	r.uid = s.uid(r.pod)
	for s.send(ctx, r) && ctx.Err() == nil {
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
}

func (s *scenario) annotate(name string) {
	pod := duplicate(s.store.pod(name))
	pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "the disk is on fire"}
	s.store.put(pod)
}

// summarize notes what waits, and what is still in force.
func (s *scenario) summarize() {
	for _, e := range list[*api.Eviction](s.store, evictions) {
		entry := evictionrequest.Entry(e, evictionrequest.Responder)
		if ref, _ := evictionrequest.EvictionRef(e); !evictionrequest.Final(e) && entry != nil && entry.Message != nil {
			s.note("== eviction of %s: %s", ref.Name, *entry.Message)
		}
	}
	for _, policy := range list[*v1alpha1.EvictionPolicy](s.store, policies) {
		for i := range policy.Status.Leaving {
			s.note("== %s may go", policy.Status.Leaving[i].PodName)
		}
		for i := range policy.Status.Preparations {
			s.note("== %s of %s is %s", policy.Status.Preparations[i].Name, policy.Status.Preparations[i].PodName, policy.Status.Preparations[i].State)
		}
	}
	for _, left := range s.site.leftovers() {
		s.note("== system: %s", left)
	}
}

// shownLines are the lines of a trace that a reader is shown, by what they become.
var shownLines = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`^(--|==|FAILED|kubelet:|statefulset:|machine:|system:) `), "$0"},
	{regexp.MustCompile(`^apiserver: (.*): admission webhook "leave.usher.sh" denied the request: (.*)$`), "apiserver: $1: refused: $2"},
	{regexp.MustCompile(`^apiserver: (.*)$`), "apiserver: $1"},
	{regexp.MustCompile(`^(.*) takes (\S+) away; truth: (.*); excuse: none$`), "apiserver: $2 terminates: $3"},
	{regexp.MustCompile(`^(.*) takes (\S+) away; truth: (.*); excuse: (.*)$`), "apiserver: $2 terminates: $3 ($4)"},
	{regexp.MustCompile(`^\S+ says: (.*)$`), "event: $1"},
	{regexp.MustCompile(`^\S+ .*?(etcd move-leader \S+ \S+ http.*)$`), "usher: $1"},
	{regexp.MustCompile(`^\S+ (PUT|DELETE) (.*)$`), "usher: $1 $2"},
	{regexp.MustCompile(`^\S+ (POST) (\S+/_admin/\S+ .*)$`), "usher: $1 $2"},
	{regexp.MustCompile(`^\S+ (is killed|starts|leads)$`), "usher: $0"},
}

var accounts = strings.NewReplacer(self, "usher", "system:serviceaccount:kube-system:", "")

var uids = regexp.MustCompile(` \(u\d+\)`)

// readable is the part of a trace that can be seen from outside, without what repeats itself.
func readable(trace []string, ledger bool) string {
	var b strings.Builder
	last := map[string]string{}
	for _, line := range trace {
		at, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		at = fmt.Sprintf("%5ss", at[:strings.Index(at, ".")])
		if written, ok := strings.CutPrefix(text, "  wrote "); ok && ledger {
			b.WriteString(ledgerLine(at, written))
			continue
		}
		text = uids.ReplaceAllString(accounts.Replace(text), "")
		for _, s := range shownLines {
			if !s.pattern.MatchString(text) {
				continue
			}
			text = s.pattern.ReplaceAllString(text, strings.ReplaceAll(s.shown, "$0", "${0}"))
			if who, what, refused := strings.Cut(text, ": refused: "); refused && last[who] == what {
				break
			} else if refused {
				last[who] = what
			}
			b.WriteString(strings.TrimRight(at+"  "+text, " ") + "\n")
			break
		}
	}
	return b.String()
}

// ledgerLine is what a write of a policy's status says of who leaves and what is prepared, "" where it says nothing of that.
func ledgerLine(at, body string) string {
	var written struct {
		Status struct {
			Epoch        *int64
			Leaving      []v1alpha1.Leaving
			Preparations []v1alpha1.PreparationStatus
		}
	}
	if err := json.Unmarshal([]byte(body), &written); err != nil || written.Status.Epoch == nil {
		return ""
	}
	said := []string{fmt.Sprintf("%s  status: epoch %d", at, *written.Status.Epoch)}
	for i := range written.Status.Leaving {
		said = append(said, written.Status.Leaving[i].PodName+" leaves")
	}
	for i := range written.Status.Preparations {
		step := &written.Status.Preparations[i]
		said = append(said, step.Name+" of "+step.PodName+" is "+string(step.State))
	}
	return strings.Join(said, ", ") + "\n"
}
