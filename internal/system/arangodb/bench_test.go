package arangodb

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/arangosim"
)

// maxAge is how old evidence may be.
const maxAge = 10 * time.Second

const testSecret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefBEYOND"

// bench is a simulated deployment with a policy over it.
type bench struct {
	t      *testing.T
	sim    *arangosim.Cluster
	sys    system.System
	policy *eviction.Policy
	now    time.Time
	jobs   map[string]eviction.Job // of the clean-outs, by member, as a policy's status keeps them
}

func newBench(t *testing.T, sim *arangosim.Cluster, change ...func(*v1alpha1.ArangoDB, *system.Access)) *bench {
	t.Helper()
	b := &bench{t: t, sim: sim, now: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), jobs: map[string]eviction.Job{}}
	key := v1alpha1.SecretKey{Name: "jwt", Key: "token"}
	own := &v1alpha1.ArangoDB{JWT: &key}
	access := system.Access{Timeout: time.Minute, Transport: sim.Transport(), Secrets: map[v1alpha1.SecretKey][]byte{key: []byte(testSecret + "\n")}}
	for _, id := range sim.Members() {
		switch id[:4] {
		case "AGNT":
			own.Agents = append(own.Agents, sim.Address(id))
		case "CRDN", "SNGL":
			access.Endpoints = append(access.Endpoints, sim.Address(id))
		}
	}
	for _, c := range change {
		c(own, &access)
	}
	sys, err := Open(&v1alpha1.System{ArangoDB: own}, access)
	if err != nil {
		t.Fatal(err)
	}
	if b.policy, err = compiled(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sys.Close)
	b.sys = sys
	b.forget()
	return b
}

// compiled is a policy with all roles, those of the page included.
var compiled = sync.OnceValues(func() (*eviction.Policy, error) {
	builtIn, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		return nil, err
	}
	own, err := readPolicy()
	if err != nil {
		return nil, err
	}
	spec := v1alpha1.EvictionPolicySpec{
		System:   v1alpha1.System{ArangoDB: &v1alpha1.ArangoDB{}},
		Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: maxAge}},
		Roles:    own.Spec.Roles,
	}
	for _, role := range slices.Concat(builtIn, spec.Roles) {
		spec.Members = append(spec.Members, v1alpha1.MemberSelector{
			Role: role.Name, ID: "pod.labels.member", OwnerDeletes: v1alpha1.DeleteAllow,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": strings.TrimPrefix(role.Name, "arangodb-")}},
		})
	}
	policy, problems := eviction.Compile(&spec, builtIn, Kind().Declaration(&spec.System))
	if len(problems) > 0 {
		return nil, fmt.Errorf("the roles have problems: %v", problems)
	}
	return policy, nil
})

func (b *bench) evidence(ids ...string) *eviction.Evidence {
	b.t.Helper()
	var members []system.Member
	for _, id := range ids {
		members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{ID: id}})
	}
	found, err := b.sys.Observe(b.t.Context(), members)
	if err != nil {
		return &eviction.Evidence{Observed: b.now, Error: err.Error()}
	}
	found.Observed = b.now
	return found
}

// input is a member that is judged by this evidence.
func (b *bench) input(role, id string, evidence *eviction.Evidence) eviction.Input {
	pod := &snapshot.Pod{
		Namespace: "db", Name: "pod-" + id, UID: types.UID("uid-" + id), Node: "n1", Labels: map[string]string{"role": role, "member": id},
	}
	return eviction.Input{
		Now: b.now, Pod: pod, Evidence: evidence,
		Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "db", Name: "p"}, Policy: b.policy, Held: true}},
	}
}

func (b *bench) evict(role, id string) eviction.Verdict {
	b.t.Helper()
	return eviction.Judge(b.input(role, id, b.evidence(id)))
}

func (b *bench) replace(role, id string) eviction.Verdict {
	b.t.Helper()
	return eviction.JudgeReplace(b.input(role, id, b.evidence(id)))
}

func (b *bench) step(name, id string) eviction.Preparation {
	step := eviction.Preparation{Name: name, Member: v1alpha1.MemberRef{ID: id}}
	if name == CleanOut {
		step.Job = b.jobs[id]
	}
	return step
}

// prepare asks for a step and returns the id of its job.
func (b *bench) prepare(name, id string) error {
	job, err := b.sys.Prepare(b.t.Context(), b.step(name, id))
	if err == nil && name == CleanOut && job.ID != "" {
		b.jobs[id] = job
	}
	return err
}

// forget makes what the system remembers that of a process that has just begun.
func (b *bench) forget() {
	if d, ok := b.sys.(*deployment); ok {
		d.leadership = newReign(func() time.Time { return b.now })
	}
}

// pass lets seconds pass, for the deployment and for Usher.
func (b *bench) pass(seconds int) {
	b.now = b.now.Add(time.Duration(seconds) * time.Second)
	b.ticks(seconds)
}

func (b *bench) ticks(n int) {
	for range n {
		b.sim.Tick()
	}
}

// reasons are those of the blockers, sorted.
func reasons(v eviction.Verdict) []string {
	all := []string{}
	for _, blocker := range v.Blockers {
		all = append(all, blocker.Reason)
	}
	slices.Sort(all)
	return all
}

// cluster is three agents, as many dbservers as asked for, and two coordinators.
func cluster(dbservers int) *arangosim.Cluster {
	return arangosim.New(arangosim.Config{Agents: 3, DBServers: dbservers, Coordinators: 2, Secret: testSecret})
}

const (
	prmrA, prmrB, prmrC = "PRMR-a", "PRMR-b", "PRMR-c"
	agntA, agntB, agntC = "AGNT-a", "AGNT-b", "AGNT-c"
)
