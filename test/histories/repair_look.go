package histories

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/replacement"
)

// repairLook is one look of the repair controller of a replica, from its first call to its end.
type repairLook struct {
	replica  *replica
	begun    time.Time
	looks    bool // it has called the apiserver: it is a look
	refused  bool // what it has seen was not written down
	void     bool // what the policy is about was changed meanwhile
	policy   *v1alpha1.EvictionPolicy
	had      []planned                      // its policy, when it began
	standing []*v1alpha1.ReplacementRequest // when it began
	made     []*v1alpha1.ReplacementRequest // by it
	said     *eviction.Evidence             // by its system, when it began
	asked    bool                           // its system has answered meanwhile
	members  map[string]*glance
}

// beginsRepair begins the account of a look.
func (r *replica) beginsRepair(item work) {
	w := r.world
	if item.controller != repairController || item.key.Name != firstPolicy || w.repairing == nil {
		return
	}
	w.endedRepairs()
	l := &repairLook{replica: r, begun: time.Now(), policy: w.policy(firstPolicy), had: slices.Clone(w.site.members()), members: map[string]*glance{}}
	for _, q := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		if !q.Status.Over() {
			l.standing = append(l.standing, q)
		}
	}
	r.look = l
	l.said = l.evidence()
	l.see()
}

// endsRepair ends it. What it has seen is written down where nothing failed.
func (r *replica) endsRepair(item work, err error) {
	l := r.look
	if l == nil || item.controller != repairController || item.key.Name != firstPolicy {
		return
	}
	r.look = nil
	if !l.looks || l.void || l.changed() {
		return
	}
	r.outdated = l.outdated(l.said)
	l.see()
	l.says()
	for pod, g := range l.members {
		r.world.health[pod].after(g, l.policy.Spec.Repair, l.begun, time.Now(), err == nil && !l.refused)
	}
	r.world.endedRepairs()
}

// changed reports whether the policy is another than at the beginning of the look.
func (l *repairLook) changed() bool {
	now := l.replica.world.policy(firstPolicy)
	return l.policy == nil || now == nil || now.UID != l.policy.UID || l.policy.Spec.Repair == nil || now.DeletionTimestamp != nil || now.Spec.Audited()
}

// see adds what the replica's cache has now.
func (l *repairLook) see() {
	if l.policy == nil || l.policy.Spec.Repair == nil {
		return
	}
	w := l.replica.world
	for _, p := range w.site.members() {
		g := l.members[p.pod]
		if g == nil {
			g = newGlance()
			l.members[p.pod] = g
		}
		if w.health[p.pod] == nil {
			w.health[p.pod] = newHealth()
		}
		pod, _ := l.replica.cache.objects[pods][client.ObjectKey{Namespace: namespace, Name: p.pod}].(*corev1.Pod)
		on := w.health[p.pod].last
		if pod != nil && pod.Spec.NodeName != "" {
			on = pod.Spec.NodeName
			w.health[p.pod].last = on
		}
		node, _ := l.replica.cache.objects[nodes][client.ObjectKey{Name: on}].(*corev1.Node)
		g.see(pod, node, l.policy.Spec.Repair, time.Now())
		g.absent.see(known(pod == nil && !w.hasVolume(p.pod)))
		if w.asksRules(p.role) {
			g.condition(replacement.NotReporting, l.reports(p.pod))
		}
	}
}

func (l *repairLook) evidence() *eviction.Evidence {
	if l.policy == nil {
		return nil
	}
	return l.replica.gatherer.Observer.Known(l.replica.gatherer.Policies.Source(l.policy))
}

// outdated reports whether what a system has said is too old to count.
func (l *repairLook) outdated(said *eviction.Evidence) bool {
	return said != nil && l.replica.now().Sub(said.Observed) > l.policy.Spec.Evidence.MaxAge.Duration+time.Minute
}

// reports says whether a member is known not to be reported.
func (l *repairLook) reports(member string) replacement.Tristate {
	said := l.evidence()
	if said == nil || said.Error != "" || l.outdated(said) {
		return replacement.Unknown
	}
	facts, listed := said.Members[member]
	healthy, says := facts["healthy"].(bool)
	switch {
	case !listed:
		return replacement.Yes
	case l.policy.Spec.System.Etcd == nil:
		return replacement.No
	case !says:
		return replacement.Unknown
	}
	return known(!healthy)
}

// says takes note that systems have said something else meanwhile: what was between is not known.
func (l *repairLook) says() {
	if l.evidence() == l.said && !l.asked {
		return
	}
	for _, g := range l.members {
		if s := g.conditions[replacement.NotReporting]; s != nil {
			*s = sight{true, true, true}
		}
	}
}

// doubtRepair forgets what members are known to be: what their policy is about has changed.
func (w *world) doubtRepair() {
	for pod := range w.health {
		h := newHealth()
		h.last = w.health[pod].last
		for _, kind := range []replacement.ConditionType{replacement.NotReporting, replacement.PodFailing, replacement.PodMissing, replacement.PodPending} {
			h.conditions[kind] = stand{may: w.begun}
		}
		h.tainted.may = w.begun
		w.health[pod] = h
	}
	for _, r := range w.replicas {
		if r.look != nil {
			r.look.void = true
		}
	}
}

// endedRepairs takes note of requests that are complete or were cancelled.
func (w *world) endedRepairs() {
	all := w.store.events[replaces]
	for _, e := range all[w.endings:] {
		before, _ := e.before.(*v1alpha1.ReplacementRequest)
		if before == nil || before.Status.Over() || before.Spec.Source.Name != firstPolicy {
			continue
		}
		h, at, over := w.health[before.Spec.Member.ID], e.gone, e.after == nil
		if after, _ := e.after.(*v1alpha1.ReplacementRequest); after != nil && after.Status.Over() {
			at, over = after.Status.StepTime.Time, true
		}
		if h != nil && over {
			h.ended(w.seenAt(at), w.named(before.Name))
		}
	}
	w.endings = len(all)
}

// seenAt is as of when the end of a request may be seen: by a look that goes on, as of the time at which it has begun.
func (w *world) seenAt(at time.Time) time.Time {
	for _, r := range w.replicas {
		if r.look != nil && r.look.begun.Before(at) {
			at = r.look.begun
		}
	}
	return at
}

// named reports whether the policy's status names a request.
func (w *world) named(request string) bool {
	policy := w.policy(firstPolicy)
	return policy != nil && slices.ContainsFunc(policy.Status.Unhealthy, func(u v1alpha1.UnhealthyMember) bool { return u.Request == request })
}

// soFar is what a look can know of a member by now.
func (l *repairLook) soFar(pod string) *health {
	l.see()
	l.says()
	h := l.replica.world.health[pod].clone()
	h.after(l.members[pod], l.policy.Spec.Repair, l.begun, time.Now(), true)
	return h
}
