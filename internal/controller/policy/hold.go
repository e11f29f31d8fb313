package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// undoPatience is how long the deletion of a policy waits for its preparations to be undone, and for a pod that it has let go to
// be seen gone. For one that stays it does not wait so long: by then its permit has ended.
const undoPatience = 10 * time.Minute

// hold keeps a policy from vanishing while there are preparations, or members that count as leaving, that only it remembers, but
// not for ever: a policy of the same name that is created meanwhile would let the next member go on what the system has not
// found out yet. While an eviction is wanted it lets go of nothing: the responder holds the policy before it begins a preparation. Nor
// while a permit stands, nor for releaseAfter from then on: who writes the first permit holds the policy just before, and would meet a
// conflict at each try. It returns when to look again, idle if there is nothing to wait for.
func (s *reconciler) hold(ctx context.Context, f *facts) (time.Duration, error) {
	policy, err := s.Gatherer.Policies.Policy(ctx, client.ObjectKeyFromObject(f.policy))
	if err != nil {
		return idle, client.IgnoreNotFound(err)
	}
	outstanding := s.outstanding(f, policy)
	deleted, held := policy.DeletionTimestamp != nil, slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer)
	needed := outstanding || !deleted && (f.wanted || len(policy.Status.Leaving) > 0)
	switch {
	case outstanding && deleted && f.locks(policy):
		return busy, nil // no event of nodes comes here
	case outstanding && deleted, !outstanding && !held, needed && held: // a policy that is being deleted takes no finalizer
		s.unneeded.forget(is(client.ObjectKeyFromObject(policy)))
		return idle, nil
	case !needed && !deleted:
		if wait := s.unneeded.wait(client.ObjectKeyFromObject(policy), releaseAfter, f.now); wait > 0 {
			return wait, nil
		}
	}
	return s.holdOrLetGo(ctx, f, policy, outstanding)
}

// holdOrLetGo writes the finalizer or takes it off, where it is not so already.
func (s *reconciler) holdOrLetGo(ctx context.Context, f *facts, policy *v1alpha1.EvictionPolicy, hold bool) (time.Duration, error) {
	if policy.DeletionTimestamp != nil && !hold {
		if locked, err := s.stillLocked(ctx, f, policy); err != nil || locked {
			return busy, err
		}
	}
	answer := s.Act.HoldPolicy(ctx, policy, hold)
	if answer.Code == answers.Conflict {
		return soon, s.Gatherer.Refresh(ctx, client.ObjectKeyFromObject(policy), policy.ResourceVersion)
	}
	return idle, accepted(answer, "holding policy", policy.Name)
}

// outstanding reports whether there is what the deletion of a policy would have to wait for. What it has waited for long enough is said to be left.
func (s *reconciler) outstanding(f *facts, policy *v1alpha1.EvictionPolicy) bool {
	prepared := len(policy.Status.Preparations) > 0
	if prepared && f.givenUp(policy) {
		s.warn(policy, "UndoGivenUp", "the policy goes although its system still has to take back: %s; see to it there", steps(policy))
		prepared = false
	}
	if f.lockGivenUp(policy) {
		s.warn(policy, "NodeLocksLeft", "the policy goes although what its nodeLock has written is left: %s; delete the requests, and take the locks off: kubectl annotate nodes --all %s", enumerate(f.locked, ", "), lockKeys(policy))
	}
	return prepared || f.remembers(s.Gatherer.Policies.Declared(policy)) || f.locks(policy)
}

// releaseAfter is how long a policy keeps its finalizer when nothing needs it any more: longer than a drain takes from one member to
// the next.
const releaseAfter = 10 * time.Minute

// locks reports whether a policy stays so that its locks are taken off nodes: as long as it may set some, and once it is being deleted until there are none,
// which is waited for no longer than for a preparation.
func (f *facts) locks(policy *v1alpha1.EvictionPolicy) bool {
	if policy.DeletionTimestamp == nil {
		return policy.Spec.NodeLock != nil && !policy.Spec.Audited() && slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer)
	}
	return f.locking(policy) || len(f.locked) > 0 && !f.lockGivenUp(policy)
}

// lockGrace is for how long locks of a policy may come to the cache once it is being deleted: one whose write is under way is on its node, or refused, by then.
const lockGrace = 15 * time.Second

// locking reports whether a lock may be on its way that was decided upon before the policy was deleted. Nothing would ever take it off. Nor is it known which are there where
// the policy was deleted while this look went on.
func (f *facts) locking(policy *v1alpha1.EvictionPolicy) bool {
	deleted := policy.DeletionTimestamp
	return f.mayLock && deleted != nil && f.now.Sub(deleted.Time) < lockGrace
}

// stillLocked reports whether nodes have locks of a policy that is being deleted, by a read past the cache, which shows none: once the policy is gone nothing takes them off.
func (s *reconciler) stillLocked(ctx context.Context, f *facts, policy *v1alpha1.EvictionPolicy) (bool, error) {
	if !s.Requests || policy.Spec.NodeLock == nil || f.now.Sub(policy.DeletionTimestamp.Time) > undoPatience {
		return false, nil
	}
	return wiring.LocksLeft(ctx, s.Gatherer.Live, client.ObjectKeyFromObject(policy))
}

func (f *facts) lockGivenUp(policy *v1alpha1.EvictionPolicy) bool {
	return policy.DeletionTimestamp != nil && len(f.locked) > 0 && f.now.Sub(policy.DeletionTimestamp.Time) > undoPatience
}

// lockKeys are the locks that members of a policy may have, as kubectl takes them off.
func lockKeys(policy *v1alpha1.EvictionPolicy) string {
	keys := make([]string, len(policy.Spec.NodeLock.Holders))
	for i, role := range policy.Spec.NodeLock.Holders {
		keys[i] = policy.Spec.NodeLock.LockPrefix + "/" + snapshot.NodeLockName(client.ObjectKeyFromObject(policy), role) + "-"
	}
	return strings.Join(keys, " ")
}

// locked names what is left on nodes of a policy that is being deleted, and whom it has asked to leave.
func (s *reconciler) locked(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]string, error) {
	if policy.DeletionTimestamp == nil || policy.Spec.NodeLock == nil || !s.Requests {
		return nil, nil
	}
	key := client.ObjectKeyFromObject(policy)
	nodes, err := wiring.LockedNodes(ctx, s.client, key)
	if err != nil {
		return nil, err
	}
	requests, err := wiring.NodeLockRequests(ctx, s.client, key)
	if err != nil {
		return nil, err
	}
	for _, request := range requests {
		if evictionrequest.Stands(request) && !evictionrequest.Settled(request) {
			nodes = append(nodes, "request "+request.Name)
		}
	}
	return nodes, nil
}

// givenUp: a namespace that is being deleted takes the members' system with it, or at least its pods.
func (f *facts) givenUp(policy *v1alpha1.EvictionPolicy) bool {
	deleted := policy.DeletionTimestamp
	return deleted != nil && (f.ending || policy.Spec.Suspend || f.now.Sub(deleted.Time) > undoPatience)
}

// remembers reports whether the policy's status alone says that a member counts as leaving, or is being replaced.
func (f *facts) remembers(policy eviction.Declared) bool {
	return len(f.settling(policy)) > 0 || len(policy.Status.Replacing) > 0 && !f.ending
}

// settling are the members for whose sake a policy stays: those that count as leaving by its status alone. Once it is being
// deleted it waits for each of them until that is over, and for a pod to be seen gone no longer than for a preparation. A namespace
// that is being deleted waits for none of them.
func (f *facts) settling(policy eviction.Declared) []eviction.Settling {
	if f.ending {
		return nil
	}
	members := eviction.SettlingMembers(&policy, f.now, f.known)
	return slices.DeleteFunc(members, func(m eviction.Settling) bool {
		return f.policy.DeletionTimestamp != nil && !f.now.Before(f.latest(m))
	})
}

// latest is until when the deletion of a policy waits for a member.
func (f *facts) latest(m eviction.Settling) time.Time {
	if m.Until.IsZero() {
		return f.policy.DeletionTimestamp.Add(undoPatience)
	}
	return m.Until
}

// deleting says what the deletion of the policy waits for, and for how long.
func (f *facts) deleting() (reason, message string) {
	var waits []string
	reason = ReasonUndoing
	if len(f.policy.Status.Preparations) > 0 {
		waits = append(waits, "its system has taken back: "+steps(f.policy))
	}
	if members := f.settling(f.own); len(members) > 0 {
		if len(waits) == 0 {
			reason = ReasonSettling
		}
		waits = append(waits, "its system had time to find out that members have left, unless Ready pods have their ids before (evict.settle) or their permits end unused: "+f.deadlines(members))
	}
	if len(f.policy.Status.Replacing) > 0 && !f.ending {
		waits = append(waits, "what is begun of replacements is over (kubectl get replacementrequests): "+replacing(f.policy))
	}
	if f.locking(f.policy) && len(f.locked) == 0 {
		waits = append(waits, "no lock of its members can be on its way to a node any more, at "+f.policy.DeletionTimestamp.Add(lockGrace).UTC().Format(time.RFC3339))
	} else if f.locks(f.policy) {
		waits = append(waits, "its locks are taken off nodes, for up to "+undoPatience.String()+" (status.nodeLock says what keeps it): "+enumerate(f.locked, ", "))
	}
	switch {
	case len(waits) == 0 && f.policy.Spec.NodeLock != nil:
		return reason, "the policy is being deleted, and Usher waits for nothing more than to see on all nodes that none has a lock of it"
	case len(waits) == 0:
		return reason, "the policy is being deleted, and Usher waits for nothing more"
	}
	return reason, "the policy is being deleted, which waits until " + strings.Join(waits, "; and until ")
}

// deadlines names members with the times until which they are waited for.
func (f *facts) deadlines(members []eviction.Settling) string {
	texts := make([]string, len(members))
	for i, m := range members {
		until := f.latest(m).UTC().Format(time.RFC3339)
		texts[i] = m.Pod + " until " + until
		if m.Until.IsZero() {
			texts[i] = fmt.Sprintf("%s until %s after it was seen gone, which is waited for until %s", m.Pod, m.Within, until)
		}
	}
	return enumerate(texts, ", ")
}

func steps(policy *v1alpha1.EvictionPolicy) string {
	names := make([]string, len(policy.Status.Preparations))
	for i := range policy.Status.Preparations {
		names[i] = policy.Status.Preparations[i].Name + " of " + policy.Status.Preparations[i].ID
	}
	return enumerate(names, ", ")
}

func replacing(policy *v1alpha1.EvictionPolicy) string {
	names := make([]string, len(policy.Status.Replacing))
	for i := range policy.Status.Replacing {
		names[i] = policy.Status.Replacing[i].Request + " of " + policy.Status.Replacing[i].ID
	}
	return enumerate(names, ", ")
}

func (s *reconciler) warn(policy *v1alpha1.EvictionPolicy, reason, note string, args ...any) {
	s.events.Eventf(policy, nil, corev1.EventTypeWarning, reason, "Tidy", "%s", act.EventNote(fmt.Sprintf(note, args...)))
}
