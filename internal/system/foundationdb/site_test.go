package foundationdb_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbreal"
	"usher.sh/usher/test/fdbsim"
)

// site is a cluster of processes p1, p2, …, simulated or real, and what may be done to it beside the system's back.
type site interface {
	cli() foundationdb.CLI
	clusterFile(t *testing.T) string
	now() time.Time
	kill(id string)
	start(id string)
	// address is that of the i-th process; "": there is none.
	address(i int) string
	// byHand runs a command of a person's, and reports whether fdbcli has not refused it.
	byHand(t *testing.T, command string) bool
	// pass lets a moment go by.
	pass(ctx context.Context)
}

type simulated struct{ *fdbsim.Cluster }

func (s simulated) cli() foundationdb.CLI         { return s.Cluster }
func (s simulated) clusterFile(*testing.T) string { return s.ClusterFile() }
func (s simulated) now() time.Time                { return s.Now() }
func (s simulated) kill(id string)                { s.Kill(id) }
func (s simulated) start(id string)               { s.Start(id) }
func (s simulated) pass(context.Context)          { s.Advance(time.Second) }

func (s simulated) address(i int) string {
	if p := s.Find("p" + string(rune('0'+i))); p != nil {
		return p.Address
	}
	return ""
}

func (s simulated) byHand(t *testing.T, command string) bool {
	t.Helper()
	out, err := s.Run(t.Context(), s.ClusterFile(), command)
	if err != nil {
		t.Fatal(err)
	}
	return out.Failed() == nil
}

type realSite struct{ *fdbreal.Cluster }

func (r realSite) cli() foundationdb.CLI { return foundationdb.Program(r.CLIPath()) }
func (r realSite) now() time.Time        { return time.Now() }
func (r realSite) kill(id string)        { r.Kill(id) }
func (r realSite) address(i int) string  { return r.Address(i) }
func (r realSite) start(id string) {
	i := int(id[1] - '0')
	r.Run(id, "z"+id[1:], i)
}

func (r realSite) pass(ctx context.Context) { fdbreal.Pause(ctx) }

func (r realSite) clusterFile(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(r.ClusterFilePath())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (r realSite) byHand(t *testing.T, command string) bool {
	t.Helper()
	out, err := r.FDBCLI(t.Context(), command)
	return err == nil && !strings.Contains(out, "ERROR")
}

// bench is a policy's view of a site: every process a member with a pod of its name.
type bench struct {
	t      *testing.T
	site   site
	system system.System
	policy *eviction.Policy
	roles  map[string]string // by member; foundationdb-storage where there is none
	ids    []string

	// maintained: they are of a MemberSet that makes their pods anew with their claims, under maintenance.
	maintained bool
	removed    string   // the id of a member that its set has removed
	emptied    string   // the id of one that its set empties
	joining    []string // the ids of members that their set has not seen do their work
	processes  int      // how many their set has each member run

	members []system.Member // as they were observed last
}

// waits are short: what they are for is tested by itself.
func waits(exclude, include, missing time.Duration) v1alpha1.FoundationDBWaits {
	return v1alpha1.FoundationDBWaits{
		ExcludeAfterRecovery: &metav1.Duration{Duration: exclude}, IncludeAfterRecovery: &metav1.Duration{Duration: include}, Missing: &metav1.Duration{Duration: missing},
	}
}

var fileKey = v1alpha1.ConfigMapKey{Name: "db-config", Key: "cluster-file"}

func newBench(t *testing.T, s site, n int, w v1alpha1.FoundationDBWaits) *bench {
	t.Helper()
	return newBenchOf(t, s, n, v1alpha1.FoundationDB{Waits: w})
}

func newBenchOf(t *testing.T, s site, n int, own v1alpha1.FoundationDB) *bench {
	t.Helper()
	own.ClusterFile, own.Version = v1alpha1.ClusterFile{ConfigMap: &fileKey}, cmp.Or(own.Version, "7.3.63")
	b := &bench{t: t, site: s, roles: map[string]string{}}
	for i := range n {
		b.ids = append(b.ids, "p"+string(rune('1'+i)))
	}
	var err error
	if b.policy, err = compiled(); err != nil {
		t.Fatal(err)
	}
	access := system.Access{Timeout: time.Minute, Loopback: true, ConfigMaps: map[v1alpha1.ConfigMapKey]string{fileKey: s.clusterFile(t)}}
	if b.system, err = foundationdb.Over(s.cli(), s.now, &v1alpha1.System{FoundationDB: &own}, access); err != nil {
		t.Fatal(err)
	}
	return b
}

// compiled is the policy, compiledOfSet that of a MemberSet.
var (
	compiled      = sync.OnceValues(func() (*eviction.Policy, error) { return compile(nil) })
	compiledOfSet = sync.OnceValues(func() (*eviction.Policy, error) {
		return compile(&v1alpha1.Provider{MemberSet: &v1alpha1.MemberSetProvider{Maintenance: v1alpha1.MaintenanceManaged}})
	})
)

func compile(provider *v1alpha1.Provider) (*eviction.Policy, error) {
	kind, spec := foundationdb.Kind(), &v1alpha1.EvictionPolicySpec{System: v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{}}}
	for _, role := range []string{"foundationdb-storage", "foundationdb-log", "foundationdb-stateless"} {
		spec.Members = append(spec.Members, v1alpha1.MemberSelector{
			Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}, Provider: provider,
		})
	}
	roles, err := eviction.ParseRoles(kind.Roles)
	if err != nil {
		return nil, err
	}
	policy, problems := eviction.Compile(spec, roles, kind.Declaration(&spec.System))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%v", problems)
	}
	return policy, nil
}

func (b *bench) role(id string) string {
	if role := b.roles[id]; role != "" {
		return role
	}
	return "foundationdb-storage"
}

func (b *bench) pod(id string) *snapshot.Pod {
	pod := &snapshot.Pod{Namespace: "db", Name: id, UID: "uid-of-pod", Labels: map[string]string{"role": b.role(id)}, EmptyDirs: []string{"data"}}
	if b.maintained {
		pod.EmptyDirs, pod.Claims, pod.Annotations = nil, []string{"data-" + id}, map[string]string{v1alpha1.OnEvictionAnnotation: v1alpha1.PodFollows}
	}
	return pod
}

func (b *bench) ref(id string) v1alpha1.MemberRef {
	return v1alpha1.MemberRef{Role: b.role(id), ID: id, PodName: id, PodUID: "uid-of-pod"}
}

func (b *bench) observe() *eviction.Evidence {
	b.t.Helper()
	var members []system.Member
	for _, id := range b.ids {
		members = append(members, system.Member{MemberRef: b.ref(id), Pod: b.pod(id), Removed: id == b.removed, Emptied: id == b.emptied, Joining: slices.Contains(b.joining, id), Processes: b.processes})
	}
	b.members = members
	evidence, err := b.system.Observe(b.t.Context(), members)
	if err != nil {
		evidence = &eviction.Evidence{Error: err.Error()}
	}
	evidence.Observed = b.site.now()
	return evidence
}

func (b *bench) input(evidence *eviction.Evidence, id string) eviction.Input {
	return eviction.Input{
		Now: b.site.now(), Pod: b.pod(id), Evidence: evidence,
		Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "db", Name: "fdb"}, Policy: b.policy, Status: &v1alpha1.EvictionPolicyStatus{}}},
	}
}

func (b *bench) evict(id string) eviction.Verdict {
	b.t.Helper()
	return eviction.Judge(b.input(b.observe(), id))
}

// prepare asks for a step as the responder does, which has evidence.
func (b *bench) prepare(id, name string, job eviction.Job) (eviction.Job, error) {
	b.t.Helper()
	if b.members == nil {
		b.observe()
	}
	_, _ = b.system.Observe(b.t.Context(), b.members)
	step := preparationOf(b, id, name)
	step.Job = job
	return b.system.Prepare(b.t.Context(), step)
}

func preparationOf(b *bench, id, name string) eviction.Preparation {
	return eviction.Preparation{Name: name, Namespace: "db", Member: b.ref(id)}
}

// pass has a simulated cluster looked at each half a minute while time passes.
func (b *bench) pass(sim *fdbsim.Cluster, d time.Duration) {
	b.t.Helper()
	const look = 30 * time.Second
	for ; d > look; d -= look {
		sim.Advance(look)
		_, _ = b.system.Observe(b.t.Context(), b.members)
	}
	sim.Advance(d)
}

func (b *bench) undo(id, name string, job eviction.Job) (eviction.Undone, error) {
	return b.system.Undo(b.t.Context(), eviction.Preparation{Name: name, Namespace: "db", Member: b.ref(id), Job: job})
}

// byHand has a person's command accepted.
func (b *bench) byHand(command string) {
	b.t.Helper()
	b.until("fdbcli accepts "+command, func() bool { return b.site.byHand(b.t, command) })
}

// patience is how long anything may take that a cluster does by itself.
const patience = 5 * time.Minute

// until lets time pass until something holds.
func (b *bench) until(what string, holds func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for end := b.site.now().Add(patience); !holds(); b.site.pass(ctx) {
		if ctx.Err() != nil || b.site.now().After(end) {
			b.t.Fatalf("in %s it was not so: %s; the last verdicts: %s", patience, what, b.verdicts())
		}
	}
}

func (b *bench) verdicts() (all []string) {
	evidence := b.observe()
	all = append(all, evidence.Summary+evidence.Error)
	for _, id := range b.ids {
		for _, blocker := range eviction.Judge(b.input(evidence, id)).Blockers {
			all = append(all, id+": "+blocker.Reason+": "+blocker.Message+" / "+blocker.Remedy)
		}
	}
	return all
}

func reasons(v eviction.Verdict) []string {
	var all []string
	for _, b := range v.Blockers {
		all = append(all, b.Reason)
	}
	return all
}

func needs(v eviction.Verdict, step string) bool {
	return slices.ContainsFunc(v.Needed, func(p eviction.Preparation) bool { return p.Name == step })
}
