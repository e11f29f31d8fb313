package observe

import (
	"context"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/snapshot"
)

// maxNamed is how many objects of a kind are read one by one: of more, all of the namespace are listed.
const maxNamed = 8

// Pod reads a pod. That there is none is no error.
func (l *Look) Pod(ctx context.Context, key snapshot.Key) error {
	return l.need(ctx, pods, key.Namespace, key.Name, named(l, l.client.CoreV1().Pods(key.Namespace).List, key.Name, l.setPod))
}

// Near reads the pods that may be meant by a name that no pod has: all of the namespace, and those of this name elsewhere, where they
// may be read.
func (l *Look) Near(ctx context.Context, key snapshot.Key) error {
	if err := l.Pods(ctx, key.Namespace, labels.Everything()); err != nil {
		return err
	}
	err := l.once(ctx, pods, "everywhere/"+key.Name, named(l, l.client.CoreV1().Pods(metav1.NamespaceAll).List, key.Name, l.setPod))
	if isAnswer(err) {
		return nil
	}
	return err
}

// Pods reads the pods of a namespace that a selector selects.
func (l *Look) Pods(ctx context.Context, namespace string, selector labels.Selector) error {
	if l.made[pods.name+" "+namespace+"/"] {
		return nil
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	return l.need(ctx, pods, namespace, selector.String(), list(l, l.client.CoreV1().Pods(namespace).List, options, l.setPod))
}

func (l *Look) setPod(p *corev1.Pod)                      { l.cluster.SetPod(l.family.share(PodFacts(p))) }
func (l *Look) setNode(n *corev1.Node)                    { l.cluster.SetNode(NodeFacts(n)) }
func (l *Look) setBudget(b *policyv1.PodDisruptionBudget) { l.cluster.SetBudget(budgetFacts(b)) }
func (l *Look) setClaim(c *corev1.PersistentVolumeClaim)  { l.cluster.SetClaim(claimFacts(c)) }
func (l *Look) setAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	l.cluster.SetAutoscaler(AutoscalerFacts(a))
}

// Owned reads the pods that an object owns, and what they belong to: the pods that its selector selects, or all of its namespace where
// it is not there, or of a kind that is not Kubernetes' own. Kind is in small letters.
func (l *Look) Owned(ctx context.Context, namespace, kind, name string) error {
	selector := labels.Everything()
	if of, known := workloadKinds[kind]; known {
		by := func(s *metav1.LabelSelector) {
			if parsed, err := metav1.LabelSelectorAsSelector(s); err == nil && s != nil {
				selector = sendable(parsed)
			}
		}
		if err := l.want(ctx, of.resource, namespace, name, of.get(l, namespace, name, by)); err != nil {
			return err
		}
	}
	return l.OwnedBy(ctx, namespace, selector)
}

// sendable is a selector, or one of everything where its author has made it too long.
func sendable(selector labels.Selector) labels.Selector {
	if len(selector.String()) > snapshot.LongestSelector {
		return labels.Everything()
	}
	return selector
}

// OwnedBy reads the pods of a namespace that a selector selects, and what they belong to.
func (l *Look) OwnedBy(ctx context.Context, namespace string, selector labels.Selector) error {
	if err := l.Pods(ctx, namespace, selector); err != nil {
		return err
	}
	return l.owners(ctx, namespace, l.cluster.PodsIn(namespace))
}

// Around reads what decides whether pods of a namespace may be evicted: their nodes and owners, the budgets, and of those that count
// them the other pods and what scales their owners.
func (l *Look) Around(ctx context.Context, namespace string, subjects []*snapshot.Pod) error {
	if err := l.need(ctx, budgets, namespace, "", list(l, l.client.PolicyV1().PodDisruptionBudgets(namespace).List, metav1.ListOptions{}, l.setBudget)); err != nil {
		return err
	}
	if err := l.owners(ctx, namespace, subjects); err != nil {
		return err
	}
	if err := l.nodesOf(ctx, subjects); err != nil {
		return err
	}
	if err := l.leasesNeeded(ctx); err != nil {
		return err
	}
	var counted []*snapshot.Pod
	looked := map[*snapshot.Budget]bool{}
	for _, p := range subjects {
		counting := l.cluster.BudgetsFor(p)
		if len(counting) > 0 {
			counted = append(counted, p)
		}
		for _, b := range counting {
			if looked[b] {
				continue
			}
			looked[b] = true
			if err := l.under(ctx, b); err != nil {
				return err
			}
		}
	}
	return l.scaling(ctx, namespace, counted)
}

// under reads the pods that a budget counts, and of those that are not ready the nodes and owners.
func (l *Look) under(ctx context.Context, b *snapshot.Budget) error {
	if err := l.Pods(ctx, b.Namespace, sendable(b.Selector)); err != nil {
		return err
	}
	unready := slices.DeleteFunc(slices.Clone(l.cluster.PodsIn(b.Namespace)), func(p *snapshot.Pod) bool {
		return p.Ready && !p.Terminating() || p.Finished() || !b.Matches(p)
	})
	if err := l.nodesOf(ctx, unready); err != nil {
		return err
	}
	return l.owners(ctx, b.Namespace, unready)
}

// scaling reads what decides how the owners of pods can be scaled: autoscalers, and whether a second pod can mount the claims of one.
func (l *Look) scaling(ctx context.Context, namespace string, subjects []*snapshot.Pod) error {
	owned := slices.DeleteFunc(slices.Clone(subjects), func(p *snapshot.Pod) bool { return p.Owner.UID == "" })
	if len(owned) == 0 {
		return nil
	}
	if err := l.want(ctx, autoscalers, namespace, "", list(l, l.client.AutoscalingV2().HorizontalPodAutoscalers(namespace).List, metav1.ListOptions{}, l.setAutoscaler)); err != nil {
		return err
	}
	var names []string
	for _, p := range owned {
		if p.Owner.Kind == "ReplicaSet" {
			names = append(names, p.Claims...)
		}
	}
	claims := l.client.CoreV1().PersistentVolumeClaims(namespace)
	return l.namedOrAll(ctx, volumeClaims, namespace, names,
		func(name string) request { return named(l, claims.List, name, l.setClaim) }, list(l, claims.List, metav1.ListOptions{}, l.setClaim))
}

// namedOrAll reads the objects of these names, or all of the namespace where there are many.
func (l *Look) namedOrAll(ctx context.Context, r resource, namespace string, names []string, one func(string) request, all request) error {
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return l.made[r.name+" "+namespace+"/"+name] })
	if len(names) > maxNamed {
		return l.want(ctx, r, namespace, "", all)
	}
	for _, name := range names {
		if err := l.want(ctx, r, namespace, name, one(name)); err != nil {
			return err
		}
	}
	return nil
}
