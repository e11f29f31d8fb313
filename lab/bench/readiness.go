package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// readiness is what a watch on the pods saw during a drain.
type readiness struct {
	lowest int // fewest ready pods that any Deployment had at any moment
	// short is how long the Deployment that was short of a ready pod for the longest was so. In place, with budgets of
	// one pod, no drain can be faster: all that time nothing more may be evicted.
	short time.Duration

	since map[string]time.Time // Deployments that are short now
	total map[string]time.Duration
}

// watchReadiness looks until ctx ends, and returns what was seen up to then.
func watchReadiness(ctx context.Context, pods await.Source[*corev1.Pod]) *readiness {
	r := &readiness{lowest: replicas, since: map[string]time.Time{}, total: map[string]time.Duration{}}
	// The wait can only end with ctx: what it waits for never comes.
	_ = await.Until(ctx, pods, func(all []*corev1.Pod) bool {
		r.observe(time.Now(), all)
		return false
	})
	r.close(time.Now())
	return r
}

func (r *readiness) observe(now time.Time, pods []*corev1.Pod) {
	ready := map[string]int{}
	for _, p := range pods {
		app := p.Labels[appLabel]
		ready[app] += 0
		if testlab.PodReady(p) {
			ready[app]++
		}
	}
	for app, n := range ready {
		r.lowest = min(r.lowest, n)
		since, short := r.since[app]
		switch {
		case n < replicas && !short:
			r.since[app] = now
		case n >= replicas && short:
			r.total[app] += now.Sub(since)
			delete(r.since, app)
		}
	}
}

func (r *readiness) close(now time.Time) {
	for app, since := range r.since {
		r.total[app] += now.Sub(since)
	}
	for _, t := range r.total {
		r.short = max(r.short, t)
	}
}
