package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// addEvidence keeps the evidence of every policy on every replica, since each of them answers admission.
func addEvidence(mgr ctrl.Manager, p *parts) error {
	observer := p.gatherer.Observer
	for _, part := range []everywhere{
		observer.Run,
		func(ctx context.Context) error { return p.track(ctx, mgr) },
		func(ctx context.Context) error { return p.trackPods(ctx, mgr) },
	} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("adding the observer of evidence: %w", err)
		}
	}
	return nil
}

// countPolicies counts the policies that there are before pods are cached: those of their namespaces are then cached whole.
func countPolicies(ctx context.Context, live client.Reader, count *policyCount) error {
	err := observe.EachPage(ctx, live, &v1alpha1.EvictionPolicyList{}, func(page *v1alpha1.EvictionPolicyList) bool {
		for i := range page.Items {
			count.add(&page.Items[i])
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("listing the policies: %w", err)
	}
	return nil
}

// track shows the observer every policy, whenever it changes.
func (p *parts) track(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.EvictionPolicy{})
	if err != nil {
		return fmt.Errorf("watching policies: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.tracked(o) },
		UpdateFunc: p.updated,
		DeleteFunc: func(o any) { p.forgotten(o) },
	})
	if err != nil {
		return fmt.Errorf("watching policies: %w", err)
	}
	<-ctx.Done()
	return informer.RemoveEventHandler(registration)
}

// trackPods shows the gatherer every pod that ends.
func (p *parts) trackPods(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) { p.ended(ctx, was, is) },
		DeleteFunc: func(o any) { p.ended(ctx, o, nil) },
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	<-ctx.Done()
	return informer.RemoveEventHandler(registration)
}

func (p *parts) ended(ctx context.Context, was, is any) {
	if tombstone, ok := was.(cache.DeletedFinalStateUnknown); ok {
		was = tombstone.Obj
	}
	after, _ := is.(*corev1.Pod)
	if before, ok := was.(*corev1.Pod); ok {
		p.gatherer.Ended(ctx, before, after)
	}
}

// updated also forgets a policy that is gone, which a watch that was broken shows as one that has become another of its name. The namespace
// has a policy all the while.
func (p *parts) updated(was, is any) {
	p.tracked(is)
	before, ok := was.(*v1alpha1.EvictionPolicy)
	after, ok2 := is.(*v1alpha1.EvictionPolicy)
	if ok && ok2 && before.UID != after.UID {
		p.forgotten(before)
	}
}

func (p *parts) tracked(o any) {
	if policy, ok := o.(*v1alpha1.EvictionPolicy); ok {
		p.pods.policies.add(policy)
		p.gatherer.Track(policy)
	}
}

// forgotten is also called for policies whose deletion the watch has missed.
func (p *parts) forgotten(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	if policy, ok := o.(*v1alpha1.EvictionPolicy); ok {
		p.pods.policies.remove(policy)
		p.gatherer.Forget(policy.UID)
		p.act.Forget(policy.UID)
	}
}
