package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// namespace is the System of a policy: the workloads of its namespace.
type namespace struct {
	api   system.Workloads
	rules limits
}

// factBytes is about what the facts of a member take.
const factBytes = 2 << 10

// Observe implements system.System.
func (n *namespace) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	if err := system.Take(ctx, int64(len(members)*factBytes)); err != nil {
		return nil, err
	}
	asked := map[types.UID]bool{}
	for _, m := range members {
		asked[m.PodUID] = true
	}
	view, err := n.api.Read(ctx, func(p *snapshot.Pod) bool { return asked[p.UID] })
	if err != nil {
		return nil, err
	}
	known, workloads := n.rules.observed(view, members)
	said := &eviction.Evidence{Members: known, Summary: fmt.Sprintf("%d workloads", workloads)}
	said.System = map[string]any{"workloads": int64(workloads)}
	if surged := surgedOf(view.Cluster); surged > 0 {
		said.Summary += fmt.Sprintf(", %d of them scaled up", surged)
	}
	return said, nil
}

func surgedOf(c *snapshot.Cluster) int {
	return len(slices.DeleteFunc(c.Surged(), func(w *snapshot.Workload) bool { return !ours(w.Surge) }))
}

// writes is how many steps one call makes at most: an autoscaler, the workload, and what conflicts make of them.
const writes = 6

var errBusy = errors.New("the workload is being changed by other clients; it is tried again")

// Prepare implements system.System.
func (n *namespace) Prepare(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	for range writes {
		job, done, err := n.prepareOnce(ctx, step)
		if done || err != nil && !apierrors.IsConflict(err) {
			return job, err
		}
	}
	return eviction.Job{}, errBusy
}

// prepareOnce makes one write, or none where done.
func (n *namespace) prepareOnce(ctx context.Context, step eviction.Preparation) (job eviction.Job, done bool, err error) {
	view, err := n.api.Read(ctx, func(p *snapshot.Pod) bool { return p.UID == step.Member.PodUID })
	if err != nil {
		return job, true, err
	}
	w, p := n.subject(view, step)
	if w == nil {
		return job, true, fmt.Errorf("pod %s, or what controls it, is not there any more", step.Member.PodName)
	}
	job = eviction.Job{ID: jobOf(w.target())}
	if job.ID == "" {
		return job, true, fmt.Errorf("%s: its name is too long to be written down: %w", w.title(), system.ErrTerminal)
	}
	if w.kept() && step.Job.ID == "" {
		return job, true, nil // nothing would lead back to it if this process ended now
	}
	next, obstacle := w.prepare(p)
	if obstacle != "" {
		return job, true, errors.New(obstacle)
	}
	if err := n.api.Renew(ctx); next.none() || err != nil {
		return job, true, err
	}
	err = n.carryOut(ctx, w, next)
	if err == nil && next.lost != "" && next.scale != nil {
		return job, true, fmt.Errorf("%s: %w", next.lost, system.ErrTerminal)
	}
	return job, false, err
}

// Undo implements system.System.
func (n *namespace) Undo(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	of := func(p *snapshot.Pod) bool { return p.UID == step.Member.PodUID }
	var also []system.Target
	if target, known := targetOf(step.Job.ID); known {
		also = append(also, target)
	}
	for range writes {
		view, err := n.api.Read(ctx, of, also...)
		if err != nil {
			return eviction.Undone{}, err
		}
		w := n.surged(view, step.Member.PodUID, also)
		if w == nil {
			return eviction.Undone{Done: true}, nil
		}
		next, wait := w.undo(step.Member.PodUID)
		switch {
		case wait != "":
			return eviction.Undone{}, n.api.Renew(ctx)
		case next.none():
			return eviction.Undone{Done: true}, nil
		}
		if err := n.carryOut(ctx, w, next); err != nil && !apierrors.IsConflict(err) {
			return eviction.Undone{}, err
		}
	}
	return eviction.Undone{}, errBusy
}

// Close implements system.System.
func (n *namespace) Close() {}

func (n *namespace) carryOut(ctx context.Context, w *workload, next write) error {
	if next.scaleMin != nil {
		return n.api.ScaleMin(ctx, w.scaler, next.scaleMin.to, next.scaleMin.record)
	}
	return n.api.Scale(ctx, w.top, next.scale.to, next.scale.record)
}

// subject is the pod of a step and what is scaled for it; nil where either is not there.
func (n *namespace) subject(view snapshot.View, step eviction.Preparation) (*workload, *snapshot.Pod) {
	p := view.Cluster.Pod(step.Member.PodUID)
	if p == nil {
		return nil, nil
	}
	top := topOf(view.Cluster, p)
	if top == nil {
		return nil, nil
	}
	return n.rules.workloads(view)[top.UID], p
}

// surged is the workload whose surge is for the pod, or was begun for its step; nil where none is.
func (n *namespace) surged(view snapshot.View, pod types.UID, also []system.Target) *workload {
	all := n.rules.workloads(view)
	for _, top := range view.Cluster.Workloads() {
		w := all[top.UID]
		if w == nil {
			w = n.rules.of(view, top)
		}
		mine := isFor(top.Surge, pod) || w.scaler != nil && isFor(w.scaler.Surge, pod)
		if mine || slices.Contains(also, w.target()) {
			return w
		}
	}
	return nil
}

// isFor reports whether a record is of a surge for the pod.
func isFor(r *snapshot.SurgeRecord, pod types.UID) bool {
	return ours(r) && slices.Contains(r.For, pod)
}

// kept reports whether the workload is of a kind that cannot be found by its record alone.
func (w *workload) kept() bool { return w.top.APIGroup() != "apps" }

// mostJob is how long a job's id may be, as the policy's schema has it.
const mostJob = 253

// jobOf is what the work on a step is known by: "Deployment.apps/web". It is "" where that is too long.
func jobOf(t system.Target) string {
	id := t.String() + "/" + t.Name
	if len(id) > mostJob {
		return ""
	}
	return id
}

func targetOf(job string) (system.Target, bool) {
	kind, name, found := strings.Cut(job, "/")
	return system.Target{GroupKind: schema.ParseGroupKind(kind), Name: name}, found && name != ""
}
