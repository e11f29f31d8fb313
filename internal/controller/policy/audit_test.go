package policy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

func inAudit(policy *v1alpha1.EvictionPolicy) { policy.Spec.Mode = v1alpha1.ModeAudit }

// seen is what admission finds: the labels of the namespace, and of each pod.
func (r *rig) seen(t *testing.T) map[string]string {
	t.Helper()
	var namespace corev1.Namespace
	if err := r.Get(t.Context(), client.ObjectKey{Name: "prod"}, &namespace); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{"governed": namespace.Labels[v1alpha1.GovernedLabel], "audited": namespace.Labels[v1alpha1.AuditedLabel]}
	var pods corev1.PodList
	if err := r.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		found[pod.Name] = pod.Labels[v1alpha1.PolicyLabel] + "," + pod.Labels[v1alpha1.AuditLabel]
	}
	return found
}

// switches writes a policy's mode.
func (r *rig) switches(t *testing.T, name string, mode v1alpha1.PolicyMode) {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Mode = mode
	policy.Generation++
	if err := r.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
}

// The labels follow the mode: those of what is audited in no case hold a pod, and those of what was enforced go once what admission
// asked for is withdrawn, without the wait for a policy that has vanished.
func TestLabelsFollowTheMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, interceptor.Funcs{}, newPolicy("db"), newMember("db-0", ""), newMember("db-1", ""), refusedCaller("db-0"))
		steps := []struct {
			name     string
			given    func()
			want     map[string]string
			standing []string
			next     time.Duration
		}{
			{"enforced", func() {}, map[string]string{"governed": "true", "audited": "", "db-0": "db,", "db-1": "db,"}, []string{"db-0"}, 0},
			{
				"to Audit, a request is withdrawn", func() { r.switches(t, "db", v1alpha1.ModeAudit) },
				map[string]string{"governed": "true", "audited": "true", "db-0": "db,db", "db-1": ",db"},
				nil, cancelGrace,
			},
			{"in Audit", func() {}, map[string]string{"governed": "", "audited": "true", "db-0": ",db", "db-1": ",db"}, nil, 0},
			{
				"one of each", func() { must(t, r.Create(t.Context(), newPolicy("prod-db"))) },
				map[string]string{"governed": "true", "audited": "true", "db-0": "prod-db,db", "db-1": "prod-db,db"},
				nil, 0,
			},
			{
				"the audited one goes", func() { must(t, r.Delete(t.Context(), newPolicy("db"))) },
				map[string]string{"governed": "true", "audited": "", "db-0": "prod-db,", "db-1": "prod-db,"},
				nil, 0,
			},
			{
				"to Audit", func() { r.switches(t, "prod-db", v1alpha1.ModeAudit) },
				map[string]string{"governed": "", "audited": "true", "db-0": ",prod-db", "db-1": ",prod-db"},
				nil, 0,
			},
			{
				"to Enforce", func() { r.switches(t, "prod-db", v1alpha1.ModeEnforce) },
				map[string]string{"governed": "true", "audited": "", "db-0": "prod-db,", "db-1": "prod-db,"},
				nil, 0,
			},
		}
		for _, step := range steps {
			step.given()
			next, err := r.label(t)
			if err != nil || next != step.next {
				t.Errorf("%s: looks again in %s, %v", step.name, next, err)
			}
			if diff := cmp.Diff(step.want, r.seen(t)); diff != "" {
				t.Errorf("%s: labels: %s", step.name, diff)
			}
			if diff := cmp.Diff(step.standing, r.standing(t)); diff != "" {
				t.Errorf("%s: wanted gone: %s", step.name, diff)
			}
			pass(next)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The namespace is audited before its pods are, and nothing is audited where nothing can be governed.
func TestAuditLabels(t *testing.T) {
	stranger := newMember("web", "")
	stranger.Labels = map[string]string{"app": "web", v1alpha1.AuditLabel: "forged"}
	r := newRig(t, interceptor.Funcs{}, newPolicy("trial", inAudit), newMember("db-0", ""), stranger)
	want := map[string]string{"governed": "", "audited": "true", "db-0": ",trial", "web": ","}
	if _, err := r.label(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.seen(t)); diff != "" {
		t.Error(diff)
	}
	r.reconciler.Gatherer.Policies.Own = "prod"
	want = map[string]string{"governed": "", "audited": "", "db-0": ",", "web": ","}
	if _, err := r.label(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.seen(t)); diff != "" {
		t.Error(diff)
	}
}

// A pod that wears nothing but the label of what is audited is looked at where no policy is, so that the label goes.
func TestTheAuditLabelIsLookedAt(t *testing.T) {
	r := newRig(t, interceptor.Funcs{})
	pod := newMember("db-0", "")
	if got := r.reconciler.namespaceOfPod(t.Context(), pod); len(got) > 0 {
		t.Errorf("without a label: %v", got)
	}
	pod.Labels[v1alpha1.AuditLabel] = "trial"
	if got := r.reconciler.namespaceOfPod(t.Context(), pod); len(got) != 1 {
		t.Errorf("with the label: %v", got)
	}
}

// Policies of either mode are looked at when a pod changes, and have a status of their own: they do not get in each other's way.
func TestStatusIsOfOneMode(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, newPolicy("db"), newPolicy("trial", inAudit), newPolicy("trial-2", inAudit, func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Members[0].Selector = metav1.LabelSelector{MatchLabels: map[string]string{"twice": "true"}}
	}), newMember("db-0", ""), newMember("db-1", ""))
	reasons := func() map[string]string {
		t.Helper()
		if _, err := r.label(t); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, request := range r.reconciler.policiesOf(t.Context(), newMember("db-0", "")) {
			r.reconciler.throttle.forget(request)
			if _, err := r.reconciler.reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var policy v1alpha1.EvictionPolicy
			must(t, r.Get(t.Context(), request.NamespacedName, &policy))
			found[policy.Name] = meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady).Reason
		}
		return found
	}
	if diff := cmp.Diff(map[string]string{"db": ReasonAsking, "trial": ReasonAsking, "trial-2": ReasonAsking}, reasons()); diff != "" {
		t.Error(diff)
	}
	both := newMember("db-2", "")
	both.Labels["twice"] = "true"
	must(t, r.Create(t.Context(), both))
	if diff := cmp.Diff(map[string]string{"db": ReasonAsking, "trial": ReasonClaimedTwice, "trial-2": ReasonClaimedTwice}, reasons()); diff != "" {
		t.Error(diff)
	}
}

// TestAPolicyInModeAuditIsNotHeldByWishes: nothing is begun for what is only audited, so a request that is made does not hold its
// policy; what was begun in mode Enforce is taken back even while requests stand, and holds the policy until then.
func TestAPolicyInModeAuditIsNotHeldByWishes(t *testing.T) {
	begun := []v1alpha1.PreparationStatus{{
		MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, Name: "Empty", State: v1alpha1.PreparationBegun,
		StartTime: metav1.NewTime(time.Now().Add(-time.Hour)), LastRequestTime: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	for name, c := range map[string]struct {
		mode  v1alpha1.PolicyMode
		steps []v1alpha1.PreparationStatus
		held  bool
		state v1alpha1.PreparationState
	}{
		"enforced":                {mode: v1alpha1.ModeEnforce, held: true},
		"in mode Audit":           {mode: v1alpha1.ModeAudit},
		"enforced, with a step":   {mode: v1alpha1.ModeEnforce, steps: begun, held: true, state: v1alpha1.PreparationBegun},
		"now in Audit, by a step": {mode: v1alpha1.ModeAudit, steps: begun, held: true, state: v1alpha1.PreparationUndoing},
	} {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Spec.Mode, p.Finalizers, p.Status.Preparations = c.mode, []string{v1alpha1.UndoFinalizer}, c.steps
		})
		byHand := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "prod", Name: "db-0", UID: "db-0"}, evictionrequest.Requester("joe"))
		r := newRig(t, interceptor.Funcs{}, policy, newMember("db-0", "db"), byHand)
		r.reconciler.unneeded.times[client.ObjectKeyFromObject(policy)] = time.Now().Add(-releaseAfter)
		if _, err := r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}); err != nil {
			t.Fatal(err)
		}
		left := r.stored(t)
		if held := slices.Contains(left.Finalizers, v1alpha1.UndoFinalizer); held != c.held {
			t.Errorf("%s: held %t, want %t", name, held, c.held)
		}
		if c.state != "" && (len(left.Status.Preparations) != 1 || left.Status.Preparations[0].State != c.state) {
			t.Errorf("%s: steps %+v, want %s", name, left.Status.Preparations, c.state)
		}
	}
}

// The condition names the mode, since a policy in mode Audit otherwise looks as if it held its pods.
func TestConditionsOfAPolicyInModeAudit(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*v1alpha1.EvictionPolicy)
		change func(*facts)
		reason string
		says   string

		evictable int32
	}{
		"at work":   {reason: ReasonAuditing, says: "3 members, and the system answers", evictable: 3},
		"suspended": {policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true }, reason: ReasonSuspended, says: "spec.suspend is set: nothing is prepared, no pod is evicted, and evictions are refused; unset it to go on"},
		"asking nothing of pods that another holds": {
			policy: func(p *v1alpha1.EvictionPolicy) {
				p.Spec.Roles[0].Evict = v1alpha1.Evict{AtOnce: new(int32(0))}
			}, reason: ReasonAuditing, says: "3 members, and the system answers", evictable: 3,
		},
		"unlabelled": {change: func(f *facts) { delete(f.pods[0].Labels, v1alpha1.AuditLabel) }, reason: ReasonLabelling, says: "admission does not guard everything yet: the namespace is labelled: true, 1 member without a label"},
	} {
		f := newFacts(t, 3, func(p *v1alpha1.EvictionPolicy) {
			inAudit(p)
			if c.policy != nil {
				c.policy(p)
			}
		})
		for _, pod := range f.pods {
			pod.Labels[v1alpha1.AuditLabel], pod.Labels[v1alpha1.PolicyLabel] = "db", "another"
		}
		if c.change != nil {
			c.change(f)
		}
		if got := f.roles(f.members())[0].EvictableCount; c.evictable > 0 && got != c.evictable {
			t.Errorf("%s: %d may go, want %d", name, got, c.evictable)
		}
		got := f.verdict(f.members())
		if got.reason != c.reason || got.message != c.says+onlyAudited {
			t.Errorf("%s: %s: %s", name, got.reason, got.message)
		}
	}
}
