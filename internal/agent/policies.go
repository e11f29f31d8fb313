package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// policiesFor is how long what policies say is taken for true while the node is short of something. They are not watched: a
// thousand agents would receive every change of every policy, and need one of them once in months.
const policiesFor = 30 * time.Second

// policies know which pods are governed, and what their policies say of node pressure. The label that says that a pod is
// governed can be written by anyone who may create pods, so it is a claim: it counts where a policy that was read selects
// the pod, or while that is not known.
type policies struct {
	read func(ctx context.Context, namespace string) ([]v1alpha1.EvictionPolicy, error)

	mu     sync.Mutex
	known  map[string]said // by namespace
	asking map[string]bool
}

type said struct {
	// at is when the namespace was asked about last, read when it answered last; zero: never.
	at, read time.Time
	rules    []rule
}

// rule is one entry of a policy's members.
type rule struct {
	policy   string // as on the label
	selector labels.Selector
	mode     v1alpha1.PressureMode
	blind    bool // the selector cannot be read: it may select every pod with the policy's label
	load     bool // the pod stays, and what it carries leaves
}

func (o *rule) selects(r *resident) bool {
	if o.blind {
		return o.policy == r.pod.Policy
	}
	return o.selector.Matches(labels.Set(r.labels))
}

func newPolicies(read func(context.Context, string) ([]v1alpha1.EvictionPolicy, error)) *policies {
	return &policies{read: read, known: map[string]said{}, asking: map[string]bool{}}
}

// unselected is how long it is believed that no policy selects a pod with the label. A policy may have been created since.
const unselected = 3 * policiesFor

// stays reports whether a policy that was read has a pod with the label stay: by any entry that selects it, or may.
func (p *policies) stays(r *resident) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.known[r.pod.Namespace].rules, func(one rule) bool { return one.load && one.selects(r) })
}

// of returns whether a pod that carries the label is governed, and what its policy says: WhenAllowed where it says nothing,
// is not known, or contradicts itself.
func (p *policies) of(r *resident, now time.Time) (bool, v1alpha1.PressureMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[r.pod.Namespace]
	if !known.selects(r) {
		return known.read.IsZero() || now.Sub(known.read) > unselected, v1alpha1.PressureWhenAllowed
	}
	found := v1alpha1.PressureWhenAllowed
	for i := range known.rules {
		one := &known.rules[i]
		if one.policy != r.pod.Policy || !one.selects(r) {
			continue
		}
		if one.mode != v1alpha1.PressureLastResort {
			return true, v1alpha1.PressureWhenAllowed
		}
		found = one.mode
	}
	return true, found
}

func (s *said) selects(r *resident) bool {
	return slices.ContainsFunc(s.rules, func(one rule) bool { return one.selects(r) })
}

// refresh reads the policies of the namespaces of pods with the label that are not known, or were asked about longer ago
// than age; where none is known that selects the pod, longer ago than policiesFor. It does not wait for the answers.
func (p *policies) refresh(ctx context.Context, all []*resident, now time.Time, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		namespace := r.pod.Namespace
		known, ok := p.known[namespace]
		if !r.pod.Governed || p.asking[namespace] {
			continue
		}
		limit := age
		if !known.selects(r) {
			limit = min(age, policiesFor)
		}
		if ok && now.Sub(known.at) <= limit {
			continue
		}
		p.asking[namespace] = true
		go p.ask(ctx, namespace, now)
	}
}

// ask keeps what was known before where there is no answer, and asks again a little later.
func (p *policies) ask(ctx context.Context, namespace string, now time.Time) {
	all, err := p.read(ctx, namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asking, namespace)
	known := p.known[namespace]
	known.at = now
	if err == nil {
		known.rules, known.read = rulesOf(all), now
	}
	p.known[namespace] = known
}

// rulesOf leaves a policy that is suspended without a word on node pressure: all that it says is that its pods stay. One in mode Audit
// governs no pod.
func rulesOf(all []v1alpha1.EvictionPolicy) []rule {
	var rules []rule
	for i := range all {
		policy := &all[i]
		if policy.Spec.Audited() {
			continue
		}
		for j := range policy.Spec.Members {
			member := &policy.Spec.Members[j]
			one := rule{policy: eviction.LabelValue(policy.Name), mode: member.OnNodePressure, load: member.Leaves == v1alpha1.LeavesLoad}
			selector, err := metav1.LabelSelectorAsSelector(&member.Selector)
			one.selector, one.blind = selector, err != nil
			if policy.Spec.Suspend || one.blind {
				one.mode = v1alpha1.PressureWhenAllowed
			}
			rules = append(rules, one)
		}
	}
	return slices.Clip(rules)
}
