package eviction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// Limits of what a policy's status remembers of pods that are gone. The oldest is forgotten first.
const (
	mostDeparted = 16
	mostRefused  = 8
	// departedLife is how long a client that was refused for a pod may retry by name after the pod is gone. It is the time
	// for which the responder waits for such a retry.
	departedLife = callerRetryGrace
)

// departed returns the pod that the caller means by a name, where that pod is gone and the name is another pod's; nil if
// there is none. The caller was refused for it, retries by name, and does not know that it has left its node meanwhile.
//
// The pod that has the name now must not be moved for that. It is judged as any other, though, where it runs on the same
// node, or on one that is cordoned or tainted against new pods: the caller may be draining that one.
func (in *AdmissionInput) departed() *v1alpha1.Departed {
	if in.Verb != VerbEvict || !in.ByName || in.Requester == "" || text.Line(in.Pod.Annotations[v1alpha1.BreakGlassAnnotation]) != "" {
		return nil
	}
	for i := range in.Policies {
		policy := &in.Policies[i]
		if policy.Key.Namespace != in.Pod.Namespace || policy.Status == nil {
			continue
		}
		for _, entry := range former(policy.Status, in.Now) {
			if in.means(&entry) {
				return &entry
			}
		}
	}
	return nil
}

// former are the pods of which a policy's status says that they are gone or were let go.
func former(status *v1alpha1.EvictionPolicyStatus, now time.Time) []v1alpha1.Departed {
	var all []v1alpha1.Departed
	for i := range status.Departed {
		if age := now.Sub(status.Departed[i].GoneTime.Time); age < departedLife && age > -departedLife {
			all = append(all, status.Departed[i])
		}
	}
	for i := range status.Leaving {
		all = append(all, departedOf(&status.Leaving[i], now))
	}
	return all
}

func departedOf(entry *v1alpha1.Leaving, now time.Time) v1alpha1.Departed {
	return v1alpha1.Departed{PodUID: entry.PodUID, PodName: entry.PodName, Node: entry.Node, Refused: entry.Refused, GoneTime: moment(now)}
}

func (in *AdmissionInput) means(gone *v1alpha1.Departed) bool {
	return gone.PodName == in.Pod.Name && gone.PodUID != in.Pod.UID && slices.Contains(gone.Refused, in.Requester) &&
		gone.Node != "" && gone.Node != in.Pod.Node && (in.Pod.Node == "" || takesPods(in.Node))
}

// takesPods reports whether a node is known to stay. A NoSchedule taint may reserve it for some pods, so only those count
// that nodes get before they go.
func takesPods(node *snapshot.Node) bool {
	return node != nil && !node.Unschedulable && !slices.ContainsFunc(node.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectNoSchedule && goingTaint(t.Key)
	})
}

// goingTaint reports whether Kubernetes, its autoscaler or Karpenter puts a taint of this key on nodes that do not work or
// are about to go.
func goingTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "karpenter.sh/") || strings.HasSuffix(key, "OfClusterAutoscaler") ||
		strings.HasSuffix(key, "ByClusterAutoscaler")
}

// goneMeanwhile answers 404, which says of an eviction by name that there is nothing left to do. A 429 would make kubectl
// wait for a pod that it does not drain, and then move it.
func goneMeanwhile(in *AdmissionInput, gone *v1alpha1.Departed) AdmissionResult {
	where := "no node yet"
	if in.Pod.Node != "" {
		where = "node " + in.Pod.Node + ", which is not being drained"
	}
	message := fmt.Sprintf("pods %q not found: the pod of this name for which %s was refused has left node %s. Another pod has the name, on %s; "+
		"to evict that one, give its UID %s as a precondition, or ask again in %s", in.Pod.Name, in.User, gone.Node, where, in.Pod.UID, departedLife)
	return AdmissionResult{Code: notFound, Message: message, Note: Note{Kind: GoneMeanwhile, Message: message}}
}

// withRefused writes into the permit of a pod which requesters admission has refused for it.
func withRefused(permit []Action, uid types.UID, requests []AdmissionRequest) []Action {
	for i := range permit {
		if at := permitOf(permit[i].Status.Leaving, uid); at >= 0 {
			entry := &permit[i].Status.Leaving[at]
			entry.Refused = refusedFor(entry, requests, "")
		}
	}
	return permit
}

// refusedFor returns who is refused for a pod, beside one requester, sorted.
func refusedFor(entry *v1alpha1.Leaving, requests []AdmissionRequest, beside string) []string {
	all := slices.Clone(entry.Refused)
	for i := range requests {
		if r := &requests[i]; r.UID == entry.PodUID && r.Requester != beside && !slices.Contains(all, r.Requester) {
			all = append(all, r.Requester)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), mostRefused)]
}

// noteRefused keeps in a permit which requesters admission has refused for the pod: their requests go with the pod.
func (t *statusReconciler) noteRefused(entry *v1alpha1.Leaving) {
	refused := refusedFor(entry, t.in.Requests, t.in.Requesters[entry.Requester])
	if slices.Equal(refused, entry.Refused) {
		return
	}
	entry.Refused = refused
	t.write("others were refused for "+entry.PodName, time.Time{})
}

// depart remembers a pod that is gone while callers that were refused for it may ask again.
func (t *statusReconciler) depart(entry *v1alpha1.Leaving) {
	t.noteRefused(entry) // their requests go with the pod
	if entry.Node == "" || len(entry.Refused) == 0 {
		return
	}
	t.status.Departed = append(t.status.Departed, departedOf(entry, t.in.Now))
	t.status.Departed = t.status.Departed[max(0, len(t.status.Departed)-mostDeparted):]
}

// forgetDeparted removes the entries of pods for which no caller retries any more.
func (t *statusReconciler) forgetDeparted() {
	kept := t.status.Departed[:0]
	for _, entry := range t.status.Departed {
		end := entry.GoneTime.Add(departedLife)
		if !t.in.Now.Before(end) || entry.GoneTime.Sub(t.in.Now) > departedLife {
			t.write(entry.PodName+" is not asked for by its former callers any more", time.Time{})
			continue
		}
		t.look(end)
		kept = append(kept, entry)
	}
	t.status.Departed = kept
	if len(kept) == 0 {
		t.status.Departed = nil
	}
}
