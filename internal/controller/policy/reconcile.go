package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"usher.sh/usher/internal/act"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

const (
	// idle is how often a status is renewed while nothing happens, busy while members are on their way, steps are taken
	// back or the system cannot be asked, firstAnswer while the system has not answered at all.
	idle        = 30 * time.Second
	busy        = 5 * time.Second
	firstAnswer = time.Second
	// soon is when to look again after another client has written the policy in between.
	soon = 50 * time.Millisecond
)

// facts is what is known of a policy at one moment.
type facts struct {
	now      time.Time
	policy   *v1alpha1.EvictionPolicy
	problems []eviction.Problem
	all      []eviction.Declared // the namespace's that are in the same mode
	own      eviction.Declared
	pods     []*snapshot.Pod
	peers    []*snapshot.Pod // those of pods that are on their way, or that the status names
	nodes    map[string]*snapshot.Node
	evidence *eviction.Evidence              // nil: the system has not answered yet
	known    map[types.UID]eviction.KnownFor // for how long this process has known the policy's permits
	guarded  bool                            // the namespace carries the label by which admission finds it
	ending   bool                            // the namespace is being deleted
	refusal  string                          // why labels could not be written, "" if they could
	wanted   bool                            // a pod of the namespace is wanted gone
	mayLock  bool                            // it has a nodeLock that is in force, or was until it was deleted
	locked   []string                        // of a policy that is being deleted: the nodes with its locks, and whom it asks to leave them
}

func (s *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	f, err := s.gather(ctx, key.NamespacedName)
	if apierrors.IsNotFound(err) {
		s.throttle.forget(key)
		s.unneeded.forget(is(key.NamespacedName))
		s.ran.set(key.NamespacedName, nil)
		s.permits.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	next, err := s.settle(ctx, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// settle does at every event what is no matter of judgement, since the next member may be waiting for it, and writes what is seen with
// that, or by itself. It returns when to look again.
func (s *reconciler) settle(ctx context.Context, f *facts) (time.Duration, error) {
	result, err := s.plan(ctx, f)
	at := slices.IndexFunc(result.Actions, settles)
	after := f
	if at >= 0 {
		after = f.after(result.Actions[at].Status)
	}
	seen, renewal := s.judged(after)
	if at >= 0 {
		if seen == nil {
			seen = after.unjudged()
		}
		result.Actions[at].Seen = seen
	}
	next := idle
	if err == nil {
		next, err = s.carryOut(ctx, f, result)
	}
	again, failed := s.hold(ctx, f)
	next, err = min(next, again, renewal), errors.Join(err, failed)
	if at < 0 && seen != nil && !result.Pending {
		again, failed = s.writeStatus(ctx, f, *seen)
		next, err = min(next, again), errors.Join(err, failed)
	}
	return next, err
}

// judged is what is seen, nil where that is what the status says or was judged a moment ago, and when to judge anew.
func (s *reconciler) judged(f *facts) (seen *v1alpha1.EvictionPolicyStatus, again time.Duration) {
	began := time.Now()
	if wait := s.throttle.wait(f.key(), began); wait > 0 {
		return nil, wait
	}
	defer func() { s.throttle.took(f.key(), time.Since(began)) }()
	if status := f.seen(); !same(&f.policy.Status, &status) {
		seen = &status
	}
	return seen, f.renewal()
}

// after is what is known where the part of the status by which evictions are let through is another.
func (f *facts) after(status *v1alpha1.EvictionPolicyStatus) *facts {
	changed := *f
	changed.policy = f.policy.DeepCopy()
	changed.policy.Status.Epoch, changed.policy.Status.Leaving = status.Epoch, status.Leaving
	changed.policy.Status.Departed, changed.policy.Status.Preparations = status.Departed, status.Preparations
	changed.policy.Status.Emptied, changed.policy.Status.Replacing = status.Emptied, status.Replacing
	changed.own.Status = &changed.policy.Status
	changed.all = slices.Clone(f.all)
	for i := range changed.all {
		if changed.all[i].Key == changed.own.Key {
			changed.all[i] = changed.own
		}
	}
	return &changed
}

func (s *reconciler) gather(ctx context.Context, key snapshot.Key) (*facts, error) {
	policyCache := s.Gatherer.Policies
	policy, err := policyCache.Policy(ctx, key)
	if err != nil {
		return nil, err
	}
	policies, err := s.beside(ctx, policy)
	if err != nil {
		return nil, err
	}
	pods, err := policyCache.Pods(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b *snapshot.Pod) int { return cmp.Compare(a.Name, b.Name) }) // who is judged before the time is spent
	own := policyCache.Declared(policy)
	f := &facts{
		now: s.Gatherer.Now(), policy: policy, problems: own.Policy.Problems(),
		all: s.declared(policies), own: own, pods: pods, evidence: s.Gatherer.Observer.Known(s.Gatherer.Policies.Source(policy)),
		nodes: map[string]*snapshot.Node{}, refusal: s.labelErrors.of(key.Namespace), known: s.permits.known(policy, nil, time.Now()),
	}
	if f.locked, err = s.locked(ctx, policy); err != nil {
		return nil, err
	}
	f.mayLock = s.Requests && policy.Spec.NodeLock != nil && !policy.Spec.Audited()
	label, _ := labels(policy)
	if f.guarded, f.ending, err = s.namespace(ctx, key.Namespace, label); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Terminating() || f.own.Names(pod.Name) {
			f.peers = append(f.peers, pod)
		}
		if _, known := f.nodes[pod.Node]; !known {
			if f.nodes[pod.Node], err = s.Gatherer.Node(ctx, pod.Node); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *facts) renewal() time.Duration {
	switch {
	case !f.guarded, f.evidence == nil && len(f.problems) == 0:
		return firstAnswer
	case f.evidence != nil && f.evidence.Error != "", f.refusal != "", len(f.policy.Status.Leaving) > 0, slices.ContainsFunc(f.policy.Status.Preparations, undoing):
		return busy
	}
	return idle
}

func undoing(p v1alpha1.PreparationStatus) bool { return p.State == v1alpha1.PreparationUndoing }

// plan is what can be settled.
func (s *reconciler) plan(ctx context.Context, f *facts) (eviction.StatusResult, error) {
	in := eviction.StatusInput{Now: f.now, Policy: f.own, Pods: f.pods, Ran: s.ran.of(f.own.Key), Ending: f.ending}
	in.Known = f.known
	in.UnderWay = s.Act.UnderWay(f.policy)
	in.Replies = s.Act.Replies(f.policy)
	if err := s.wanted(ctx, f, &in); err != nil {
		return eviction.StatusResult{}, err
	}
	var err error
	if in.Nodes, err = s.nodeStates(ctx, f); err != nil {
		return eviction.StatusResult{}, err
	}
	if unconfirmed := eviction.LiveReads(in); len(unconfirmed) > 0 {
		if in.Presences, in.Gone, err = s.presences(ctx, f, unconfirmed); err != nil {
			return eviction.StatusResult{}, err
		}
		in.Known = s.permits.known(f.policy, in.Gone, time.Now())
	}
	result := eviction.ReconcileStatus(in)
	s.lose(ctx, f, &in, &result)
	return result, nil
}

// carryOut settles it, and returns when to look again.
func (s *reconciler) carryOut(ctx context.Context, f *facts, result eviction.StatusResult) (time.Duration, error) {
	act.RecordNotUndone(s.events, f.policy, result.Actions)
	if !slices.ContainsFunc(result.Actions, settles) {
		s.noteRunning(f)
	}
	for _, action := range result.Actions {
		if action.Kind == eviction.Prepare && !s.staysOff(ctx, action.Step.Member.Node) {
			continue
		}
		answer := s.Act.Do(ctx, action)
		if action.Seen != nil && refused(answer) { // who may leave does not depend on what is said of it
			s.warn(f.policy, "StatusRefused", "what is seen of the members cannot be written: %s", answer.Message)
			action.Seen = nil
			answer = s.Act.Do(ctx, action)
		}
		switch {
		case answer.Code == answers.Conflict:
			return soon, s.Gatherer.Refresh(ctx, client.ObjectKeyFromObject(f.policy), action.Version)
		case answer.Code != answers.Accepted && !action.BestEffort:
			s.warn(f.policy, "TidyFailed", "%s: %s", action.Why, answer.Message)
			return busy, nil
		case action.Seen != nil:
			s.wrote(f, *action.Seen, answer)
		}
		if settles(action) {
			s.throttle.settles(f.key(), time.Now())
			s.noteRunning(f)
		}
	}
	if result.NextLook.IsZero() {
		return idle, nil
	}
	return max(soon, result.NextLook.Sub(s.Gatherer.Now())), nil
}

func settles(a eviction.Action) bool { return a.Kind == eviction.Settle }

// noteRunning remembers which members run, once what became of the others has been written.
func (s *reconciler) noteRunning(f *facts) {
	if f.ending || f.policy.Spec.Audited() {
		s.ran.set(f.own.Key, nil)
		return
	}
	s.ran.set(f.own.Key, eviction.RunningMembers(f.own, f.pods))
}

// refused reports whether a write will be refused again as it is.
func refused(answer answers.Answer) bool {
	return answer.Code == answers.Rejected || answer.Code == answers.Denied || answer.Code == answers.Forbidden
}
