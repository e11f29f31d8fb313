package policycache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

func inAudit(policy *v1alpha1.EvictionPolicy) *v1alpha1.EvictionPolicy {
	policy.Spec.Mode = v1alpha1.ModeAudit
	return policy
}

// TestTheCacheHasTheModesApart: the policies of a namespace are those that may have an effect.
func TestTheCacheHasTheModesApart(t *testing.T) {
	switched := newPolicy("switched", "db", rule)
	switched.ResourceVersion = "10"
	s := newSetting(t, newPolicy("db", "db", rule), inAudit(newPolicy("trial", "db", rule)), switched)
	learned := inAudit(switched.DeepCopy())
	learned.ResourceVersion = "11"
	s.gatherer.Policies.Observe(learned) // the cache does not have it yet
	policyCache := s.gatherer.Policies
	names := func(policies []*v1alpha1.EvictionPolicy, err error) []string {
		t.Helper()
		var found []string
		for _, policy := range policies {
			found = append(found, policy.Name)
		}
		if err != nil {
			t.Error(err)
		}
		return found
	}
	for _, c := range []struct{ got, want []string }{
		{names(policyCache.Policies(t.Context(), "db")), []string{"db"}},
		{names(policyCache.Audited(t.Context(), "db")), []string{"switched", "trial"}},
		{names(policyCache.All(t.Context(), "db")), []string{"db", "switched", "trial"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestInputIsOfOneMode(t *testing.T) {
	s := newSetting(t, newPolicy("db", "db", rule), inAudit(newPolicy("trial", "db", rule)))
	for name, audit := range map[string]bool{"db": false, "trial": true} {
		in, err := s.gatherer.Input(t.Context(), Subject{Pod: newPod("db-0", "db"), Audit: audit})
		if err != nil || len(in.Policies) != 1 || in.Policies[0].Key.Name != name || in.Evidence == nil {
			t.Errorf("policies %v, evidence %v, error %v; want %s", in.Policies, in.Evidence, err, name)
		}
	}
}

func TestClaimed(t *testing.T) {
	s := newSetting(t, newPolicy("db", "db", rule), inAudit(newPolicy("trial", "db", rule)),
		newPolicy("free", "free"), inAudit(newPolicy("try", "try", rule)))
	for app, want := range map[string][2]bool{"db": {true, true}, "free": {true, false}, "try": {false, true}, "web": {false, false}} {
		enforced, audited, err := s.gatherer.Claimed(t.Context(), newPod("a", app))
		if got := [2]bool{enforced, audited}; got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", app, got, err, want)
		}
	}
}

// A pod that a policy in mode Audit alone claims is guarded by none.
func TestAuditGuardsNothing(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	for name, c := range map[string]struct {
		policies []client.Object
		want     bool
	}{
		"in mode Audit": {[]client.Object{inAudit(newPolicy("db", "db", rule))}, false},
		"enforced":      {[]client.Object{newPolicy("db", "db", rule)}, true},
		"one of each":   {[]client.Object{newPolicy("db", "db", rule), inAudit(newPolicy("trial", "db", rule))}, true},
	} {
		s := newSetting(t, append(c.policies, namespace)...)
		if got, err := s.gatherer.Guarded(t.Context(), newPod("db-0", "db")); err != nil || got != c.want {
			t.Errorf("%s: guarded %t, %v", name, got, err)
		}
		newest, err := s.gatherer.Newest(t.Context(), "db")
		if got := eviction.GuardedBy(newest, Facts(newPod("db-0", "db"))) != ""; err != nil || got != c.want {
			t.Errorf("%s: guarded by the newest %t, %v", name, got, err)
		}
		if got, err := s.gatherer.Ungoverned(t.Context(), "db"); err != nil || got == c.want {
			t.Errorf("%s: ungoverned %t, %v", name, got, err)
		}
	}
}

// What governs or audits a pod is known of it although no policy is there any more, so that its labels can be taken off.
func TestLabelsOutliveWhatIsReduced(t *testing.T) {
	pod := newPod("db-0", "db", func(p *corev1.Pod) { p.Labels[v1alpha1.AuditLabel] = "trial" })
	if Reduce(pod); !cmp.Equal(pod.Labels, map[string]string{v1alpha1.AuditLabel: "trial"}) {
		t.Errorf("labels %v", pod.Labels)
	}
}

func TestDepartedOfAnAuditedPod(t *testing.T) {
	d := NewDeparted(time.Now)
	d.deleted(newPod("db-0", "db", func(p *corev1.Pod) { p.Labels[v1alpha1.AuditLabel] = "trial" }))
	if d.named(snapshot.Key{Namespace: "db", Name: "db-0"}) == nil {
		t.Error("it is forgotten")
	}
}
