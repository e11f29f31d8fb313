package main

import (
	"context"
	"fmt"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// kubectlRetry is how long `kubectl drain` waits after a 429 before it asks again.
const kubectlRetry = 5 * time.Second

// kubectl drains as `kubectl drain --ignore-daemonsets --force --timeout` does: it evicts all pods that it found at first, asks
// again for those that are refused, and waits until each is gone.
type kubectl struct {
	cluster *cluster
	started time.Time
	ended   time.Time // zero while it runs
	failure string    // what it ends with, "" for none
	pods    []*pulled
}

// pulled is a pod that is to go.
type pulled struct {
	pod     *snapshot.Pod
	asked   bool      // its eviction was accepted
	again   time.Time // when it is asked for again
	refused string
	gone    bool
}

func newKubectl(ctx context.Context, c *cluster, now time.Time) *kubectl {
	k := &kubectl{cluster: c, started: now}
	var node *snapshot.Node
	c.Read(func(view snapshot.View) {
		node = view.Cluster.Node(drained)
		for _, p := range view.Cluster.PodsOn(drained) {
			if !p.Owner.DaemonSet() {
				k.pods = append(k.pods, &pulled{pod: p})
			}
		}
	})
	c.Do(ctx, drain.Action{Kind: drain.Cordon, Node: node})
	return k
}

// step does what is due.
func (k *kubectl) step(ctx context.Context, now time.Time) {
	if !k.ended.IsZero() {
		return
	}
	there := map[*pulled]bool{}
	k.cluster.Read(func(view snapshot.View) {
		for _, p := range k.pods {
			there[p] = view.Cluster.Pod(p.pod.UID) != nil
		}
	})
	left := 0
	for _, p := range k.pods {
		p.gone = !there[p]
		if p.gone {
			continue
		}
		left++
		if !p.asked && !now.Before(p.again) {
			k.evict(ctx, p, now)
		}
	}
	switch {
	case left == 0:
		k.ended = now
	case now.Sub(k.started) >= deadline:
		k.ended, k.failure = now, fmt.Sprintf("error: unable to drain node %q: global timeout reached: %s", drained, deadline)
	}
}

func (k *kubectl) evict(ctx context.Context, p *pulled, now time.Time) {
	answer := k.cluster.Do(ctx, drain.Action{Kind: drain.Evict, Pod: p.pod})
	p.asked = answer.Code == answers.Accepted
	if !p.asked {
		p.refused, p.again = answer.Message, now.Add(kubectlRetry)
	}
}

// lines are what it says, a line a pod.
func (k *kubectl) lines(now time.Time) []string {
	gone := 0
	for _, p := range k.pods {
		if p.gone {
			gone++
		}
	}
	lines := []string{fmt.Sprintf("%s  %s", k.state(), seconds(k.until(now).Sub(k.started))), fmt.Sprintf("%d of %d pods gone", gone, len(k.pods))}
	for _, p := range k.pods {
		switch {
		case p.gone:
			lines = append(lines, "pod/"+p.pod.Name+" evicted")
		case p.asked:
			lines = append(lines, "evicting pod "+p.pod.Key().String())
		default:
			lines = append(lines, fmt.Sprintf("error when evicting pods/%q -n %q (will retry after 5s): %s", p.pod.Name, namespace, p.refused))
		}
	}
	if k.failure != "" {
		lines = append(lines, k.failure)
	}
	return lines
}

func (k *kubectl) state() string {
	switch {
	case k.ended.IsZero():
		return "draining"
	case k.failure != "":
		return "failed"
	}
	return "drained"
}

func (k *kubectl) until(now time.Time) time.Time {
	if k.ended.IsZero() {
		return now
	}
	return k.ended
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }
