package histories

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// own is what an owner does to policies.
func (w *world) own() {
	switch w.dice.IntN(16) {
	case 0, 1:
		on := w.dice.IntN(3) == 0
		w.note("owner: suspends %s: %v", firstPolicy, on)
		w.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Suspend = on })
	case 2:
		age := []time.Duration{maxAge, maxAge / 2}[w.dice.IntN(2)]
		w.note("owner: changes the age of evidence to %s", age)
		w.reform(func(r *regime) { r.maxAge = age })
	case 3:
		w.note("owner: deletes %s", firstPolicy)
		w.deletePolicy(firstPolicy)
	case 4:
		w.note("owner: replaces %s by force", firstPolicy)
		w.deletePolicy(firstPolicy)
		w.createPolicy(firstPolicy)
	case 5, 6:
		w.note("owner: creates %s", firstPolicy)
		w.createPolicy(firstPolicy)
	case 7:
		w.note("owner: creates %s", secondPolicy)
		w.createPolicy(secondPolicy)
	case 8:
		w.note("owner: deletes %s", secondPolicy)
		w.deletePolicy(secondPolicy)
	default:
		w.edit()
	}
}

// edit changes what firstPolicy is about. What was changed is soon changed back.
func (w *world) edit() {
	now := w.regime
	switch drawn := w.dice.IntN(6); {
	case now.staging || drawn < 2:
		w.note("owner: %s is about staging: %v", firstPolicy, !now.staging)
		w.reform(func(r *regime) { r.staging = !r.staging })
	case now.without != "" || drawn == 2:
		pod := ""
		if now.without == "" {
			pod = w.site.members()[0].pod
		}
		w.note("owner: %s selects all but %q", firstPolicy, pod)
		w.reform(func(r *regime) { r.without = pod })
	case now.audited || drawn == 3:
		w.note("owner: %s is in mode Audit: %v", firstPolicy, !now.audited)
		w.reform(func(r *regime) { r.audited = !r.audited })
	default:
		w.note("owner: the roles of %s have names of their own: %v", firstPolicy, !now.renamed)
		w.reform(func(r *regime) { r.renamed = !r.renamed })
	}
}

func (w *world) breakGlass() {
	pod := w.store.pod(w.somePod().pod)
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	w.note("owner: breaks the glass of %s", pod.Name)
	pod = duplicate(pod)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.BreakGlassAnnotation, "it burns")
	w.store.put(pod)
}

// forgeLabel is a tenant who writes the label of governed pods on a pod of their own. It is not taken off: the owner of a
// policy is trusted with that.
func (w *world) forgeLabel() {
	pod := w.store.pod(w.somePod().pod)
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	value := []string{"", "whatever", firstPolicy, secondPolicy}[w.dice.IntN(4)]
	w.note("tenant: labels %s %s=%q", pod.Name, v1alpha1.PolicyLabel, value)
	pod = duplicate(pod)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.PolicyLabel, value)
	w.store.put(pod)
}

// labelOf returns the policy whose label a pod is to carry, "" for none: several claim it, or its policy is suspended, or its
// role asks for something.
func (w *world) labelOf(p planned) string {
	var claiming []string
	for _, policy := range []string{firstPolicy, secondPolicy} {
		if w.policy(policy) != nil && w.claims(policy, p.pod) {
			claiming = append(claiming, policy)
		}
	}
	if len(claiming) == 0 || len(claiming) == 1 && w.asksNothing(p.role) && !w.policy(claiming[0]).Spec.Suspend {
		return ""
	}
	return claiming[0]
}

// auditedAs returns the policy in mode Audit whose label a pod is to carry, "" for none.
func (w *world) auditedAs(p planned) string {
	policy := w.policy(firstPolicy)
	if policy == nil || !w.regime.audited || w.regime.without == p.pod || w.asksNothing(p.role) && !policy.Spec.Suspend {
		return ""
	}
	return firstPolicy
}

// labelledWithin is how long the label of a new pod may take in peace.
const labelledWithin = 10 * time.Second

// checkLabels: in peace a pod has the label of the policy that guards it, and no other, once there was time to write it. So it is with
// the label of one in mode Audit.
func (w *world) checkLabels() {
	for _, p := range w.site.members() {
		pod := w.store.pod(p.pod)
		if pod == nil || pod.DeletionTimestamp != nil || time.Since(pod.CreationTimestamp.Time) < labelledWithin {
			continue
		}
		value, labelled := pod.Labels[v1alpha1.PolicyLabel]
		want := w.labelOf(p)
		if labelled != (want != "") || value != want {
			w.fail("LABELS", "%s is labelled: %v, as a pod of policy %q; it is one of %q", p.pod, labelled, value, want)
		}
		if audit := pod.Labels[v1alpha1.AuditLabel]; audit != w.auditedAs(p) {
			w.fail("LABELS", "%s is labelled as one of policy %q in mode Audit; it is one of %q", p.pod, audit, w.auditedAs(p))
		}
	}
}
