package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// asLocker is the apiserver as a ServiceAccount sees it that may patch nodes.
func (r *replica) asLocker(of, serviceAccount string) (dynamic.Interface, error) {
	if of != namespace || serviceAccount != locker {
		r.world.fail("LOCKED", "%s acts as ServiceAccount %s of namespace %s", r.name, serviceAccount, of)
	}
	return nodeWriter{replica: r}, nil
}

// nodeWriter is a client that patches nodes. What Usher does not use is not there, and ends the history.
type nodeWriter struct {
	dynamic.NamespaceableResourceInterface

	replica *replica
}

func (n nodeWriter) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return n
}

func (n nodeWriter) Patch(ctx context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	r, w := n.replica, n.replica.world
	label := fmt.Sprintf("patch %s %s as %s", nodes, name, locker)
	r.unwoken(ctx, label)
	item, _ := ctx.Value(workKey).(work)
	look := nodeLook{policy: item.key, by: r.locksBy[item.key], began: lookedSince(ctx)}
	patched := &unstructured.Unstructured{Object: map[string]any{}}
	err := r.call(ctx, label, canBeLate, func() error {
		w.auditNode(body)
		before := w.lockedNode(name)
		after, err := w.store.patch(nodes, snapshot.Key{Name: name}, whole, body)
		if err != nil {
			return err
		}
		w.note("  wrote %s", body)
		node, _ := after.(*corev1.Node)
		w.locks.relabelled(before, node)
		if item.controller != "" { // nothing has woken it else
			w.checkNodeWrite(&look, before, node)
		}
		patched.SetResourceVersion(node.ResourceVersion)
		return nil
	})
	return patched, err
}

// nodeLook is a look by which nodes are written: when it began, for which policy, and what that said then; nil: nothing.
type nodeLook struct {
	policy snapshot.Key
	by     *v1alpha1.EvictionPolicy
	began  time.Time
}

// auditNode: a node is written upon its UID and a version.
func (w *world) auditNode(body []byte) {
	var patch struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if json.Unmarshal(body, &patch) != nil || patch.Metadata.UID == "" || patch.Metadata.ResourceVersion == "" {
		w.fail("PRECONDITION", "a node is written without its UID or a version: %s", body)
	}
}

// checkNodeWrite: of a node only the label of a nodeLock that has a waiter is written, and locks of the policy.
func (w *world) checkNodeWrite(l *nodeLook, before, after *corev1.Node) {
	policy := l.policy
	for _, key := range changedKeys(before.Labels, after.Labels) {
		if value := after.Labels[key]; key != stateLabel || w.lockSite().theirs || value != v1alpha1.NodeLockServes && value != v1alpha1.NodeLockLeaves {
			w.fail("LOCKED", "label %s of %s is set to %q for policy %s", key, after.Name, value, policy.Name)
		}
	}
	for _, key := range changedKeys(before.Annotations, after.Annotations) {
		_, stays := after.Annotations[key]
		switch {
		case !strings.HasPrefix(key, lockPrefix+"/") || snapshot.LockOwner(key) != snapshot.NodeLockOwner(policy):
			w.fail("LOCKED", "annotation %s of %s is written for policy %s, whose lock it is not", key, after.Name, policy.Name)
		case !stays:
			w.checkUnlocked(l, after.Name, key)
		}
	}
	if !bytes.Equal(encode(before.Spec), encode(after.Spec)) || !bytes.Equal(encode(before.Status), encode(after.Status)) {
		w.fail("LOCKED", "more than labels and annotations of %s is written", after.Name)
	}
}

func changedKeys(before, after map[string]string) []string {
	var changed []string
	for key, value := range before {
		if now, there := after[key]; !there || now != value {
			changed = append(changed, key)
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed
}

// checkUnlocked: a lock of a policy is taken off only once its holders are gone, or the policy has none any more. What came after the look began cannot be known, nor what its
// owner has changed since the policy came to the replica that the look began with, nor of what stays whether it is emptied.
func (w *world) checkUnlocked(l *nodeLook, node, lock string) {
	policy := w.policy(l.policy.Name)
	if policy == nil || l.by == nil || l.by.UID != policy.UID || l.by.Generation != policy.Generation || !slices.Contains(w.standing(), policy.Name) {
		return
	}
	for _, pod := range w.holders(policy, node, lock) {
		if stays := w.lockSite().stay && w.roleOf(pod.Name) == "keeper"; !stays && !w.boundAt(pod).After(l.began) {
			w.fail("LOCKED", "lock %s is taken off %s, and %s is there", lock, node, pod.Name)
		}
	}
}

// boundAt is since when a pod is on its node.
func (w *world) boundAt(pod *corev1.Pod) time.Time {
	if at, waited := w.locks.bound[pod.UID]; waited {
		return at
	}
	return pod.CreationTimestamp.Time
}

// holders are the pods on a node that need a lock of a policy there. Of roles whose members are emptied and stay, it is another matter whether they need one.
func (w *world) holders(policy *v1alpha1.EvictionPolicy, node, lock string) []*corev1.Pod {
	var all []*corev1.Pod
	for _, p := range w.site.members() {
		role := p.role
		if policy.Name == firstPolicy && w.regime.renamed {
			role = "own-" + role
		}
		pod := w.store.pod(p.pod)
		holds := slices.Contains(policy.Spec.NodeLock.Holders, role) && lock == lockOf(policy.Name, role) && w.claims(policy.Name, p.pod)
		if pod == nil || pod.Spec.NodeName != node || pod.Status.Phase == corev1.PodFailed || !holds || w.emptiedPod(policy, pod) {
			continue
		}
		all = append(all, pod)
	}
	return all
}

func (w *world) emptiedPod(policy *v1alpha1.EvictionPolicy, pod *corev1.Pod) bool {
	return slices.ContainsFunc(policy.Status.Emptied, func(e v1alpha1.Emptied) bool { return e.PodUID == pod.UID })
}

func lockOf(policy, role string) string {
	return lockPrefix + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: namespace, Name: policy}, role)
}

// checkLocks checks the leave of an agent at the instant at which the apiserver lets it go: no lock is on its node, no holder is there, and the label says that it leaves. A lock
// that was set, and a holder that came, after Usher began to look counts where the label said all the time that the agent leaves. On a machine that is off, or was a moment ago, nothing
// needs an agent.
func (w *world) checkLocks(r *removal, pod *corev1.Pod) {
	m := w.machines[pod.Name]
	if !w.waits(w.roleOf(pod.Name)) || r.excuse != "" || pod.Spec.NodeName == "" || m.off || !m.back.Before(r.began.Add(-maxAge)) {
		return
	}
	node := w.lockedNode(pod.Spec.NodeName)
	restarts := w.restarts(r, pod)
	unforeseen := restarts || !w.locks.meddled[node.Name].Before(r.began) || !w.locks.left[node.Name].Before(r.began)
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if strings.HasPrefix(key, lockPrefix+"/") && w.locks.hold(nodeLock{node.Name, key}, r.began, unforeseen) {
			w.fail("LOCKED", "%s may take %s away, and lock %s is on %s", r.user, pod.Name, key, node.Name)
		}
	}
	for _, holder := range w.holding(node.Name) {
		if at := w.boundAt(holder); at.Before(r.began) || holder.Spec.Affinity != nil && !unforeseen {
			w.fail("LOCKED", "%s may take %s away, and %s is on %s since %.3f", r.user, pod.Name, holder.Name, node.Name, at.Sub(w.begun).Seconds())
		}
	}
	if !restarts && node.Labels[stateLabel] != v1alpha1.NodeLockLeaves && w.locks.left[node.Name].Before(r.began) {
		w.fail("LOCKED", "%s may take %s away, and the label of %s is %q", r.user, pod.Name, node.Name, node.Labels[stateLabel])
	}
}

// restarts reports whether a removal is the DELETE of a pod that comes back where it is: a DaemonSet owns it, or did when the removal was sent.
func (w *world) restarts(r *removal, pod *corev1.Pod) bool {
	return r.delete && (ofDaemonSet(pod) || !w.locks.disowned[pod.UID].Before(r.began))
}

// ofDaemonSet reports whether a DaemonSet owns a pod. One that its DaemonSet was deleted without does not come back where it was.
func ofDaemonSet(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

// hold reports whether a lock holds an agent whose removal was sent at a time. Unforeseen: the label did not keep away what has come since.
func (l *locks) hold(lock nodeLock, began time.Time, unforeseen bool) bool {
	since, foreign := l.set[lock]
	return foreign && since.Before(began) || (!foreign || l.serves[lock]) && !unforeseen
}

// holding are the holders of all policies that stand that are on a node.
func (w *world) holding(node string) []*corev1.Pod {
	var all []*corev1.Pod
	for _, name := range w.standing() {
		policy := w.policy(name)
		for _, role := range policy.Spec.NodeLock.Holders {
			all = append(all, w.holders(policy, node, lockOf(name, role))...)
		}
	}
	return all
}

// lockedWithin is how long labels and locks may take in peace: what another client has changed back is written again after half a minute.
const lockedWithin = 45 * time.Second

// checkNodeLocks: in peace nodes have the label and the locks that they are to have, and who is asked to leave is so because of the label. People ask on, and each look takes a moment.
func (w *world) checkNodeLocks() {
	if w.lockSite() == nil || w.locks.givenUp {
		return
	}
	var wrong []string
	for end := time.Now().Add(lockedWithin); time.Now().Before(end) && !w.failed(); w.settle(time.Second) {
		if wrong = w.wrongLocks(); len(wrong) == 0 {
			return
		}
	}
	for _, what := range wrong {
		w.fail("LOCKED", "%s", what)
	}
}

// wrongLocks says what nodes have that they are not to have, or lack.
func (w *world) wrongLocks() []string {
	var wrong []string
	for _, name := range []string{firstPolicy, secondPolicy} {
		policy := w.policy(name)
		if policy != nil && policy.Spec.Suspend && policy.DeletionTimestamp == nil && !policy.Spec.Audited() {
			continue
		}
		for _, node := range list[*corev1.Node](w.store, nodes) {
			wrong = append(wrong, w.wrongLocksOf(name, node)...)
			if slices.Contains(w.standing(), name) {
				wrong = append(wrong, w.wrongLabel(name, node)...)
			}
		}
		wrong = append(wrong, w.wrongRequests(name)...)
	}
	return append(wrong, w.silent()...)
}

func (w *world) wrongLocksOf(name string, node *corev1.Node) []string {
	wanted := map[string]bool{}
	if policy := w.policy(name); slices.Contains(w.standing(), name) {
		for _, role := range policy.Spec.NodeLock.Holders {
			wanted[lockOf(name, role)] = len(w.holders(policy, node.Name, lockOf(name, role))) > 0
		}
	}
	for key := range node.Annotations {
		if snapshot.LockOwner(key) == snapshot.NodeLockOwner(snapshot.Key{Namespace: namespace, Name: name}) && !wanted[key] {
			return []string{fmt.Sprintf("%s has lock %s of policy %s, whose holders are not there", node.Name, key, name)}
		}
	}
	for key, is := range wanted {
		if _, there := node.Annotations[key]; is && !there {
			return []string{fmt.Sprintf("%s lacks lock %s of policy %s, whose holders are there", node.Name, key, name)}
		}
	}
	return nil
}

// wrongLabel says of a node with an agent of a policy what its label says wrongly. Where the agent does no work, and is not wanted gone, any value is right.
func (w *world) wrongLabel(policy string, node *corev1.Node) []string {
	for _, p := range w.site.members() {
		pod := w.store.pod(p.pod)
		if p.role != agentRole || pod == nil || pod.Spec.NodeName != node.Name || pod.Status.Phase == corev1.PodFailed || !w.claims(policy, p.pod) {
			continue
		}
		want := ""
		switch {
		case pod.DeletionTimestamp != nil || len(w.wanting(pod, "")) > 0:
			want = v1alpha1.NodeLockLeaves
		case isReady(pod):
			want = v1alpha1.NodeLockServes
		}
		if is := node.Labels[stateLabel]; want != "" && is != want {
			return []string{fmt.Sprintf("the label of %s is %q, and is to be %q for %s", node.Name, is, want, pod.Name)}
		}
	}
	return nil
}

// wanting are the requests that stand for a pod, "" for those of all requesters.
func (w *world) wanting(pod *corev1.Pod, requester string) []*api.EvictionRequest {
	return slices.DeleteFunc(list[*api.EvictionRequest](w.store, requests), func(q *api.EvictionRequest) bool {
		ref, _ := evictionrequest.RequestRef(q)
		return !wanted(q) || ref.UID != pod.UID || requester != "" && q.Spec.Requester != requester
	})
}

// wrongRequests: the nodeLock of a policy asks exactly those holders to leave on whose node the label says so, and its agent is wanted gone where it has one.
func (w *world) wrongRequests(name string) []string {
	requester := evictionrequest.NodeLockRequester(name)
	stands := slices.Contains(w.standing(), name)
	for _, p := range w.site.members() {
		pod := w.store.pod(p.pod)
		if pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		is, want := len(w.wanting(pod, requester)) > 0, stands && w.isToLeave(name, pod)
		if is && !want {
			return []string{fmt.Sprintf("the nodeLock of %s asks %s to leave, and is not to", name, pod.Name)}
		}
		if want && !is && !w.emptiedPod(w.policy(name), pod) {
			return []string{fmt.Sprintf("the nodeLock of %s does not ask %s to leave, and is to", name, pod.Name)}
		}
	}
	return nil
}

func (w *world) isToLeave(policy string, pod *corev1.Pod) bool {
	holds := slices.ContainsFunc(w.holding(pod.Spec.NodeName), func(h *corev1.Pod) bool { return h.UID == pod.UID })
	if !holds && !w.emptiedPod(w.policy(policy), pod) || !w.claims(policy, pod.Name) || w.lockedNode(pod.Spec.NodeName).Labels[stateLabel] != v1alpha1.NodeLockLeaves {
		return false
	}
	return w.lockSite().theirs || slices.ContainsFunc(w.site.members(), func(p planned) bool {
		agent := w.store.pod(p.pod)
		return p.role == agentRole && agent != nil && agent.Spec.NodeName == pod.Spec.NodeName && len(w.wanting(agent, "")) > 0
	})
}

// silent names the agents that are wanted gone, whose nodes are locked, and whose eviction does not say what it waits for, once there was time to take the request up. Those that a
// DaemonSet owns never go, with locks or without: their evictions say that, and are looked at again once locks go, not when more come.
func (w *world) silent() []string {
	if len(w.standing()) != 1 || w.policy(w.standing()[0]).Spec.Suspend {
		return nil
	}
	var all []string
	for _, p := range w.site.members() {
		pod := w.store.pod(p.pod)
		if p.role != agentRole || pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" || !w.claims(w.standing()[0], p.pod) {
			continue
		}
		long := slices.ContainsFunc(w.wanting(pod, ""), func(q *api.EvictionRequest) bool { return time.Since(q.CreationTimestamp.Time) > drain.TakenUpWithin })
		locked := slices.ContainsFunc(slices.Collect(maps.Keys(w.lockedNode(pod.Spec.NodeName).Annotations)), func(key string) bool { return strings.HasPrefix(key, lockPrefix+"/") })
		said := w.blocker(evictionrequest.Ref{Namespace: namespace, Name: pod.Name, UID: pod.UID})
		if long && locked && !strings.Contains(said, agentWaitsFor(pod)) {
			all = append(all, fmt.Sprintf("%s is wanted gone, %s is locked, and the eviction says: %q", pod.Name, pod.Spec.NodeName, said))
		}
	}
	return all
}

// agentWaitsFor is what the eviction of an agent on a locked node says.
func agentWaitsFor(pod *corev1.Pod) string {
	if ofDaemonSet(pod) {
		return "a pod of a DaemonSet cannot be evicted"
	}
	return "has locks of what needs it there"
}

// relocks reports whether a patch of a policy's status counts anew who may leave, where that depends on the labels and locks of nodes: what these say is no event for a
// policy, and is written within half a minute.
func (w *world) relocks(object client.Object, p part, body []byte) bool {
	policy, ok := object.(*v1alpha1.EvictionPolicy)
	return ok && w.lockSite() != nil && p == status && sameStatus(policy, body, func(s *v1alpha1.EvictionPolicyStatus) {
		s.Blocked = nil
		for i := range s.Roles {
			s.Roles[i].EvictableCount = 0
		}
	})
}

// saysLocks reports whether an eviction is that of an agent: that its node has another lock is no event, and is said when the responder looks again.
func (w *world) saysLocks(e *api.Eviction) bool {
	ref, _ := evictionrequest.EvictionRef(e)
	return w.waits(w.roleOf(ref.Name))
}

// locksSaid reports whether a key is a policy that is being deleted, at which the manager looks again: that its locks are off, or that none can be on its way any more, is no event.
func (r *replica) locksSaid(item work, at time.Time) bool {
	policy, ok := r.cache.objects[policies][item.key].(*v1alpha1.EvictionPolicy)
	return ok && item.controller == policyController && policy.Spec.NodeLock != nil && policy.DeletionTimestamp != nil && time.Until(at) <= deletedPause
}

// deletedPause is the longest between two looks at a policy that is being deleted and waits for its locks.
const deletedPause = 5 * time.Second
