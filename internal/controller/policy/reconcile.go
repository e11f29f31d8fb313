package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/governed"
	"usher.sh/usher/internal/snapshot"
)

const (
	// idle is how often a status is renewed while nothing happens, busy while members are on their way, steps are taken
	// back or the system cannot be asked, firstAnswer while the system has not answered at all.
	idle        = 30 * time.Second
	busy        = 5 * time.Second
	firstAnswer = time.Second
	// soon is when to look again after somebody else has written the policy in between.
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
	evidence *eviction.Evidence // nil: the system has not answered yet
	guarded  bool               // the namespace carries the label by which admission finds it
	ending   bool               // the namespace is being deleted
	refusal  string             // why labels could not be written, "" if they could
	wanted   bool               // somebody wants a pod of the namespace gone
}

func (s *shell) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	f, err := s.gather(ctx, key.NamespacedName)
	if apierrors.IsNotFound(err) {
		s.pace.forget(key)
		s.unneeded.forget(is(key.NamespacedName))
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	next, err := s.settle(ctx, f)
	began := time.Now()
	again := s.pace.wait(key, began)
	if again == 0 {
		again, err = f.renewal(), errors.Join(err, s.writeStatus(ctx, f))
		s.pace.took(key, time.Since(began))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(next, again)}, nil
}

// settle does what is no matter of judgement, at every event, since the next member may be waiting for it.
func (s *shell) settle(ctx context.Context, f *facts) (next time.Duration, err error) {
	if next, err = s.tidy(ctx, f); err != nil {
		return 0, err
	}
	again, err := s.hold(ctx, f)
	return min(next, again), err
}

func (s *shell) gather(ctx context.Context, key snapshot.Key) (*facts, error) {
	book := s.Gatherer.Book
	policy, err := book.Policy(ctx, key)
	if err != nil {
		return nil, err
	}
	policies, err := s.beside(ctx, policy)
	if err != nil {
		return nil, err
	}
	pods, err := book.Pods(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b *snapshot.Pod) int { return cmp.Compare(a.Name, b.Name) }) // who is judged before the time is spent
	own := book.Declared(policy)
	f := &facts{
		now: s.Gatherer.Now(), policy: policy, problems: own.Policy.Problems(),
		all: s.declared(policies), own: own, pods: pods, evidence: s.Gatherer.Keeper.Known(s.Gatherer.Book.Source(policy)),
		nodes: map[string]*snapshot.Node{}, refusal: s.refusals.of(key.Namespace),
	}
	label, _ := labels(policy)
	if f.guarded, f.ending, err = s.namespace(ctx, key.Namespace, label); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Terminating() || f.names(pod) {
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

// names reports whether the status speaks of the pod.
func (f *facts) names(pod *snapshot.Pod) bool {
	leaving := func(l v1alpha1.Leaving) bool { return l.PodName == pod.Name }
	prepared := func(p v1alpha1.PreparationStatus) bool { return p.PodName == pod.Name }
	return slices.ContainsFunc(f.policy.Status.Leaving, leaving) || slices.ContainsFunc(f.policy.Status.Preparations, prepared)
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

// tidy carries out what can be settled, and returns when to look again.
func (s *shell) tidy(ctx context.Context, f *facts) (time.Duration, error) {
	in := eviction.TidyInput{Now: f.now, Policy: f.own, Pods: f.pods, Replies: s.Act.Replies(f.policy)}
	if err := s.wanted(ctx, f, &in); err != nil {
		return 0, err
	}
	result := eviction.Tidy(in)
	if len(result.Confirm) > 0 {
		var err error
		if in.Sights, err = s.sights(ctx, f.policy.UID, result.Confirm); err != nil {
			return 0, err
		}
		result = eviction.Tidy(in)
	}
	governed.TellLeft(s.events, f.policy, result.Actions)
	action, answer := s.Act.DoAll(ctx, result.Actions)
	switch answer.Code {
	case drain.Accepted:
	case drain.Conflict:
		return soon, s.Gatherer.Refresh(ctx, client.ObjectKeyFromObject(f.policy))
	default:
		s.warn(f.policy, "TidyFailed", "%s: %s", action.Why, answer.Message)
		return busy, nil
	}
	if result.NextLook.IsZero() {
		return idle, nil
	}
	return max(soon, result.NextLook.Sub(s.Gatherer.Now())), nil
}
