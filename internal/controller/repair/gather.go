package repair

import (
	"context"
	"fmt"

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
)

// gather reads what is known of the members of a policy: of pods and nodes by the cache, since what is wrong has to stand for minutes.
func (r *reconciler) gather(ctx context.Context, policy *v1alpha1.EvictionPolicy) (replacement.RepairInput, error) {
	in := replacement.RepairInput{Now: r.Now(), Policy: policy, Nodes: map[string]*snapshot.Node{}}
	pods, err := r.Gatherer.Policies.Pods(ctx, policy.Namespace)
	if err != nil {
		return in, err
	}
	compiled := r.Gatherer.Policies.Compiled(policy)
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Name] = true
		if m, is := memberOf(compiled, pod); is {
			in.Members = append(in.Members, replacement.Seen{MemberRef: m, Pod: pod})
		}
	}
	if err := r.missing(ctx, policy, there, &in); err != nil {
		return in, err
	}
	if err := r.nodes(ctx, &in); err != nil {
		return in, err
	}
	r.evidence(policy, &in)
	var requests v1alpha1.ReplacementRequestList
	if err := r.live.List(ctx, &requests, client.InNamespace(policy.Namespace)); err != nil {
		return in, fmt.Errorf("listing requests: %w", err)
	}
	for i := range requests.Items {
		if requests.Items[i].Spec.Source.Name == policy.Name {
			in.Requests = append(in.Requests, requests.Items[i])
		}
	}
	return in, nil
}

func memberOf(policy *eviction.Policy, pod *snapshot.Pod) (v1alpha1.MemberRef, bool) {
	claim, claims := policy.Claim(pod)
	if !claims || claim.Role == nil || claim.Error != "" {
		return v1alpha1.MemberRef{}, false
	}
	return claim.Ref(pod), true
}

// mostOrdinals is how many pods of one set are looked at.
const mostOrdinals = 10_000

// missing adds the members whose StatefulSets have no pod for them. Without the right to read StatefulSets none is known to be missing.
func (r *reconciler) missing(ctx context.Context, policy *v1alpha1.EvictionPolicy, there map[string]bool, in *replacement.RepairInput) error {
	var sets appsv1.StatefulSetList
	err := r.live.List(ctx, &sets, client.InNamespace(policy.Namespace))
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing StatefulSets: %w", err)
	}
	compiled := r.Gatherer.Policies.Compiled(policy)
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.DeletionTimestamp != nil {
			continue
		}
		first, replicas := observe.Ordinals(set)
		for ordinal := first; ordinal < first+min(replicas, mostOrdinals); ordinal++ {
			if there[fmt.Sprintf("%s-%d", set.Name, ordinal)] {
				continue
			}
			made := policycache.Facts(observe.MadePod(set, ordinal))
			if m, is := memberOf(compiled, made); is {
				in.Members = append(in.Members, replacement.Seen{MemberRef: m})
			}
		}
	}
	return nil
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

// evidence is what the system has said last, where that is recent enough to decide. Members of system kubernetes are their pods.
func (r *reconciler) evidence(policy *v1alpha1.EvictionPolicy, in *replacement.RepairInput) {
	source := r.Gatherer.Policies.Source(policy)
	kind, known := r.Gatherer.Observer.Kind(source)
	if !known || policy.Spec.System.Kubernetes != nil {
		return
	}
	in.Asked = true
	if evidence := r.Gatherer.Observer.Known(source); evidence != nil && in.Now.Sub(evidence.Observed) <= 2*source.MaxAge() {
		in.Evidence = evidence
	}
	if kind.Reports != nil {
		in.Reports = func(facts expression.Facts) replacement.Tristate {
			switch does, known := kind.Reports(facts); {
			case !known:
				return replacement.Unknown
			case does:
				return replacement.Yes
			}
			return replacement.No
		}
	}
}
