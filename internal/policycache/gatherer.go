package policycache

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// Gatherer makes the input of verdicts.
type Gatherer struct {
	Policies *Cache
	Observer *Observer
	// Live reads past the cache.
	Live client.Reader
	// Now is the apiserver's clock; the Observer must have the same.
	Now func() time.Time
	// Gone remembers the pods that were seen gone; nil: none.
	Gone *Departed
	// Holds returns the requests of maintenances for a pod, and how long its namespace may hold them; nil: none, and for ever.
	Holds func(ctx context.Context, pod *snapshot.Pod) ([]eviction.Held, []snapshot.HoldLimit, error)

	read readNodes
}

// Track keeps what a policy's system says up to date, while the Observer runs. It is called again whenever the policy has changed.
func (g *Gatherer) Track(policy *v1alpha1.EvictionPolicy) {
	g.Observer.Track(g.Policies.Source(policy))
}

// Forget drops all that is held of a policy that is gone: compiled, written, and what its system said.
func (g *Gatherer) Forget(uid types.UID) {
	g.Observer.Forget(uid)
	g.Policies.forget(uid)
}

// Ended has no verdict rest on what a governed pod's system said while that ran: a member that went without a permit is counted as on its way
// as long as its pod terminates, and its end changes no epoch where its role gives no time to settle. Before is the pod that was seen
// last, after what it has become, nil if it is gone.
func (g *Gatherer) Ended(ctx context.Context, before, after *corev1.Pod) {
	if after != nil && after.UID == before.UID && (!finished(after) || finished(before)) {
		return
	}
	for _, label := range []string{v1alpha1.PolicyLabel, v1alpha1.AuditLabel} {
		name, labelled := before.Labels[label]
		if !labelled {
			continue
		}
		policy, err := g.Policies.Policy(ctx, client.ObjectKey{Namespace: before.Namespace, Name: name})
		if err == nil {
			g.Observer.Outdate(policy.UID)
		}
	}
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Subject is the pod that is to be decided about.
type Subject struct {
	Pod *corev1.Pod
	// Fresh says that Pod does not come from a cache.
	Fresh bool
	// FreshNode asks for the pod's node past the cache.
	FreshNode bool
	// ReadNode is the pod's node as it was read past the cache; nil: it is read where FreshNode asks for it.
	ReadNode *corev1.Node
	// FreshMembers asks for the members past the cache where a verdict rests on which are Ready, and for the pod's node where it rests on the locks
	// that are there: a cache whose watch hangs shows Ready what has crashed since.
	FreshMembers bool
	// Deleted says that the pod was seen gone.
	Deleted bool
	// Replace says that the verdict on a replacement is asked for too.
	Replace bool
	// Audit asks for the policies in mode Audit in place of those in mode Enforce.
	Audit bool
}

// Input gathers what is known of a pod. Policies and pods come from the cache; the system is asked only where the
// evidence is too old, and not longer than ctx lasts. A pod that no policy of its namespace claims has no evidence.
func (g *Gatherer) Input(ctx context.Context, of Subject) (eviction.Input, error) {
	pod := Facts(of.Pod)
	in := eviction.Input{Pod: pod, Fresh: of.Fresh, Deleted: of.Deleted}
	list := g.Policies.Policies
	if of.Audit {
		list = g.Policies.Audited
	}
	policies, err := list(ctx, pod.Namespace)
	if err != nil {
		return in, err
	}
	if Reduced(of.Pod) && len(policies) > 0 { // the first policy has come after the pod was read
		return in, fmt.Errorf("reading pod %s: only a part of it is known yet", pod.Key())
	}
	in.Policies = g.Policies.declaredAll(policies)
	claims := eviction.Claims(in.Policies, pod)
	if len(claims) > 0 {
		if err := g.surroundings(ctx, of, policies, claims, &in); err != nil {
			return in, err
		}
	}
	if in.Holds, in.HoldLimits, err = g.holds(ctx, pod, claims); err != nil {
		return in, err
	}
	if len(claims) == 1 {
		if in.NodeOff, err = g.off(ctx, pod.Node, of.ReadNode); err != nil {
			return in, err
		}
		in.Evidence = g.evidence(ctx, policies, claims[0], of.Replace || in.NodeOff)
	}
	in.Now = g.Now()
	return in, nil
}

// surroundings gathers the node of a pod that is claimed, its peers, and the members of its policies.
func (g *Gatherer) surroundings(ctx context.Context, of Subject, policies []*v1alpha1.EvictionPolicy, claims []eviction.Claim, in *eviction.Input) (err error) {
	if in.Node = nodeFacts(of.ReadNode); in.Node == nil {
		locked := slices.ContainsFunc(claims, func(c eviction.Claim) bool { return c.Locked })
		if in.Node, err = g.node(ctx, in.Pod.Node, of.FreshNode || of.FreshMembers && locked); err != nil {
			return err
		}
	}
	if in.Peers, err = g.peers(ctx, in.Pod.Namespace, policies); err != nil {
		return err
	}
	in.Rosters, err = g.rosters(ctx, of.FreshMembers, in.Policies, claims)
	return err
}

// holds returns nothing for a pod that no policy holds.
func (g *Gatherer) holds(ctx context.Context, pod *snapshot.Pod, claims []eviction.Claim) ([]eviction.Held, []snapshot.HoldLimit, error) {
	if len(claims) == 0 || g.Holds == nil {
		return nil, nil, nil
	}
	return g.Holds(ctx, pod)
}

// Guarded reports whether a verdict on a pod takes more than the pod: by the policies, since who may write the pod may take off the
// label that says so.
func (g *Gatherer) Guarded(ctx context.Context, pod *corev1.Pod) (bool, error) {
	policies, err := g.Policies.Policies(ctx, pod.Namespace)
	if err != nil {
		return false, err
	}
	return eviction.GuardedBy(g.Policies.declaredAll(policies), Facts(pod)) != "", nil
}

// Claimed reports whether policies in mode Enforce claim a pod, and whether policies in mode Audit do.
func (g *Gatherer) Claimed(ctx context.Context, pod *corev1.Pod) (enforced, audited bool, err error) {
	policies, err := g.Policies.All(ctx, pod.Namespace)
	if err != nil {
		return false, false, err
	}
	facts := Facts(pod)
	for _, policy := range policies {
		if _, claimed := g.Policies.Compiled(policy).Claim(facts); !claimed {
			continue
		}
		enforced, audited = enforced || !policy.Spec.Audited(), audited || policy.Spec.Audited()
	}
	return enforced, audited, nil
}

// evidence asks no system for a member whose role has no rules: it may always go, also while its system is down.
func (g *Gatherer) evidence(ctx context.Context, policies []*v1alpha1.EvictionPolicy, claim eviction.Claim, replace bool) *eviction.Evidence {
	if claim.Role == nil || len(claim.Role.Evict.Rules) == 0 && (!replace || len(claim.Role.Replace.Rules) == 0) {
		return nil
	}
	for _, policy := range policies {
		if policy.Name == claim.Policy.Name {
			source := g.Policies.Source(policy)
			return g.Observer.Evidence(ctx, source, source.Epoch, usable(source.MaxAge()))
		}
	}
	return nil
}

// EvidenceOf returns what a policy's system says of its members, young enough to decide.
func (g *Gatherer) EvidenceOf(ctx context.Context, policy *v1alpha1.EvictionPolicy) *eviction.Evidence {
	source := g.Policies.Source(policy)
	return g.Observer.Evidence(ctx, source, source.Epoch, usable(source.MaxAge()))
}

// usable is a little less than what decides, so that what is young enough when it is handed out still is when it is
// judged.
func usable(maxAge time.Duration) time.Duration { return maxAge - maxAge/10 }

// Node returns what is known of a node; nil if that is nothing.
func (g *Gatherer) Node(ctx context.Context, name string) (*snapshot.Node, error) {
	return g.node(ctx, name, false)
}

func (g *Gatherer) node(ctx context.Context, name string, fresh bool) (*snapshot.Node, error) {
	if name == "" {
		return nil, nil
	}
	reader := client.Reader(g.Policies.cache)
	if fresh {
		reader = g.Live
	}
	var node corev1.Node
	err := reader.Get(ctx, client.ObjectKey{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return nodeFacts(&node), nil
}

func nodeFacts(node *corev1.Node) *snapshot.Node {
	if node == nil {
		return nil
	}
	facts := observe.NodeFacts(node)
	facts.Annotations = NodeAnnotations(node)
	for key := range node.Annotations {
		if _, kept := facts.Annotations[key]; !kept {
			facts.LongAnnotations = append(facts.LongAnnotations, key)
		}
	}
	return facts
}

// peers returns the pods of the namespace that terminate, and those that a policy's status names.
func (g *Gatherer) peers(ctx context.Context, namespace string, policies []*v1alpha1.EvictionPolicy) ([]*snapshot.Pod, error) {
	peers, err := g.Policies.pods(ctx, client.InNamespace(namespace), client.MatchingFields{leavingIndex: "true"})
	if err != nil {
		return nil, err
	}
	seen := map[types.UID]bool{}
	for _, peer := range peers {
		seen[peer.UID] = true
	}
	for name := range named(policies) {
		var pod corev1.Pod
		err := g.Policies.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading pod %s: %w", name, err)
		}
		if !seen[pod.UID] {
			peers = append(peers, Facts(&pod))
		}
	}
	return peers, nil
}

// rosters lists all members of the policies whose roles ask for them; most do not, and listing costs as much as there are pods.
func (g *Gatherer) rosters(ctx context.Context, fresh bool, policies []eviction.Declared, claims []eviction.Claim) (map[snapshot.Key]*eviction.Roster, error) {
	rosters := map[snapshot.Key]*eviction.Roster{}
	for _, claim := range claims {
		at := slices.IndexFunc(policies, func(p eviction.Declared) bool { return p.Key == claim.Policy })
		if !claim.Roster || at < 0 || rosters[claim.Policy] != nil {
			continue
		}
		list := g.cachedRoster
		if fresh {
			list = g.freshRoster
		}
		roster, err := list(ctx, policies[at])
		if err != nil {
			return nil, err
		}
		rosters[claim.Policy] = roster
	}
	return rosters, nil
}

func named(policies []*v1alpha1.EvictionPolicy) map[string]bool {
	names := map[string]bool{}
	for _, policy := range policies {
		for i := range policy.Status.Leaving {
			names[policy.Status.Leaving[i].PodName] = true
		}
		for i := range policy.Status.Emptied {
			names[policy.Status.Emptied[i].PodName] = true
		}
		for i := range policy.Status.Preparations {
			names[policy.Status.Preparations[i].PodName] = true
		}
	}
	return names
}

// Pod returns a pod, from the cache if it has it and from the apiserver if not; nil if there is none.
func (g *Gatherer) Pod(ctx context.Context, key snapshot.Key) (pod *corev1.Pod, fresh bool, err error) {
	pod = &corev1.Pod{}
	err = g.Policies.cache.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		pod, err = g.FreshPod(ctx, key)
		return pod, true, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading pod %s: %w", key, err)
	}
	return pod, false, nil
}

// FreshPod returns a pod from the apiserver; nil if there is none.
func (g *Gatherer) FreshPod(ctx context.Context, key snapshot.Key) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := g.Live.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	return pod, nil
}

// Departed returns what was known last of a governed pod that was seen gone; nil: none of the name was.
func (g *Gatherer) Departed(key snapshot.Key) *corev1.Pod { return g.Gone.named(key) }

// Ungoverned reports whether, by a read past the cache, the namespace has neither a policy in mode Enforce nor the label of one. The label
// outlives the last policy by some seconds, in which a policy that is being replaced still holds its pods.
func (g *Gatherer) Ungoverned(ctx context.Context, namespace string) (bool, error) {
	var ns corev1.Namespace
	if err := g.Live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if ns.Labels[v1alpha1.GovernedLabel] == "true" {
		return false, nil
	}
	policies, err := g.Newest(ctx, namespace)
	return err == nil && len(policies) == 0, err
}

// Refresh reads a policy from the apiserver after a write at the refused resource version has met a conflict ("": in any case). Where a later version is
// known already, such as one that this process has written, nothing is read.
func (g *Gatherer) Refresh(ctx context.Context, key snapshot.Key, refused string) error {
	if known, err := g.Policies.Policy(ctx, key); err == nil && refused != "" && later(known.ResourceVersion, refused) {
		return nil
	}
	var policy v1alpha1.EvictionPolicy
	err := g.Live.Get(ctx, key, &policy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", key, err)
	}
	g.Policies.Observe(&policy)
	return nil
}
