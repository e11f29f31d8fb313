package openstack_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/openstacksim"
)

var cloudsKey = v1alpha1.SecretKey{Name: "keystone", Key: "clouds.yaml"}

// bench is a policy's view of a site: its three hosts are members, with pods of their names.
type bench struct {
	t      *testing.T
	site   site
	system system.System
	policy *eviction.Policy
	job    eviction.Job // of the step that was begun
	role   string
}

func newBench(t *testing.T, s site, own v1alpha1.OpenStack) *bench {
	t.Helper()
	own.Clouds = cloudsKey
	policy, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := open(s, own, s.clouds())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return &bench{t: t, site: s, system: opened, policy: policy, role: "nova-compute"}
}

// simulatedBench is a bench at a simulated region.
func simulatedBench(t *testing.T, cloud *openstacksim.Cloud) *bench {
	t.Helper()
	return newBench(t, simulated{cloud}, v1alpha1.OpenStack{})
}

func open(s site, own v1alpha1.OpenStack, file []byte) (system.System, error) {
	access := system.Access{
		Namespace: "cloud", Name: "usher", Timeout: time.Minute, Loopback: true, Transport: s.transport(), Secrets: map[v1alpha1.SecretKey][]byte{cloudsKey: file},
	}
	return openstack.OpenAt(&v1alpha1.System{OpenStack: &own}, access, s.now)
}

var compiled = sync.OnceValues(func() (*eviction.Policy, error) {
	kind := openstack.Kind()
	spec := &v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{OpenStack: &v1alpha1.OpenStack{}},
	}
	for _, role := range slices.Sorted(maps.Keys(steps)) {
		spec.Members = append(spec.Members, v1alpha1.MemberSelector{
			Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": role}}, Leaves: v1alpha1.LeavesLoad,
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
})

// steps are those of the roles; "": it has none.
var steps = map[string]string{
	"nova-compute": openstack.MoveServers, "neutron-l3-agent": openstack.MoveRouters, "neutron-dhcp-agent": openstack.MoveNetworks,
	"neutron-bgp-agent": openstack.MoveSpeakers, "neutron-l2-agent": "", "ovn-agent": "", "ovn-bgp-agent": "",
}

func (b *bench) pod(host string) *snapshot.Pod {
	return &snapshot.Pod{Namespace: "cloud", Name: host, UID: types.UID("uid-" + host), Node: "node-of-" + host, Labels: map[string]string{"app": b.role}}
}

func (b *bench) ref(host string) v1alpha1.MemberRef {
	return v1alpha1.MemberRef{Role: b.role, ID: host, PodName: host, PodUID: types.UID("uid-" + host)}
}

func (b *bench) observe(hosts ...string) (*eviction.Evidence, error) {
	b.t.Helper()
	var members []system.Member
	for _, host := range hosts {
		members = append(members, system.Member{MemberRef: b.ref(host), Pod: b.pod(host)})
	}
	evidence, err := b.system.Observe(b.t.Context(), members)
	if err == nil {
		evidence.Observed = b.site.now()
	}
	return evidence, err
}

// judge is the verdict on emptying a host: its pod stays.
func (b *bench) judge(host string) eviction.Verdict {
	b.t.Helper()
	evidence, err := b.observe("compute-1", "compute-2", "compute-3", host)
	if err != nil {
		evidence = &eviction.Evidence{Error: err.Error(), Observed: b.site.now()}
	}
	return eviction.Judge(eviction.Input{
		Now: b.site.now(), Pod: b.pod(host), Evidence: evidence,
		Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "cloud", Name: "nova"}, Policy: b.policy, Status: &v1alpha1.EvictionPolicyStatus{}}},
	})
}

func (b *bench) step(host string) eviction.Preparation {
	return eviction.Preparation{Name: steps[b.role], Namespace: "cloud", Member: b.ref(host), Job: b.job}
}

// prepare asks for the step as the responder does, which brings back the job that it was given.
func (b *bench) prepare(host string) error {
	b.t.Helper()
	job, err := b.system.Prepare(b.t.Context(), b.step(host))
	if err == nil && job.ID != "" {
		b.job = job
	}
	return err
}

// turn is what the responder does every ten seconds: it judges, and asks for the step while that is needed.
func (b *bench) turn(host string) eviction.Verdict {
	b.t.Helper()
	v := b.judge(host)
	if needs(v) {
		if err := b.prepare(host); err != nil {
			b.t.Fatal(err)
		}
	}
	return v
}

func (b *bench) undo(host string) (eviction.Undone, error) {
	return b.system.Undo(b.t.Context(), b.step(host))
}

// patience is how long anything may take.
const patience = 3 * time.Minute

// until lets time pass until something holds.
func (b *bench) until(what string, holds func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for end := b.site.now().Add(patience); !holds(); b.site.pass(ctx) {
		if ctx.Err() != nil || b.site.now().After(end) {
			b.t.Fatalf("in %s it was not so: %s; the last verdict: %s", patience, what, said(b.judge("compute-1")))
		}
	}
}

func said(v eviction.Verdict) (all []string) {
	for _, b := range v.Blockers {
		all = append(all, b.Reason+": "+b.Message+" / "+b.Remedy)
	}
	return all
}

func reasons(v eviction.Verdict) (all []string) {
	for _, b := range v.Blockers {
		all = append(all, b.Reason)
	}
	return all
}

func needs(v eviction.Verdict) bool { return len(v.Needed) > 0 }

var kind = sync.OnceValue(openstack.Kind)
