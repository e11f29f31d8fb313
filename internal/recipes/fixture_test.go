package recipes_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	nethttp "net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/recipes"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/all"
)

// text returns a recipe.
func text(t *testing.T, name string) string {
	t.Helper()
	known, err := recipes.All()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(known, func(r recipes.Recipe) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("there is no recipe %s", name)
	}
	return known[at].Text
}

// recipe returns the policy of a recipe.
func recipe(t *testing.T, name string) *v1alpha1.EvictionPolicy {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	if err := yaml.UnmarshalStrict([]byte(text(t, name)), &policy); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &policy
}

// compiled compiles a policy as admission does.
func compiled(t *testing.T, policy *v1alpha1.EvictionPolicy) (*eviction.Policy, system.Kind) {
	t.Helper()
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	kind, ok := all.Kind(&policy.Spec.System)
	if !ok {
		t.Fatalf("%s has no system", policy.Name)
	}
	judging, problems := eviction.Compile(&policy.Spec, roles, kind.Declaration(&policy.Spec.System))
	for _, p := range problems {
		t.Errorf("%s: %s: %s", policy.Name, p.Path, p.Message)
	}
	return judging, kind
}

// desk judges members of a recipe by what its system answers.
type desk struct {
	policy  *v1alpha1.EvictionPolicy
	judging *eviction.Policy
	system  system.System
}

func newDesk(t *testing.T, name string, server nethttp.RoundTripper) *desk {
	t.Helper()
	policy := recipe(t, name)
	judging, kind := compiled(t, policy)
	secrets := map[v1alpha1.SecretKey][]byte{}
	for _, key := range kind.ReferencesOf(&policy.Spec.System).Secrets {
		secrets[key] = []byte("ApiKey abc\n")
	}
	opened, err := kind.Open(&policy.Spec.System, system.Access{Endpoints: []string{"http://system"}, Timeout: time.Minute, Transport: server, Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return &desk{policy: policy, judging: judging, system: opened}
}

// pod is one that the first entry of the policy with this role selects, and that is Ready.
func (d *desk) pod(t *testing.T, role, name string) *snapshot.Pod {
	t.Helper()
	at := slices.IndexFunc(d.policy.Spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Role == role })
	if at < 0 {
		t.Fatalf("there is no role %s", role)
	}
	labels := maps.Clone(d.policy.Spec.Members[at].Selector.MatchLabels)
	labels["ceph-osd-id"] = name[strings.LastIndex(name, "-")+1:] // as Rook has it; other recipes do not look at it
	return &snapshot.Pod{
		Namespace: d.policy.Namespace, Name: name, UID: types.UID(name), IP: "ip-of-" + name, Labels: labels,
		Node: "node", Ready: true, Claims: []string{"data"},
	}
}

// question is what is asked of a verdict.
type question struct {
	role, pod string
	replace   bool     // the pod is gone; may another take its place?
	unready   []string // other pods of the role that are not Ready
}

var others = []string{"0", "1", "2"}

func (d *desk) judge(t *testing.T, q question) (eviction.Verdict, *eviction.Evidence) {
	t.Helper()
	pod := d.pod(t, q.role, q.pod)
	pod.Ready = !slices.Contains(q.unready, q.pod)
	claim, ok := d.judging.Claim(pod)
	if !ok || claim.Error != "" {
		t.Fatalf("%s is no member: %+v", q.pod, claim)
	}
	member := system.Member{MemberRef: claim.Ref(pod), Pod: pod}
	declared := eviction.Declared{
		Key: snapshot.Key{Namespace: d.policy.Namespace, Name: d.policy.Name}, Policy: d.judging, Status: &v1alpha1.EvictionPolicyStatus{},
	}
	var pods []*snapshot.Pod
	for _, ordinal := range others {
		other := d.pod(t, q.role, q.pod[:strings.LastIndex(q.pod, "-")+1]+ordinal)
		other.Ready = !slices.Contains(q.unready, other.Name)
		if other.Name != q.pod || !q.replace {
			pods = append(pods, other)
		}
	}
	asked := []system.Member{member}
	if q.replace {
		asked[0].Pod = nil
	}
	evidence, err := d.system.Observe(t.Context(), asked)
	if err != nil {
		evidence = &eviction.Evidence{Error: err.Error()}
	}
	evidence.Observed = time.Unix(1000, 0)
	in := eviction.Input{
		Now: evidence.Observed, Evidence: evidence, Policies: []eviction.Declared{declared},
		Rosters: map[snapshot.Key]*eviction.Roster{declared.Key: eviction.NewRoster(declared, pods)},
	}
	if !q.replace {
		in.Pod = pod
		return eviction.Judge(in), evidence
	}
	in.Absent = &eviction.Absent{Policy: declared.Key, Member: v1alpha1.MemberRef{Role: member.Role, ID: member.ID}}
	return eviction.JudgeReplacing(in, "request"), evidence
}

// recorded answers with what was written down: files of testdata, each an object of answers by what is asked for; the later ones count. A path is
// one below the endpoint.
type recorded struct {
	answers map[string]json.RawMessage
	asked   []string // and was not found
}

func newRecorded(t *testing.T, name string, files ...string) *recorded {
	t.Helper()
	r := &recorded{answers: map[string]json.RawMessage{}}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("testdata", name, file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r.answers); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return r
}

func (r *recorded) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	asked := strings.TrimPrefix(request.URL.String(), "http://system")
	body, known := r.answers[asked]
	if !known {
		r.asked = append(r.asked, asked)
	}
	switch {
	case !known:
		return answer(nethttp.StatusNotFound, `{"error": "not found"}`), nil
	case string(body) == "null":
		return nil, errors.New("connection refused")
	}
	return answer(nethttp.StatusOK, string(body)), nil
}

func answer(status int, text string) *nethttp.Response {
	return &nethttp.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: nethttp.Header{}}
}
