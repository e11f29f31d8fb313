package main

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// evictions is how many pods of each role are evicted for good.
const evictions = 20

// measureEvictions evicts routers one after the other, then members, each when both replicas know that the one before is gone.
func measureEvictions(ctx context.Context, st *stage, f *figures) error {
	c, err := st.callReplicas(ctx)
	if err != nil {
		return err
	}
	for _, run := range []struct {
		role  string
		place **load
	}{{routerRole, &f.routers}, {memberRole, &f.members}} {
		if err := st.measureRole(ctx, c, run.role, run.place); err != nil {
			return err
		}
	}
	return nil
}

func (st *stage) measureRole(ctx context.Context, c *caller, role string, place **load) error {
	pods, err := st.listPods(ctx, governedNamespace, role)
	if err != nil {
		return err
	}
	return st.watched(ctx, place, func() (*load, error) {
		l := newLoad("evictions, " + role)
		for i := range evictions {
			if err := c.awaitLeave(ctx, &pods[i]); err != nil {
				return nil, err
			}
			l.ask(ctx, func(ctx context.Context, i int) (string, error) { return st.evictForGood(ctx, &pods[i]) }, i)
		}
		return l, l.done()
	})
}

// awaitLeave returns when all replicas would let the pod go. It asks by dry runs; there is nothing to watch.
func (c *caller) awaitLeave(ctx context.Context, pod *corev1.Pod) error {
	q, err := asked{admissionv1.Create, true}.about(pod)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for i := range c.urls {
			review, err := c.send(ctx, i, q)
			if err != nil || !review.Response.Allowed {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s may leave: %w", pod.Name, err)
	}
	return nil
}

// evictForGood takes a refusal for an error: it would be timed like an eviction, and is none.
func (st *stage) evictForGood(ctx context.Context, pod *corev1.Pod) (string, error) {
	if err := st.requestEviction(ctx, pod); err != nil {
		return "", fmt.Errorf("evicting %s: %w", pod.Name, err)
	}
	return accepted, nil
}
