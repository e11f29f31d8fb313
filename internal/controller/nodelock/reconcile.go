package nodelock

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodelock"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

const (
	// mostWrites is how many nodes are written at one look: the first look at a running cloud has all of them to write.
	mostWrites = 100
	// afterRefusal is when a write is tried again that was refused: it will hardly be accepted sooner.
	afterRefusal = 30 * time.Second
	// afterSilence is when one is tried again that was not answered: the apiserver may have been away for a moment, and holders have no lock meanwhile.
	afterSilence = 5 * time.Second
)

// ImpersonateRole is the ClusterRole that a namespace binds to the manager so that it acts as one of its ServiceAccounts.
const ImpersonateRole = "usher-node-locks-impersonate"

// ends reports whether what was written on nodes for a policy is taken back: it declares nothing, is only audited or is being deleted.
func ends(policy *v1alpha1.EvictionPolicy) bool {
	return policy.Spec.NodeLock == nil || policy.Spec.Audited() || policy.DeletionTimestamp != nil
}

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	policy, err := r.Gatherer.Policies.Policy(ctx, key.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil || r.rests(policy) {
		return reconcile.Result{}, err
	}
	if wait := r.early(key.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	in, err := r.gather(ctx, policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	decided := nodelock.Decide(in)
	l := &look{r: r, policy: policy, in: in, blockers: decided.Blockers}
	if err = l.ask(ctx, decided.Leave); err == nil || !ends(policy) { // by its locks it is known that something is left to take back
		err = errors.Join(err, l.write(ctx, decided.Writes))
	}
	err = errors.Join(err, l.report(ctx))
	if !decided.NextLook.IsZero() {
		l.again(max(pause, decided.NextLook.Sub(r.Now())))
	}
	return reconcile.Result{RequeueAfter: l.next}, err
}

// rests reports whether nothing is written for a policy, and nothing taken back: its owner has suspended it, or it cannot be used.
func (r *reconciler) rests(policy *v1alpha1.EvictionPolicy) bool {
	return !ends(policy) && (policy.Spec.Suspend || len(r.Gatherer.Policies.Compiled(policy).Problems()) > 0)
}

// look is one look at a policy.
type look struct {
	r        *reconciler
	policy   *v1alpha1.EvictionPolicy
	in       nodelock.Input
	blockers []v1alpha1.NodeLockBlocker
	next     time.Duration // 0: only when something happens
	held     bool
}

func (l *look) again(after time.Duration) {
	if l.next == 0 || after < l.next {
		l.next = after
	}
}

// write carries out what was decided for nodes, until something is refused that would be refused for all.
func (l *look) write(ctx context.Context, writes []nodelock.Write) error {
	for i := range writes {
		if i == mostWrites {
			l.again(pause)
			return nil
		}
		write := &writes[i]
		if write.Unlocks() && l.in.Lock != nil {
			var err error
			if write, err = l.r.confirmed(ctx, l.policy, l.in, write.Node); err != nil {
				return err
			}
		}
		if write == nil {
			continue
		}
		if going, err := l.one(ctx, write); err != nil || !going {
			return err
		}
	}
	return nil
}

// one writes on one node, and reports whether the others are worth a try.
func (l *look) one(ctx context.Context, write *nodelock.Write) (bool, error) {
	if write.Locks() {
		if may, err := l.mayBegin(ctx); err != nil || !may {
			return false, err
		}
	}
	version, answer := l.r.Act.Write(ctx, l.policy, write)
	switch answer.Code {
	case answers.Accepted:
		l.r.wrote(l.in.Policy, write.Node.UID, nodelock.Written{At: l.in.Now, Version: version, Values: write.Values()})
		return true, nil
	case answers.Conflict, answers.Gone:
		l.again(pause)
		return true, nil
	case answers.Forbidden:
		l.refused("", &answer, l.grant(answer.Message))
		return false, nil
	case answers.Denied, answers.Rejected, answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.NamespaceTerminating,
		answers.Unavailable:
	}
	l.refused(write.Node.Name, &answer, "it is tried again; see what refuses it, or the log of usher's manager")
	return true, nil
}

// mayBegin reports whether locks may be set, and holders asked to leave: as long as the policy is not being deleted by what is known now, and once its deletion waits until that is
// taken back. Before the first of them it is read past the cache, which may show one that is gone, for which nothing would.
func (l *look) mayBegin(ctx context.Context) (bool, error) {
	policy, err := l.r.Gatherer.Policies.Policy(ctx, l.in.Policy)
	if err != nil || ends(policy) { // which wakes the controller
		return false, client.IgnoreNotFound(err)
	}
	if l.held {
		return true, nil
	}
	var live v1alpha1.EvictionPolicy
	if err := l.r.live.Get(ctx, l.in.Policy, &live); err != nil || live.UID != l.policy.UID || ends(&live) {
		return false, client.IgnoreNotFound(err)
	}
	return l.hold(ctx)
}

// hold has the policy's deletion wait until its locks are taken off, before the first is set.
func (l *look) hold(ctx context.Context) (bool, error) {
	answer := l.r.Governed.HoldPolicy(ctx, l.policy, true)
	switch answer.Code {
	case answers.Accepted:
		l.held = true
		return true, nil
	case answers.Conflict:
		l.again(pause)
		return false, l.r.Gatherer.Refresh(ctx, l.in.Policy, l.policy.ResourceVersion)
	default:
		l.refused("", &answer, "see what refuses the finalizer "+v1alpha1.UndoFinalizer+" on the policy: locks are set only where its deletion takes them off")
		return false, nil
	}
}

func (l *look) refused(node string, answer *answers.Answer, remedy string) {
	l.blockers = append(l.blockers, nodelock.Refused(node, text.Line(cmp.Or(answer.Message, string(answer.Code))), remedy))
	if answer.Code == answers.Unavailable {
		l.again(afterSilence)
	}
	l.again(afterRefusal)
}

// grant is how the right that a refusal names is given: to act as the ServiceAccount, or to what the ServiceAccount does.
func (l *look) grant(said string) string {
	if strings.Contains(said, "impersonate") {
		return observe.BindManagerIn(l.policy.Namespace, ImpersonateRole, l.r.Self)
	}
	return "have an admin of the cluster give ServiceAccount " + l.policy.Spec.ServiceAccountName + " of namespace " + l.policy.Namespace + " the verb patch on nodes"
}

// report writes what keeps nodes from being written, where that is not what the policy says.
func (l *look) report(ctx context.Context) error {
	policy, err := l.r.Gatherer.Policies.Policy(ctx, l.in.Policy) // which may have been held
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	var status *v1alpha1.NodeLockStatus
	if len(l.blockers) > 0 {
		status = &v1alpha1.NodeLockStatus{Blockers: l.blockers[:min(len(l.blockers), nodelock.MostBlockers)]}
	}
	if equality.Semantic.DeepEqual(policy.Status.NodeLock, status) {
		return nil
	}
	switch answer := l.r.Act.WriteStatus(ctx, policy, status); answer.Code {
	case answers.Accepted, answers.Gone:
		return nil
	case answers.Conflict:
		l.again(pause)
		return nil
	default:
		return errors.New("writing what keeps nodes from being locked: " + cmp.Or(answer.Message, string(answer.Code)))
	}
}
