package manager

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system/all"
)

// A policy that was replaced while a watch was broken is shown as an update of the one before, which is forgotten.
func TestReplacedPoliciesAreForgotten(t *testing.T) {
	policies := policycache.New(fake.NewClientBuilder().Build(), all.Kind, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	p := &parts{gatherer: &policycache.Gatherer{Policies: policies, Observer: observer}, act: &act.Governed{}, pods: &slimmer{}}
	policy := func(uid types.UID) *v1alpha1.EvictionPolicy {
		policy := &v1alpha1.EvictionPolicy{}
		policy.Namespace, policy.Name, policy.UID = "shop", "db", uid
		return policy
	}
	p.tracked(policy("a"))
	p.updated(policy("a"), policy("b"))
	if !p.pods.policies.in("shop") {
		t.Error("the policy that there is now is not counted")
	}
	p.forgotten(policy("b"))
	if p.pods.policies.in("shop") {
		t.Error("the policy that was replaced is counted for ever")
	}
}

// Policies are counted in pages: the apiserver takes a megabyte and a half of metadata on each.
func TestPoliciesAreCountedInPages(t *testing.T) {
	whole := false
	live := interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
		asked := client.ListOptions{}
		for _, o := range options {
			o.ApplyToList(&asked)
		}
		whole = whole || asked.Limit == 0 || asked.Limit > observe.AtOnce
		return nil
	}}
	if err := countPolicies(t.Context(), interceptor.NewClient(fake.NewClientBuilder().Build(), live), &policyCount{}); err != nil || whole {
		t.Errorf("asked for whole: %t, %v", whole, err)
	}
}
