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
// thousand agents would be told of every change of every policy, and need one of them once in months.
const policiesFor = 30 * time.Second

// policies know what the policies of governed pods say of node pressure.
type policies struct {
	read func(ctx context.Context, namespace string) ([]v1alpha1.EvictionPolicy, error)

	mu     sync.Mutex
	known  map[string]said // by namespace
	asking map[string]bool
}

type said struct {
	at    time.Time
	rules []rule
}

// rule is one entry of a policy's members.
type rule struct {
	policy   string // as on the label
	selector labels.Selector
	mode     v1alpha1.PressureMode
}

func newPolicies(read func(context.Context, string) ([]v1alpha1.EvictionPolicy, error)) *policies {
	return &policies{read: read, known: map[string]said{}, asking: map[string]bool{}}
}

// mode is what the pod's policy says; WhenAllowed where it says nothing, is not known, or contradicts itself.
func (p *policies) mode(r *resident) v1alpha1.PressureMode {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := v1alpha1.PressureWhenAllowed
	for _, one := range p.known[r.pod.Namespace].rules {
		if one.policy != r.pod.Policy || !one.selector.Matches(labels.Set(r.labels)) {
			continue
		}
		if one.mode != v1alpha1.PressureLastResort {
			return v1alpha1.PressureWhenAllowed
		}
		found = one.mode
	}
	return found
}

// refresh reads the policies of the namespaces of governed pods that are not known, or were last read longer ago than age.
// It does not wait for the answers.
func (p *policies) refresh(ctx context.Context, all []*resident, now time.Time, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		namespace := r.pod.Namespace
		known, ok := p.known[namespace]
		if !r.pod.Governed || p.asking[namespace] || ok && now.Sub(known.at) <= age {
			continue
		}
		p.asking[namespace] = true
		go p.ask(ctx, namespace, now)
	}
}

// ask keeps what was known before where nobody answers, and asks again a little later.
func (p *policies) ask(ctx context.Context, namespace string, now time.Time) {
	all, err := p.read(ctx, namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asking, namespace)
	known := p.known[namespace]
	known.at = now
	if err == nil {
		known.rules = rulesOf(all)
	}
	p.known[namespace] = known
}

// rulesOf leaves a policy that is suspended without a word on node pressure: all that it says is that its pods stay.
func rulesOf(all []v1alpha1.EvictionPolicy) []rule {
	var rules []rule
	for i := range all {
		policy := &all[i]
		for j := range policy.Spec.Members {
			member := &policy.Spec.Members[j]
			selector, err := metav1.LabelSelectorAsSelector(&member.Selector)
			if err != nil {
				continue
			}
			mode := member.OnNodePressure
			if policy.Spec.Suspend {
				mode = v1alpha1.PressureWhenAllowed
			}
			rules = append(rules, rule{policy: eviction.LabelValue(policy.Name), selector: selector, mode: mode})
		}
	}
	return slices.Clip(rules)
}
