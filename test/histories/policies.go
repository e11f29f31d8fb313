package histories

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// firstPolicy governs the members; secondPolicy claims them too where it is there.
const (
	firstPolicy  = "p"
	secondPolicy = "q"
)

// regime is what the owner of firstPolicy wants it to say, and until when it let each member go on another word than the
// system's.
type regime struct {
	staging bool   // it points at another system, where all is well
	renamed bool   // its roles have other names
	without string // the pod that it does not select
	audited bool   // it is in mode Audit
	maxAge  time.Duration
	lax     map[string]time.Time
	// stray is the same for members that no policy claimed, gone when there was none last.
	stray map[string]time.Time
	gone  time.Time
	// bare is when no policy guarded a member last, void when there was none at all.
	bare map[string]time.Time
	void time.Time
}

func newRegime() regime {
	return regime{maxAge: maxAge, lax: map[string]time.Time{}, stray: map[string]time.Time{}, bare: map[string]time.Time{}}
}

// spec is what the policy says under a regime.
func (w *world) spec(r regime) v1alpha1.EvictionPolicySpec {
	spec := w.site.spec(r.staging)
	if w.setSite() != nil {
		return spec
	}
	spec.Evidence.MaxAge = metav1.Duration{Duration: r.maxAge}
	spec.Evidence.Timeout = metav1.Duration{Duration: 5 * time.Second}
	if r.renamed {
		rename(&spec)
	}
	spec.Repair = w.repairing.DeepCopy()
	if r.audited {
		spec.Mode = v1alpha1.ModeAudit
	}
	for i := range spec.Members {
		if r.without != "" {
			spec.Members[i].Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "pod", Operator: metav1.LabelSelectorOpNotIn, Values: []string{r.without}},
			}
		}
	}
	return spec
}

// rename gives every role a name of the policy's own.
func rename(spec *v1alpha1.EvictionPolicySpec) {
	own := spec.Roles
	spec.Roles = nil
	for i := range spec.Members {
		name := spec.Members[i].Role
		for _, role := range slices.Concat(own, roles) {
			if role.Name == name {
				role.Name = "own-" + name
				spec.Roles = append(spec.Roles, role)
				break
			}
		}
		spec.Members[i].Role = "own-" + name
		for at, before := range spec.Members[i].LeavesAfter {
			spec.Members[i].LeavesAfter[at] = "own-" + before
		}
	}
	renameLock(spec.NodeLock)
}

func (w *world) createPolicy(name string) {
	r := newRegime()
	if name == firstPolicy {
		r = w.regime
	}
	w.relax()
	w.doubtRepair()
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: w.spec(r)}
	if name != firstPolicy {
		policy.Spec.Repair = nil
	}
	if err := w.store.create(policy); err != nil {
		w.note("  answered: %v", err)
	}
}

// deletePolicy is a DELETE: where a preparation has to be undone, the policy stays for a while.
func (w *world) deletePolicy(name string) {
	if policy := w.policy(name); policy != nil {
		w.relax()
		w.doubtRepair()
		w.store.remove(policy)
		w.relax()
	}
}

func (w *world) policy(name string) *v1alpha1.EvictionPolicy {
	policy, _ := w.store.get(policies, snapshot.Key{Namespace: namespace, Name: name}).(*v1alpha1.EvictionPolicy)
	return policy
}

// editPolicy changes the spec of firstPolicy, as its owner does.
func (w *world) editPolicy(edit func(*v1alpha1.EvictionPolicySpec)) {
	policy := w.policy(firstPolicy)
	if policy == nil {
		return
	}
	w.relax()
	policy = duplicate(policy)
	edit(&policy.Spec)
	policy.Generation++
	w.store.put(policy)
	w.relax()
}

// reform has firstPolicy say what its owner wants of it now.
func (w *world) reform(change func(*regime)) {
	w.relax()
	w.doubtRepair()
	staging := w.regime.staging
	change(&w.regime)
	if w.odds.hangs > 0 && !w.calm {
		w.hang(policies) // a replica that does not observe it decides by the policy before
	}
	if policy := w.policy(firstPolicy); policy != nil && len(policy.Status.Preparations) > 0 && staging != w.regime.staging {
		w.givenUp = true // what was begun in one system cannot be taken back in another
	}
	w.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) {
		suspended := spec.Suspend
		*spec = w.spec(w.regime)
		spec.Suspend = suspended
	})
}

// standing are the policies that are there to stay and hold pods.
func (w *world) standing() []string {
	return slices.DeleteFunc([]string{firstPolicy, secondPolicy}, func(name string) bool {
		policy := w.policy(name)
		return policy == nil || policy.DeletionTimestamp != nil || policy.Spec.Audited()
	})
}

// claims reports whether a policy holds a pod. One in mode Audit holds none.
func (w *world) claims(policy, pod string) bool {
	return policy == secondPolicy || !w.regime.audited && w.regime.without != pod
}

// judges reports whether a policy has a pod judged by its own system.
func (w *world) judges(policy, pod string) bool {
	return w.claims(policy, pod) && (policy == secondPolicy || !w.regime.staging)
}

// relax notes for which members the owner's word is another than the system's.
func (w *world) relax() {
	standing := w.standing()
	for _, p := range w.site.members() {
		if !slices.ContainsFunc(standing, func(policy string) bool { return w.judges(policy, p.pod) }) {
			w.regime.lax[p.pod] = time.Now()
		}
		if !slices.ContainsFunc(standing, func(policy string) bool { return w.claims(policy, p.pod) }) {
			w.regime.stray[p.pod] = time.Now()
		}
		if w.labelOf(p) == "" {
			w.regime.bare[p.pod] = time.Now()
		}
	}
	if (w.policy(firstPolicy) == nil || w.regime.audited) && w.policy(secondPolicy) == nil {
		w.regime.void = time.Now()
	}
	if len(standing) > 0 {
		w.regime.gone = time.Time{}
	} else if w.regime.gone.IsZero() {
		w.regime.gone = time.Now()
	}
}

// unjudged reports whether, since a removal was sent, no policy had the pod judged by its own system, or none that was observed.
func (w *world) unjudged(r *removal) bool { return r.newcomers || w.ungoverned(r.pod, r.began) }

// ungoverned reports whether, at some moment since then, no policy had the pod judged by its own system.
func (w *world) ungoverned(pod string, since time.Time) bool {
	w.relax()
	at, ever := w.regime.lax[pod]
	return ever && !at.Before(since)
}

// unclaimed reports whether, at some moment since then, no policy spoke of the pod.
func (w *world) unclaimed(pod string, since time.Time) bool {
	w.relax()
	at, ever := w.regime.stray[pod]
	return ever && !at.Before(since)
}

// divided reports whether a pod goes by a policy that does not claim the member by whose leave it has become indispensable, and another policy has let that one go.
// Each knows of its own permits alone, which is why there is to be one for a system.
func (w *world) divided(pod *corev1.Pod, n needed) bool {
	other := map[string]string{firstPolicy: secondPolicy, secondPolicy: firstPolicy}
	for by, another := range other {
		if n.by != "" && w.permits(by, pod.UID) && !w.claims(by, n.by) && w.permits(another, n.uid) {
			return true
		}
	}
	return false
}

// permits reports whether a policy's status has a permit for a pod.
func (w *world) permits(policy string, uid types.UID) bool {
	p := w.policy(policy)
	return p != nil && slices.ContainsFunc(p.Status.Leaving, func(l v1alpha1.Leaving) bool { return l.PodUID == uid })
}
