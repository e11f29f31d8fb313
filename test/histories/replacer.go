package histories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// replace is a person who has members replaced: mostly those whose machines are lost, and who may change their mind.
func (p *person) replace() {
	for range 2 + p.dice.IntN(3) {
		if !p.rest(20, 90) {
			return
		}
		pod := p.some()
		if gone := p.world.broken(); len(gone) > 0 && p.dice.IntN(6) > 0 {
			pod = gone[p.dice.IntN(len(gone))]
		}
		name := fmt.Sprintf("%s-%d", p.name, p.dice.IntN(1000))
		p.surely("requests the replacement of "+pod, func() { p.world.requestReplacement(name, pod) })
		if p.dice.IntN(4) == 0 && p.rest(1, 60) {
			erase := p.dice.IntN(4) == 0
			p.surely("withdraws "+name, func() {
				if request := p.world.replacement(name); request != nil && erase {
					p.world.note("%s takes the finalizers off %s", p.name, name)
					p.world.erase(request)
				} else if request != nil {
					p.world.store.remove(request)
				}
			})
		}
	}
}

// erase is a person who takes a request away by force, with all that it says was begun: that its member was removed for a successor is known no more.
func (w *world) erase(request *v1alpha1.ReplacementRequest) {
	w.erased[request.UID] = true
	delete(w.replacing, request.Status.PodName)
	w.store.drop(replaces, client.ObjectKeyFromObject(request))
}

// broken are the members whose disks are lost for good, and those of ReplicaSets and operators that do no work.
func (w *world) broken() []string {
	all := w.destroyed()
	for _, p := range w.site.members() {
		if (w.inDeployment(p.role) || w.operates(p.role) && !w.machines[p.pod].destroyed) && (w.lost(p.pod) || w.crashed[p.pod]) {
			all = append(all, p.pod)
		}
	}
	return all
}

func (w *world) replacement(name string) *v1alpha1.ReplacementRequest {
	for _, request := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		if request.Name == name {
			return request
		}
	}
	return nil
}

// requestReplacement creates a request, unless the member has one that is not over.
func (w *world) requestReplacement(name, pod string) {
	if !w.replaceable(pod) || slices.ContainsFunc(list[*v1alpha1.ReplacementRequest](w.store, replaces), func(q *v1alpha1.ReplacementRequest) bool {
		return q.Name == name || q.Spec.Member.ID == pod && !q.Status.Over()
	}) {
		return
	}
	request := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request.Spec = v1alpha1.ReplacementRequestSpec{
		Requester: "person.usher.sh/" + name, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: firstPolicy},
		Member: v1alpha1.ReplacementMember{Role: w.roleOf(pod), ID: pod},
	}
	if set := w.set(); set != nil {
		request.Spec.Member.Role = w.setSite().groupOf(set, pod).Role
	}
	if err := w.store.create(request); err != nil {
		w.fail("SIMULATOR", "requesting a replacement: %v", err)
	}
}

// restates reports whether a patch of a request's status says only what it waits for.
func restates(object client.Object, p part, body []byte) bool {
	var patch struct{ Status map[string]any }
	_, is := object.(*v1alpha1.ReplacementRequest)
	if !is || p != status || json.Unmarshal(body, &patch) != nil {
		return false
	}
	_, steps := patch.Status["step"]
	return !steps
}

// replaceDestroyed is what is left to people once nothing goes wrong any more: machines that are gone for good, and the members on them.
func (w *world) replaceDestroyed() {
	for _, pod := range w.destroyed() {
		w.deleteNode(pod)
		if w.repairing == nil {
			w.requestReplacement("last-"+pod, pod)
		}
	}
}

// hasJustMoved reports whether a request of a set's member, or of one that an operator replaces, is in another step since a moment ago: people and repair replace members
// as long as there are histories, and an operator may remove one at their end.
func (w *world) hasJustMoved(q *v1alpha1.ReplacementRequest) bool {
	at := q.CreationTimestamp.Time
	if q.Status.StepTime != nil {
		at = q.Status.StepTime.Time
	}
	return (w.setSite() != nil || w.operates(q.Spec.Member.Role)) && time.Since(at) < 30*time.Second
}

// hasRole reports whether the policy has members of a role: those of one whose name its owner has changed are of none for a request that names it.
func (w *world) hasRole(name string) bool {
	policy := w.policy(firstPolicy)
	return policy != nil && slices.ContainsFunc(policy.Spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Role == name })
}

// checkReplacements: every request is over, or says what it waits for, which is no successor where a ReplicaSet has made all pods that it is to make; and
// nothing of one that is over stands in the policy.
func (w *world) checkReplacements() {
	open := map[string]bool{}
	for _, request := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		open[request.Name] = !request.Status.Over()
		if !request.Status.Over() && len(request.Status.Blockers) == 0 && !w.hasJustMoved(request) {
			w.fail("LIVENESS", "replacement request %s for %s is neither over nor has a blocker: %s", request.Name, request.Spec.Member.ID, request.Status.Step)
		}
		if request.Status.Step == v1alpha1.ReplacementJoining && w.hasRole(request.Spec.Member.Role) && w.inDeployment(strings.TrimPrefix(request.Spec.Member.Role, "own-")) {
			w.fail("LIVENESS", "replacement request %s for %s waits for a successor, and all are there: %+v", request.Name, request.Spec.Member.ID, request.Status.Blockers)
		}
		w.note("replacement of %s: %s %+v", request.Spec.Member.ID, request.Status.Step, request.Status.Blockers)
	}
	policy := w.policy(firstPolicy)
	if policy == nil {
		return
	}
	for i := range policy.Status.Replacing {
		if entry := &policy.Status.Replacing[i]; !open[entry.Request] {
			w.fail("UNDO", "%s counts as being replaced for request %s, which is over", entry.ID, entry.Request)
		}
	}
}
