package histories

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// checkFires: what was requested only in the name of callers that admission refused must not be done when nothing judges
// it any more. A policy that goes while Usher looks has let go what Usher evicts then.
func (w *world) checkFires(r *removal, pod *corev1.Pod) {
	w.relax()
	if w.setSite() != nil && r.delete { // its removal from the set was begun before
		return
	}
	if gone := w.regime.gone; r.user != self || gone.IsZero() || gone.After(r.looked) {
		return
	}
	refused := 0
	for _, request := range list[*api.EvictionRequest](w.store, requests) {
		ref, _ := evictionrequest.RequestRef(request)
		if ref.UID != pod.UID || request.DeletionTimestamp != nil || request.Spec.Intent != api.EvictionRequestIntentEviction {
			continue
		}
		if _, made := evictionrequest.LastRequestTime(request); !made {
			return
		}
		refused++
	}
	if refused > 0 {
		w.fail("FIRES", "%s is evicted although all who asked for it were refused, and the policy that refused them is gone", pod.Name)
	}
}

// checkPermit: what a verdict lets through was written down before as one that leaves, or the next one would be let through
// on the same evidence. Permits end by the apiserver's clock, by which all replicas go, but not where clocks jump here.
func (w *world) checkPermit(r *removal, pod *corev1.Pod) {
	if r.excuse != "" || pod.UID != r.judged || w.odds.jumps > 0 || !w.asksRules(w.roleOf(pod.Name)) || w.noted(pod.UID) || w.forgotten(r, pod) {
		return
	}
	if s := w.setSite(); s != nil && s.madeAnew(r, pod) {
		return
	}
	if r.user == self && r.delete && (r.replaced || w.isReplaced(pod.Name)) { // it is the predecessor of a successor
		return
	}
	w.fail("PERMIT", "%s may take %s away, and no policy's status says that it leaves", r.user, pod.Name)
}

// noted reports whether a policy's status says that a pod leaves.
func (w *world) noted(uid types.UID) bool {
	for _, policy := range list[*v1alpha1.EvictionPolicy](w.store, policies) {
		for i := range policy.Status.Leaving {
			if policy.Status.Leaving[i].PodUID == uid {
				return true
			}
		}
	}
	return false
}

// isReplaced reports whether a policy's status says that a member is being replaced.
func (w *world) isReplaced(member string) bool {
	return slices.ContainsFunc(list[*v1alpha1.EvictionPolicy](w.store, policies), func(policy *v1alpha1.EvictionPolicy) bool {
		return slices.ContainsFunc(policy.Status.Replacing, func(e v1alpha1.Replacing) bool { return e.ID == member })
	})
}

// forgotten reports whether the permit for a removal, one that was written since the removal was sent, has gone with its policy, whose
// deletion waits for no role that settles at once.
func (w *world) forgotten(r *removal, pod *corev1.Pod) bool {
	if !w.settlesAtOnce(w.roleOf(pod.Name)) {
		return false
	}
	for _, e := range w.store.events[policies] {
		policy, ok := e.before.(*v1alpha1.EvictionPolicy)
		if !ok || e.gone.Before(r.began) {
			continue
		}
		for i := range policy.Status.Leaving {
			entry := &policy.Status.Leaving[i]
			if entry.PodUID == pod.UID && !entry.StartTime.Time.Before(r.began.Truncate(time.Second)) { // the API keeps whole seconds
				return true
			}
		}
	}
	return false
}

// checkLabelGoes: Usher takes no label off that a policy accounts for which was there before Usher began to look. A client that evicts the pod
// then is not answered by Usher.
func (w *world) checkLabelGoes(ctx context.Context, k kind, key snapshot.Key, body []byte) {
	var patch struct {
		Metadata struct {
			UID    types.UID
			Labels map[string]*string
		}
	}
	began, looks := ctx.Value(beganKey).(time.Time)
	if !looks || json.Unmarshal(body, &patch) != nil {
		return
	}
	w.relax()
	pod := w.store.pod(key.Name)
	if value, writes := patch.Metadata.Labels[v1alpha1.PolicyLabel]; k == pods && writes && value == nil && pod != nil && pod.UID == patch.Metadata.UID {
		if w.regime.bare[key.Name].Before(began) {
			w.fail("LABELS", "%s loses its label although a policy has guarded it since before that was looked at", key.Name)
		}
	}
	if value, writes := patch.Metadata.Labels[v1alpha1.GovernedLabel]; k == namespaces && writes && value == nil && w.regime.void.Before(began) {
		w.fail("LABELS", "the namespace loses its label although it has had a policy since before that was looked at")
	}
}

// asksRules reports whether members of a role may not always go.
func (w *world) asksRules(name string) bool {
	role := w.role(name)
	return role == nil || len(role.Evict.Rules) > 0 || role.Evict.MinReady != nil
}

// asksNothing reports whether members of a role may go at any time, and any number of them.
func (w *world) asksNothing(name string) bool {
	role := w.role(name)
	if w.waits(name) {
		return false
	}
	if role == nil || len(role.Evict.Rules) > 0 || len(role.Evict.Prepare) > 0 || role.Evict.MinReady != nil {
		return false
	}
	return role.Evict.AtOnce == nil && role.State == v1alpha1.StateNone || role.Evict.AtOnce != nil && *role.Evict.AtOnce == 0
}

// settlesAtOnce reports whether a role says that its members do not count any more when they were seen gone.
func (w *world) settlesAtOnce(name string) bool {
	role := w.role(name)
	return role != nil && role.Evict.Settle != nil && role.Evict.Settle.Duration == 0
}

func (w *world) role(name string) *v1alpha1.Role {
	all := slices.Concat(w.site.spec(false).Roles, roles)
	if at := slices.IndexFunc(all, func(role v1alpha1.Role) bool { return role.Name == name }); at >= 0 {
		return &all[at]
	}
	return nil
}

// checkedFacts hands facts to a replica's webhook, and looks whether the evidence among them is of the system that the policy
// names.
type checkedFacts struct {
	*policycache.Gatherer
	replica *replica
}

// Input implements webhook.Facts.
func (c checkedFacts) Input(ctx context.Context, of policycache.Subject) (eviction.Input, error) {
	in, err := c.Gatherer.Input(ctx, of)
	if err != nil || in.Evidence == nil || in.Evidence.Error != "" {
		return in, err
	}
	claims := eviction.Claims(in.Policies, in.Pod)
	for i := range in.Policies {
		if len(claims) != 1 || in.Policies[i].Key != claims[0].Policy {
			continue
		}
		policy := c.replica.world.policy(in.Policies[i].Key.Name)
		if policy == nil || policy.ResourceVersion != in.Policies[i].Version {
			continue // a decision upon it will find that it is not the newest
		}
		meant, _ := addressees.Load(in.Policies[i].Policy)
		if asked, known := c.replica.origin(in.Evidence); known && asked != meant {
			c.replica.world.fail("SPEC", "%s judges %s by what another system said than the one that its policy names", c.replica.name, in.Pod.Name)
		}
	}
	return in, nil
}

// addressees are the systems that compiled policies are about.
var addressees sync.Map

// addressee names the system that a spec is about.
func addressee(spec *v1alpha1.System) string {
	switch {
	case spec.HTTP != nil:
		return spec.HTTP.Endpoints[0]
	case spec.Etcd != nil:
		return spec.Etcd.Endpoints[0]
	case spec.ArangoDB != nil:
		return spec.ArangoDB.JWT.Name
	case spec.FoundationDB != nil:
		return spec.FoundationDB.ClusterFile.ConfigMap.Name
	case spec.OpenStack != nil:
		return spec.OpenStack.Clouds.Name
	}
	return ""
}

// note remembers who said what. Evidence is copied on its way, but not the facts in it.
func (r *replica) remember(said *eviction.Evidence, by string) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.origins[reflect.ValueOf(said.Members).Pointer()] = by
}

func (r *replica) origin(of *eviction.Evidence) (string, bool) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	by, known := r.origins[reflect.ValueOf(of.Members).Pointer()]
	return by, known
}
