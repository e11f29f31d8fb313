package repair

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// gather reads what is known of the members of a policy: of pods and nodes by the cache, since what is wrong has to stand for minutes. Fresh says that
// members get a successor by it, so that what is kept, or comes by the cache alone otherwise, is read anew.
func (r *reconciler) gather(ctx context.Context, policy *v1alpha1.EvictionPolicy, fresh bool) (replacement.RepairInput, error) {
	in := replacement.RepairInput{Now: r.Now(), Policy: policy, Nodes: map[string]*snapshot.Node{}}
	pods, err := r.Gatherer.Policies.Pods(ctx, policy.Namespace)
	if err != nil {
		return in, err
	}
	compiled := r.Gatherer.Policies.Compiled(policy)
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Name] = true
		if seen, is := seenOf(policy, compiled, pod); is {
			seen.Pod = pod
			in.Members = append(in.Members, seen)
		}
	}
	if err := r.missing(ctx, policy, there, fresh, &in); err != nil {
		return in, err
	}
	set, err := r.setOf(ctx, policy, fresh)
	if err != nil {
		return in, err
	}
	if set != nil {
		if err := r.ofSet(ctx, policy, set, there, fresh, &in); err != nil {
			return in, err
		}
	}
	if err := r.nodes(ctx, &in); err != nil {
		return in, err
	}
	r.evidence(policy, set, &in)
	in.Requests, err = r.requests(ctx, policy)
	return in, err
}

// cachedRequests are those of the policy that the cache has.
func (r *reconciler) cachedRequests(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]v1alpha1.ReplacementRequest, error) {
	var list v1alpha1.ReplacementRequestList
	if err := r.client.List(ctx, &list, client.InNamespace(policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing requests: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(q v1alpha1.ReplacementRequest) bool { return q.Spec.Source.Name != policy.Name }), nil
}

// freshRequests are those of the policy that the apiserver has.
func (r *reconciler) freshRequests(ctx context.Context, policy *v1alpha1.EvictionPolicy) (all []v1alpha1.ReplacementRequest, err error) {
	err = observe.EachPage(ctx, r.live, &v1alpha1.ReplacementRequestList{}, func(page *v1alpha1.ReplacementRequestList) bool {
		for i := range page.Items {
			if q := &page.Items[i]; q.Spec.Source.Name == policy.Name {
				all = append(all, *replacement.Slim(q))
			}
		}
		return true
	}, client.InNamespace(policy.Namespace))
	if err != nil {
		return nil, fmt.Errorf("listing requests: %w", err)
	}
	return all, nil
}

// requests are those of the policy, by the cache. Of those that are written down and that it does not have it is asked whether they are there.
func (r *reconciler) requests(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]v1alpha1.ReplacementRequest, error) {
	all, err := r.cachedRequests(ctx, policy)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range all {
		known[all[i].Name] = true
	}
	for i := range policy.Status.Unhealthy {
		name := policy.Status.Unhealthy[i].Request
		if name == "" || known[name] {
			continue
		}
		var request v1alpha1.ReplacementRequest
		err := r.live.Get(ctx, client.ObjectKey{Namespace: policy.Namespace, Name: name}, &request)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading request %s: %w", name, err)
		default:
			all = append(all, request)
		}
	}
	return all, nil
}

// seenOf is the member that a pod is, whether the pod is there or not.
func seenOf(policy *v1alpha1.EvictionPolicy, compiled *eviction.Policy, pod *snapshot.Pod) (replacement.Seen, bool) {
	claim, claims := compiled.Claim(pod)
	if !claims || claim.Role == nil || claim.Error != "" {
		return replacement.Seen{}, false
	}
	seen := replacement.Seen{MemberRef: claim.Ref(pod), Judged: len(claim.Role.Evict.Rules)+len(claim.Role.Replace.Rules) > 0}
	var provider *v1alpha1.Provider
	if claim.Entry >= 0 && claim.Entry < len(policy.Spec.Members) {
		provider = policy.Spec.Members[claim.Entry].Provider
	}
	seen.Operated = provider != nil && (provider.Patch != nil || provider.MemberSet != nil)
	if provider == nil || claim.Role.Replace.Successor == v1alpha1.SuccessorNone {
		b := replacement.NoProvider(policy.Name, claim.Role.Name)
		seen.Unfit = &b
	}
	return seen, true
}

// Limits of what is looked at for pods that are not there. What a namespace has beyond is not known to be missing.
const (
	mostSets    = 100
	mostMissing = 200
	setsAtOnce  = 10
)

// missing adds the members whose StatefulSets have no pod for them. Without the right to read StatefulSets none is known to be missing.
func (r *reconciler) missing(ctx context.Context, policy *v1alpha1.EvictionPolicy, there map[string]bool, fresh bool, in *replacement.RepairInput) error {
	compiled := r.Gatherer.Policies.Compiled(policy)
	left := mostMissing
	add := func(sets []appsv1.StatefulSet) {
		for i := range sets {
			in.Members = append(in.Members, missingOf(policy, compiled, &sets[i], absent(&sets[i], there, &left))...)
		}
	}
	key := client.ObjectKeyFromObject(policy)
	if kept, known := r.sets.get(key, in.Now); known && !fresh {
		add(kept)
		return nil
	}
	keep := keptSets{at: in.Now}
	for next, pages := "", 0; pages < mostSets/setsAtOnce; pages++ {
		var sets appsv1.StatefulSetList
		err := r.live.List(ctx, &sets, client.InNamespace(policy.Namespace), client.Limit(setsAtOnce), client.Continue(next))
		if apierrors.IsForbidden(err) {
			break
		}
		if err != nil {
			return fmt.Errorf("listing StatefulSets: %w", err)
		}
		add(sets.Items)
		keep.add(sets.Items)
		if next = sets.Continue; next == "" || left <= 0 {
			break
		}
	}
	r.sets.keep(key, &keep)
	return nil
}

// missingOf are the members that a set's pods of these ordinals would be.
func missingOf(policy *v1alpha1.EvictionPolicy, compiled *eviction.Policy, set *appsv1.StatefulSet, ordinals []int) (all []replacement.Seen) {
	for _, ordinal := range ordinals {
		if seen, is := seenOf(policy, compiled, policycache.Facts(observe.MadePod(set, ordinal))); is {
			all = append(all, seen)
		}
	}
	return all
}

// absent are the ordinals for which a set has no pod, as many as are left.
func absent(set *appsv1.StatefulSet, there map[string]bool, left *int) []int {
	if set.DeletionTimestamp != nil {
		return nil
	}
	var all []int
	first, replicas := observe.Ordinals(set)
	for ordinal := first; ordinal < first+replicas && *left > 0; ordinal++ {
		if !there[fmt.Sprintf("%s-%d", set.Name, ordinal)] {
			all = append(all, ordinal)
			*left--
		}
	}
	return all
}

// nodes reads those on which members are, or were last.
func (r *reconciler) nodes(ctx context.Context, in *replacement.RepairInput) error {
	names := map[string]bool{}
	for i := range in.Members {
		if pod := in.Members[i].Pod; pod != nil {
			names[pod.Node] = true
		}
	}
	for i := range in.Policy.Status.Unhealthy {
		names[in.Policy.Status.Unhealthy[i].Node] = true
	}
	for name := range names {
		node, err := r.Gatherer.Node(ctx, name)
		if err != nil {
			return err
		}
		if name != "" {
			in.Nodes[name] = node
		}
	}
	return nil
}

// idle is more than how seldom a system is asked while nothing else wants to know: what is wrong has to stand for longer in any case, and what is
// removed is decided upon by what it says then.
const idle = time.Minute

// evidence is what the system has said last, where that is recent enough: of the members of a set also what it is to keep nothing on; nil: they are of none. Members
// of system kubernetes are their pods.
func (r *reconciler) evidence(policy *v1alpha1.EvictionPolicy, set *ofMemberSet, in *replacement.RepairInput) {
	source := r.Gatherer.Policies.Source(policy)
	kind, known := r.Gatherer.Observer.Kind(source)
	if !known || policy.Spec.System.Kubernetes != nil {
		return
	}
	in.Asked = true
	evidence := r.Gatherer.Observer.Known(source)
	if evidence != nil && (evidence.Error != "" || in.Now.Sub(evidence.Observed) > source.MaxAge()+idle) {
		evidence = nil
	}
	if set != nil {
		set.exclude(&kind, evidence, in.Members)
		set.maintained(&kind, evidence, in.Members)
	}
	if evidence == nil {
		return
	}
	in.Answered, in.Reported = true, map[string]replacement.Tristate{}
	for id, facts := range evidence.Members {
		in.Reported[id] = reported(&kind, facts)
	}
}

// reported says whether a member does its work, by what its system says of it.
func reported(kind *system.Kind, facts expression.Facts) replacement.Tristate {
	if kind.Reports == nil {
		return replacement.Yes
	}
	switch does, known := kind.Reports(facts); {
	case !known:
		return replacement.Unknown
	case does:
		return replacement.Yes
	}
	return replacement.No
}
