package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/text"
)

// reason is why a service is disabled. It is how Usher knows its own work again, whichever process looks.
func (r *region) reason() string {
	return ushers + r.owner + "): its servers are moved to other hosts"
}

func (r *region) isUshers(reason string) bool {
	return strings.HasPrefix(reason, r.reason())
}

// Prepare implements system.System. The first call disables the service, or marks the agent, and returns the job; the calls that bring it back move what is
// there: so what they begin is known to be the step's own, even where their answers are lost.
func (r *region) Prepare(ctx context.Context, step eviction.Preparation) (job eviction.Job, err error) {
	kind, ofAgent := agentSteps[step.Name]
	end, err := r.turn(ctx, step.Member.ID, kind)
	if err != nil {
		return job, err
	}
	defer end()
	switch {
	case step.Name == MoveServers:
		job, err = r.moveServers(ctx, step)
	case step.Name == EvacuateServers:
		job, err = r.evacuateServers(ctx, step)
	case ofAgent:
		job, err = r.emptyAgent(ctx, step, kind)
	default:
		err = fmt.Errorf("%w: OpenStack has no such step", system.ErrTerminal)
	}
	if err != nil {
		return job, fmt.Errorf("asking for %s of %s: %w", step.Name, step.Member.ID, err)
	}
	return job, nil
}

func (r *region) moveServers(ctx context.Context, step eviction.Preparation) (eviction.Job, error) {
	n, l, err := r.lookAt(ctx, step.Member.ID)
	if err != nil {
		return eviction.Job{}, err
	}
	plan := l.Plan()
	if plan.Problem != "" {
		return eviction.Job{}, errors.New(plan.Problem)
	}
	job := eviction.Job{ID: step.Job.ID, Found: step.Job.Found}
	if !job.Own() {
		job = jobAfter(l)
	}
	switch {
	case plan.Hypervisor.Enabled:
		job.Progress = eviction.ProgressSoon
		return job, r.set(ctx, n, plan.Hypervisor.Service, r.reason())
	case plan.Empty:
		job.Progress = eviction.ProgressDone
	case !step.Job.Own():
		job.Progress = eviction.ProgressSoon
	default:
		err = r.send(ctx, n, plan.Next)
	}
	return job, err
}

// lookAt looks at one host.
func (r *region) lookAt(ctx context.Context, host string) (*nova, *compute.Look, error) {
	n, err := r.session.compute(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := n.hypervisors(ctx)
	if err != nil {
		return nil, nil, err
	}
	l, err := r.look(ctx, n, host, all, true)
	return n, l, err
}

// jobPrefix begins a job's id, and the number of the last migration before it ends it.
const jobPrefix = "migrations after "

func jobAfter(l *compute.Look) eviction.Job {
	var last int64
	for i := range l.Migrations {
		last = max(last, l.Migrations[i].ID)
	}
	return eviction.Job{ID: jobPrefix + strconv.FormatInt(last, 10)}
}

// after is the last migration before a job. Without a job none is the step's own.
func after(job eviction.Job) (last int64, known bool) {
	number, isJob := strings.CutPrefix(job.ID, jobPrefix)
	last, err := strconv.ParseInt(number, 10, 64)
	return last, isJob && err == nil && job.Own()
}

// set changes a service.
func (r *region) set(ctx context.Context, n *nova, service, reason string) error {
	return r.final(n.setService(ctx, service, reason))
}

// send asks for what is next, each thing once. That a server is not moved is remembered, shows in the evidence, and does not keep others waiting. An
// answer that was lost ends it: the next call looks at what has come of that.
func (r *region) send(ctx context.Context, n *nova, next []compute.Call) error {
	var refusals []error
	for _, call := range next {
		moves := call.Do == compute.LiveMigrate || call.Do == compute.ColdMigrate || call.Do == compute.Evacuate
		if moves {
			r.note(call, "")
		}
		err := n.ask(ctx, call)
		refused, answered := errors.AsType[*refusal](err)
		switch {
		case err == nil || answered && refused.status == http.StatusNotFound:
			// Taken, or the server is gone; either shows.
		case !answered || refused.status >= http.StatusInternalServerError || refused.status == http.StatusUnauthorized:
			if moves && unsent(err) {
				r.forget(call)
			}
			return fmt.Errorf("to %s %s: %w", call.Do, call.Name, err)
		case moves:
			r.note(call, refused.Error())
		default:
			refusals = append(refusals, fmt.Errorf("to %s %s: %w", call.Do, call.Name, err))
		}
	}
	return first(refusals)
}

// unsent reports whether a request has certainly not arrived.
func unsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// note remembers a request, before it is sent, and its refusal.
func (r *region) note(call compute.Call, refused string) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.asked, func(_ string, ask compute.Ask) bool { return now.Sub(ask.Time) >= compute.Again })
	r.asked[call.Server] = compute.Ask{Time: now, After: call.After, Refused: refused}
}

func (r *region) forget(call compute.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, call.Server)
}

// Undo implements system.System.
func (r *region) Undo(ctx context.Context, step eviction.Preparation) (undone eviction.Undone, err error) {
	kind, ofAgent := agentSteps[step.Name]
	end, err := r.turn(ctx, step.Member.ID, kind)
	if err != nil {
		return undone, err
	}
	defer end()
	switch {
	case step.Name == MoveServers:
		undone, err = r.stayOpen(ctx, step)
	case step.Name == EvacuateServers:
		undone, err = r.giveBack(ctx, step)
	case ofAgent:
		undone, err = r.refillAgent(ctx, step, kind)
	default:
		return eviction.Undone{Done: true}, nil
	}
	if err != nil {
		return eviction.Undone{}, fmt.Errorf("taking back %s of %s: %w", step.Name, step.Member.ID, err)
	}
	return undone, nil
}

// stayOpen takes back what was begun. It is done only when a look shows that: each call looks first.
func (r *region) stayOpen(ctx context.Context, step eviction.Preparation) (eviction.Undone, error) {
	n, l, err := r.lookAt(ctx, step.Member.ID)
	if err != nil {
		return eviction.Undone{}, err
	}
	last, known := after(step.Job)
	if !known {
		last = math.MaxInt64 // nothing was moved before the job was known
	}
	// A host that has died meanwhile is given back by another step, to what was there before: not to this one.
	if h := l.Own(); h != nil {
		if reason, begun := afterwards(h.Reason, r.reason()); begun {
			return eviction.Undone{}, r.set(ctx, n, h.Service, reason)
		}
	}
	undo := l.Undo(last, r.isUshers)
	if undo.Done() {
		return eviction.Undone{Done: true, Left: undo.Left}, nil
	}
	if undo.Service != "" {
		if err := r.set(ctx, n, undo.Service, ""); err != nil {
			return eviction.Undone{}, err
		}
	}
	if err := r.send(ctx, n, undo.Next); err != nil {
		return eviction.Undone{}, err
	}
	if len(undo.Runs) > 0 {
		return eviction.Undone{}, fmt.Errorf("waiting for what runs to end: %s", text.List(undo.Runs, 5))
	}
	return eviction.Undone{}, nil
}
