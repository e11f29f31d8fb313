package policy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

// A policy vanishes: what admission asked for is withdrawn before the labels go by which callers are still refused, and what
// was asked for by hand stands.
func TestPodsAreReleasedAfterTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byHand := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "prod", Name: "db-1", UID: "db-1"}, evictionrequest.Requester("joe"))
		r := newRig(t, interceptor.Funcs{}, newMember("db-0", "db"), newMember("db-1", "db"), refusedCaller("db-0"), byHand)
		for _, step := range []struct {
			labels   map[string]string
			standing []string
			guarded  bool
			next     time.Duration
		}{
			{map[string]string{"db-0": "db", "db-1": "db"}, []string{"db-0", "db-1"}, true, replaceGrace},
			{map[string]string{"db-0": "db", "db-1": ""}, []string{"db-1"}, true, cancelGrace},
			{map[string]string{"db-0": "", "db-1": ""}, []string{"db-1"}, false, 0},
		} {
			next, err := r.label(t)
			if err != nil || next != step.next || r.guarded(t) != step.guarded {
				t.Errorf("looks again in %s, the namespace is guarded: %t, %v; want %s, %t", next, r.guarded(t), err, step.next, step.guarded)
			}
			if diff := cmp.Diff(step.labels, r.labels(t)); diff != "" {
				t.Errorf("labels: %s", diff)
			}
			if diff := cmp.Diff(step.standing, r.standing(t)); diff != "" {
				t.Errorf("wanted gone: %s", diff)
			}
			pass(next)
		}
	})
}

func pass(d time.Duration) { <-time.After(d) }

// Who replaces a policy by deleting it and creating it anew opens no gap.
func TestAPolicyThatIsReplacedKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, interceptor.Funcs{}, newMember("db-0", "db"), refusedCaller("db-0"))
		if _, err := r.label(t); err != nil {
			t.Fatal(err)
		}
		pass(replaceGrace - time.Second)
		if err := r.Create(t.Context(), newPolicy("db")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if next, err := r.label(t); err != nil || next != 0 {
				t.Errorf("looks again in %s, %v", next, err)
			}
			pass(replaceGrace)
		}
		if got := r.labels(t)["db-0"]; got != "db" || len(r.standing(t)) != 1 {
			t.Errorf("label %q, wanted gone: %v", got, r.standing(t))
		}
		// Another absence has its own time.
		if err := r.Delete(t.Context(), newPolicy("db")); err != nil {
			t.Fatal(err)
		}
		if next, err := r.label(t); err != nil || next != replaceGrace {
			t.Errorf("looks again in %s, %v", next, err)
		}
	})
}

// Anyone who may create pods can write the label, with any value or none. It is taken off whatever it is, also where the
// namespace has a policy that does not select the pod.
func TestALabelThatNoPolicyAccountsForGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, policies := range map[string][]client.Object{"no policy": nil, "a policy": {newPolicy("db")}} {
			empty, unknown := newMember("empty", "x"), newMember("unknown", "whatever")
			for _, pod := range []*corev1.Pod{empty, unknown} {
				pod.Labels["app"] = "miner"
			}
			empty.Labels[v1alpha1.PolicyLabel] = ""
			r := newRig(t, interceptor.Funcs{}, append(policies, empty, unknown)...)
			if next, err := r.label(t); err != nil || next != replaceGrace {
				t.Errorf("%s: looks again in %s, %v", name, next, err)
			}
			pass(replaceGrace)
			if _, err := r.label(t); err != nil {
				t.Fatal(err)
			}
			for _, pod := range []string{"empty", "unknown"} {
				var found corev1.Pod
				if err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: pod}, &found); err != nil {
					t.Fatal(err)
				}
				if value, labelled := found.Labels[v1alpha1.PolicyLabel]; labelled {
					t.Errorf("%s: the pod with the label %q keeps it", name, value)
				}
			}
		}
	})
}

// A withdrawal that is refused keeps the label: without it the request would be carried out unjudged.
func TestALabelStaysWhileItsRequestDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refusing("EvictionRequest", ""), newMember("db-0", "db"), refusedCaller("db-0"))
		_, _ = r.label(t)
		pass(replaceGrace)
		if _, err := r.label(t); err == nil || r.labels(t)["db-0"] != "db" {
			t.Errorf("label %q, error %v", r.labels(t)["db-0"], err)
		}
	})
}

// A selector that cannot be read may select the pod.
func TestTheLabelsOfABlindPolicyStay(t *testing.T) {
	blind := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Members[0].Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near", Values: []string{"db"}}}}
	})
	r := newRig(t, interceptor.Funcs{}, blind, newMember("db-0", "db"), newMember("db-1", ""), refusedCaller("db-0"))
	next, err := r.label(t)
	if err != nil || next != 0 {
		t.Errorf("looks again in %s, %v", next, err)
	}
	if diff := cmp.Diff(map[string]string{"db-0": "db", "db-1": ""}, r.labels(t)); diff != "" {
		t.Error(diff)
	}
}

// A policy may select by a label that moves, such as that of the primary. While the cache does not show what a pod's labels are, its
// guard's stays; it is taken off later where no policy guards the pod then.
func TestALabelStaysWhileTheCacheLacksTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, away := newMember("db-0", "db"), newMember("db-1", "db")
		back.Labels["app"], away.Labels["app"] = "replica", "replica"
		r := newRig(t, interceptor.Funcs{}, newPolicy("db"), back, away)
		resume := r.hangPods(t)
		for pod, change := range map[string]string{"db-0": `{"metadata":{"labels":{"app":"db"}}}`, "db-1": `{"metadata":{"labels":{"zone":"a"}}}`} {
			if err := r.Patch(t.Context(), newMember(pod, ""), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if next, err := r.label(t); err != nil || next != replaceGrace {
				t.Errorf("looks again in %s, %v; want %s", next, err, replaceGrace)
			}
			if diff := cmp.Diff(map[string]string{"db-0": "db", "db-1": "db"}, r.labels(t)); diff != "" {
				t.Error(diff)
			}
			pass(replaceGrace)
		}
		resume()
		if next, err := r.label(t); err != nil || next != 0 {
			t.Errorf("looks again in %s, %v", next, err)
		}
		if diff := cmp.Diff(map[string]string{"db-0": "db", "db-1": ""}, r.labels(t)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOnePodThatCannotBeLabelled: a pod whose labelling is refused leaves no other unguarded, and the status says what refuses it.
func TestOnePodThatCannotBeLabelled(t *testing.T) {
	r := newRig(t, refusing("Pod", "db-0"), newPolicy("db"), newMember("db-0", ""), newMember("db-1", ""), newMember("db-2", ""))
	if _, err := r.label(t); err == nil || !strings.Contains(err.Error(), "labelling pod db-0") {
		t.Errorf("error %v, want the refusal", err)
	}
	if diff := cmp.Diff(map[string]string{"db-0": "", "db-1": "db", "db-2": "db"}, r.labels(t)); diff != "" {
		t.Error(diff)
	}
	key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "prod", Name: "db"}}
	if _, err := r.reconciler.reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	var policy v1alpha1.EvictionPolicy
	if err := r.Get(t.Context(), key.NamespacedName, &policy); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != ReasonLabelling {
		t.Fatalf("the condition is %+v", ready)
	}
	for _, part := range []string{"1 member without a label", "labelling pod db-0", "policy engine"} {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("the condition says %q, without %q", ready.Message, part)
		}
	}
}

// refusing is an apiserver that refuses patches of one kind, of one name if it is given.
func refusing(kind, name string) interceptor.Funcs {
	return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		gvk, err := c.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		if gvk.Kind == kind && (name == "" || o.GetName() == name) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, o.GetName(), apierrors.NewBadRequest("a policy engine says no"))
		}
		return c.Patch(ctx, o, p, options...)
	}}
}

// A policy may have got into a namespace where nothing can be governed, while no webhook answered.
func TestNothingIsLabelledWhereNothingCanBeGoverned(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, newPolicy("db"), newMember("db-0", ""))
	r.reconciler.Gatherer.Policies.Own = "prod"
	if _, err := r.label(t); err != nil {
		t.Fatal(err)
	}
	if r.labels(t)["db-0"] != "" || r.guarded(t) {
		t.Errorf("labels %v, the namespace is guarded: %t", r.labels(t), r.guarded(t))
	}
}
