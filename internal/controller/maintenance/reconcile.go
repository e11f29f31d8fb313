package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
)

type reconciler struct {
	Options

	client client.Reader // through the cache
	live   client.Reader
	drains *Drains
	calls  *calls
}

func (r *reconciler) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	in, objects, err := r.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := maintenance.Decide(in)
	// A write that fails stops nothing else: the decision goes by what is in the API, so that what needs the write waits for it.
	failed := r.write(ctx, objects, decision)
	next, err := r.carryOut(ctx, in, decision)
	if err := errors.Join(failed, err); err != nil {
		r.Log.Error("something of the maintenances is not done; it is tried again", "after", failedAgain, "error", err)
		next = earlier(next, in.Now.Add(failedAgain))
	}
	if next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(in.Now), time.Millisecond)}, nil
}

// failedAgain is when what could not be written is tried again. One key stands for all maintenances, so that a delay which grows would
// hold them all for what one tenant or webhook has refused.
const failedAgain = 10 * time.Second

// gather reads what the decision goes by.
func (r *reconciler) gather(ctx context.Context) (maintenance.Input, map[string]*v1alpha1.NodeMaintenance, error) {
	in := maintenance.Input{Now: r.Now(), Drains: r.drains.States(), Calls: r.calls.states()}
	var all v1alpha1.NodeMaintenanceList
	if err := r.client.List(ctx, &all); err != nil {
		return in, nil, fmt.Errorf("listing maintenances: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return in, nil, fmt.Errorf("listing nodes: %w", err)
	}
	objects := make(map[string]*v1alpha1.NodeMaintenance, len(all.Items))
	for i := range all.Items {
		m := &all.Items[i]
		in.Maintenances, objects[m.Name] = append(in.Maintenances, m), m
	}
	for i := range nodes.Items {
		in.Nodes = append(in.Nodes, nodeFacts(&nodes.Items[i]))
	}
	return in, objects, nil
}

func nodeFacts(node *corev1.Node) *maintenance.Node {
	return &maintenance.Node{
		Node: observe.NodeFacts(node), ProviderID: node.Spec.ProviderID,
		BootID: node.Status.NodeInfo.BootID, KubeletVersion: node.Status.NodeInfo.KubeletVersion, Conditions: node.Status.Conditions,
	}
}

// write writes statuses and finalizers. A lost race is no error: the object's event brings another look.
func (r *reconciler) write(ctx context.Context, objects map[string]*v1alpha1.NodeMaintenance, decision maintenance.Decision) error {
	var failed []error
	note := func(what, name string, answer answers.Answer) {
		if answer.Code != answers.Accepted && answer.Code != answers.Conflict && answer.Code != answers.Gone {
			failed = append(failed, fmt.Errorf("writing the %s of NodeMaintenance %s: %s: %s", what, name, answer.Code, answer.Message))
		}
	}
	for name, status := range decision.Statuses {
		note("status", name, r.Act.WriteStatus(ctx, objects[name], status))
	}
	for _, name := range decision.Adopt {
		note("finalizer", name, r.Act.Hold(ctx, objects[name], true))
	}
	for _, name := range decision.Release {
		note("finalizer", name, r.Act.Hold(ctx, objects[name], false))
	}
	return errors.Join(failed...)
}

// carryOut does what was decided about nodes, and says when to look again.
func (r *reconciler) carryOut(ctx context.Context, in maintenance.Input, decision maintenance.Decision) (time.Time, error) {
	next := decision.Next
	var failed []error
	idle := r.drains.Apply(in, decision.Orders) //nolint:contextcheck // drains outlive the reconciliation that begins them
	next = earlier(next, idle.next)
	for _, node := range idle.giveBack {
		r.drains.giveBackApart(node, func(ctx context.Context) error { return r.giveBack(ctx, node) })
	}
	for _, c := range decision.Conditions {
		answer := r.Act.SetConditions(ctx, c)
		switch answer.Code {
		case answers.Accepted, answers.Gone, answers.Conflict:
		case answers.Forbidden: // the conditions are for others; a node is drained without them
			r.Log.Debug("conditions of a node cannot be set", "node", c.Node, "why", answer.Message)
		default:
			failed = append(failed, fmt.Errorf("setting conditions of node %s: %s: %s", c.Node, answer.Code, answer.Message))
		}
	}
	for i := range decision.Marks {
		again, err := r.mark(ctx, &decision.Marks[i])
		next, failed = earlier(next, again), append(failed, err)
	}
	failed = append(failed, r.withdrawLeftOver(ctx, &in))
	next = earlier(next, r.calls.make(ctx, r, decision))
	return next, errors.Join(failed...)
}

// racedAgain is when a node that has changed meanwhile is looked at again: no event comes of what kubelets write.
const racedAgain = time.Second

// mark sets on a node what maintenances want there beside drains, and takes back what none wants. The node is read anew: the cache has not whose its
// cordon is, and lags behind.
func (r *reconciler) mark(ctx context.Context, m *maintenance.Marks) (again time.Time, err error) {
	node := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKey{Name: m.Node}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return time.Time{}, nil
		}
		return time.Time{}, fmt.Errorf("reading node %s: %w", m.Node, err)
	}
	change := m.On(observe.NodeFacts(node))
	if change == nil {
		return time.Time{}, nil
	}
	switch answer := r.Act.SetMarks(ctx, node, change); answer.Code {
	case answers.Accepted, answers.Gone:
		return time.Time{}, nil
	case answers.Conflict:
		return r.Now().Add(racedAgain), nil
	default:
		return time.Time{}, fmt.Errorf("writing on node %s what NodeMaintenances set there: %s: %s", m.Node, answer.Code, answer.Message)
	}
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
