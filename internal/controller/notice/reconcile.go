package notice

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
)

type reconciler struct {
	sources

	events   events.EventRecorder
	reported map[string]bool // names of the notices that have their events, by this process
	rejected string          // the version of the configuration that was last said to be wrong
}

// failedAgain is when what could not be written is tried again. One key stands for all notices, so that a delay which grows would hold them all for what one
// webhook has refused.
const failedAgain = 10 * time.Second

// racedAgain is when what had changed meanwhile is looked at again: no event comes of a status that changed.
const racedAgain = time.Second

func (r *reconciler) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	config, err := r.configuration(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	in := notice.Input{Now: r.Now(), Config: config.Config, Reported: r.reported}
	if in.Nodes, in.Maintenances, err = r.facts(ctx, r.client); err != nil {
		return reconcile.Result{}, err
	}
	machines, err := r.machines(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var next time.Time
	if config.wrong == nil {
		in.Notices, next = config.Observed(in.Nodes, in.Now)
		in.Complete = []notice.Source{notice.Kubelet, notice.Condition, notice.Taint, notice.ClusterAPI}
		in.Notices = append(in.Notices, notice.ByMachines(machines, in.Maintenances)...)
	} else {
		r.reject(config)
	}
	decision := notice.Decide(in)
	next = earlier(next, decision.Next)
	failed := r.carryOut(ctx, &decision)
	for name, answer := range failed {
		if answer.Code == answers.Conflict { // the cache is behind, as it is while the status of a maintenance changes
			next = earlier(next, in.Now.Add(racedAgain))
			continue
		}
		r.Log.Error("something of a notice is not done; it is tried again", "notice", name, "after", failedAgain, "code", answer.Code, "why", answer.Message)
		next = earlier(next, in.Now.Add(failedAgain))
	}
	r.remember(&decision, failed)
	if config.wrong == nil {
		next = earlier(next, r.release(ctx, &in, machines))
	}
	if next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(in.Now), time.Millisecond)}, nil
}

// machines are those that are being deleted; none where they are not followed.
func (r *reconciler) machines(ctx context.Context) ([]notice.Machine, error) {
	if r.Machines == nil {
		return nil, nil
	}
	return r.Machines.List(ctx)
}

// release takes the hook off Machines that are to be waited for no longer, and says when to look again.
func (r *reconciler) release(ctx context.Context, in *notice.Input, machines []notice.Machine) time.Time {
	releases, next := in.Config.Releases(machines, in.Nodes, in.Maintenances, in.Now)
	for i := range releases {
		m := &releases[i].Machine
		answer := r.Act.Release(ctx, r.Machines.Kind, m)
		switch answer.Code {
		case answers.Accepted:
			r.Log.Info("a Machine is held no longer", "machine", m.Namespace+"/"+m.Name, "node", m.Node, "why", releases[i].Why)
		case answers.Gone:
		case answers.Conflict:
			next = earlier(next, in.Now.Add(racedAgain))
		default:
			r.Log.Error("the hook of a Machine is not taken off; it is tried again", "machine", m.Namespace+"/"+m.Name, "after", failedAgain, "code", answer.Code, "why", answer.Message)
			next = earlier(next, in.Now.Add(failedAgain))
		}
	}
	return next
}

// remember notes which notices have their events, of those that stand.
func (r *reconciler) remember(d *notice.Decision, failed map[string]answers.Answer) {
	reported := map[string]bool{}
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if _, not := failed[o.Name()]; o.Result == notice.Reports && !not {
			reported[o.Name()] = true
		}
	}
	r.reported = reported
}

// reject says what is wrong with the configuration. What earlier ones have led to stays: which of it is to go is not known.
func (r *reconciler) reject(c configuration) {
	if r.rejected == c.written.ResourceVersion {
		return
	}
	r.rejected = c.written.ResourceVersion
	r.Log.Error("the configuration of notices is not used", "configMap", notice.ConfigName, "why", c.wrong.Error())
	r.events.Eventf(c.written, nil, corev1.EventTypeWarning, "BadConfiguration", act.EventAction("Parse", r.rejected), "%s",
		act.EventNote("notices are made by no rule until this is mended, and what was begun stays: "+c.wrong.Error()))
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
