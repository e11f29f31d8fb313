package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// evictions is how many pods of each role are evicted for good.
const evictions = 20

// measureEvictions evicts routers one after the other, then members, each when the one before was seen gone.
func measureEvictions(ctx context.Context, st *stage, f *figures) error {
	still := func() error { return nil }
	if err := st.measureRole(ctx, routerRole, &f.routers, still); err != nil {
		return err
	}
	return st.measureRole(ctx, memberRole, &f.members, func() error {
		return st.awaitPolicy(ctx, func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Leaving) == 0 })
	})
}

func (st *stage) measureRole(ctx context.Context, role string, place **load, settled func() error) error {
	pods, err := st.listPods(ctx, governedNamespace, role)
	if err != nil {
		return err
	}
	return st.watched(ctx, place, func() (*load, error) {
		l := newLoad("evictions, " + role)
		for i := range evictions {
			l.ask(ctx, func(ctx context.Context, i int) (string, error) { return st.evictForGood(ctx, &pods[i]) }, i)
			if err := settled(); err != nil {
				return nil, err
			}
		}
		return l, l.done()
	})
}

// evictForGood takes a refusal for an error: it would be timed like an eviction, and is none.
func (st *stage) evictForGood(ctx context.Context, pod *corev1.Pod) (string, error) {
	answer, err := st.evict(ctx, pod)
	if err == nil && answer != accepted {
		err = fmt.Errorf("evicting %s: %s", pod.Name, answer)
	}
	return answer, err
}
