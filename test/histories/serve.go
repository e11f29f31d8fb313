package histories

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// removal is a request to the apiserver: an eviction of a pod, or its DELETE.
type removal struct {
	user   string
	groups []string
	delete bool
	pod    string
	uid    types.UID // precondition
	// version is one as well; "": any.
	version string
	dryRun  bool
	ask     string
	grace   *int64

	of     string    // whose it is: several people may be one user
	looked time.Time // of Usher's own: when the controller began to look that sends it
	began  time.Time
	judged types.UID // the pod that admission was asked about
	// replaced: a policy's status said that it is being replaced when it was sent. That goes with its request, which people delete.
	replaced bool
	excuse   string      // why the truth does not matter; "": it does
	seen     []types.UID // pods that the replica which was asked saw terminating
	// newcomers: the policies that have the pod judged by its own system have all been created since that replica has observed policies.
	newcomers bool

	// horizon is from when on the replica need not have seen what happened.
	horizon time.Time
}

func (r *removal) String() string {
	verb := "evict"
	if r.delete {
		verb = "delete"
	}
	if r.dryRun {
		verb += " (dry run)"
	}
	if r.grace != nil && *r.grace == 0 {
		verb += " by force"
	}
	return fmt.Sprintf("%s %s %s", r.user, verb, r.pod)
}

// remove sends a removal, waits for the answer and gives up when ctx ends.
func (w *world) remove(ctx context.Context, r *removal) error {
	f := w.wait(ctx, &waiting{label: taskOf(ctx) + r.String(), of: r.of, replica: replicaOf(ctx)})
	if f == lost || f == killed {
		return errLost
	}
	answer := make(chan error, 1)
	w.spawn(func() { answer <- w.serve(r) }) //nolint:contextcheck // the apiserver goes on when its caller has given up
	select {
	case err := <-answer:
		if f == unheard {
			return errLost
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve is the apiserver's part: admission, then the act. Between the two anything may happen.
func (w *world) serve(r *removal) error {
	r.began = time.Now()
	r.horizon = r.began.Add(-maxAge)
	ctx, cancel := context.WithTimeout(w.ctx, 34*time.Second)
	defer cancel()
	before := w.store.pod(r.pod)
	if before != nil {
		r.judged, r.replaced = before.UID, w.isReplaced(r.pod)
	}
	if r.delete && before == nil {
		return notFound(pods, r.pod)
	}
	if !w.guarded(r, before) { // a kubelet asks, or no label is on yet: of one that Usher takes off, checkLabelGoes has judged
		if !w.asksNothing(w.roleOf(r.pod)) {
			r.excuse = "admission is not asked"
		}
	} else {
		err := w.admit(ctx, r, before)
		w.wait(w.ctx, &waiting{label: "(apiserver is answered about) " + r.String(), of: r.of}) // one of those that are answered at once is the first
		if err != nil {
			w.note("apiserver: %s: %s", r, short(err.Error()))
			return err
		}
	}
	if w.wait(ctx, &waiting{label: "apiserver carries out: " + r.String(), of: r.of}) != arrives && ctx.Err() != nil {
		return apierrors.NewTimeoutError("the request took too long", 1)
	}
	return w.carryOut(r)
}

// kubelet begins the names of users that are kubelets.
const kubelet = "system:node:"

// guarded is the webhook's scope: evictions by the namespace's label, deletions by the pod's as well, and none that a
// kubelet sends.
func (w *world) guarded(r *removal, pod *corev1.Pod) bool {
	if strings.HasPrefix(r.user, kubelet) {
		return false
	}
	if r.delete {
		if _, labelled := pod.Labels[v1alpha1.PolicyLabel]; !labelled {
			return false
		}
	}
	for _, ns := range list[*corev1.Namespace](w.store, namespaces) {
		return ns.Labels[v1alpha1.GovernedLabel] == "true"
	}
	return false
}

func (w *world) carryOut(r *removal) error {
	pod := w.store.pod(r.pod)
	resource := schema.GroupResource{Resource: "pods"}
	switch {
	case pod == nil:
		return notFound(pods, r.pod)
	case r.uid != "" && r.uid != pod.UID:
		return apierrors.NewConflict(resource, r.pod, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", r.uid, pod.UID))
	case r.delete && pod.UID != r.judged, r.version != "" && r.version != pod.ResourceVersion:
		return apierrors.NewConflict(resource, r.pod, errModified)
	case !r.delete && w.tight && pod.DeletionTimestamp == nil:
		return overBudget(r.pod)
	case r.dryRun:
		return nil
	}
	w.takeAway(r, pod)
	return nil
}

// takeAway has a pod terminate, or takes it away at once where it is given no time.
func (w *world) takeAway(r *removal, pod *corev1.Pod) {
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if r.grace != nil {
		grace = *r.grace
	}
	if pod.DeletionTimestamp != nil && grace > 0 {
		return
	}
	w.safety.letGo(w, r, pod)
	w.checkPermit(r, pod)
	w.checkLocks(r, pod)
	w.checkPodGoes(r, pod)
	c := ours
	if r.excuse != "" {
		c = accident
	}
	switch {
	case pod.Spec.NodeName == "": // no kubelet has it
		w.store.drop(pods, keyOf(pod))
		w.podLives[pod.Name] = missing
	case grace > 0:
		w.begins(pod)
	case r.excuse != "" && !w.noted(pod.UID):
		w.podLives[pod.Name] = missing
		w.site.stop(pod.Name)
		w.store.drop(pods, keyOf(pod))
	default:
		w.haunt(pod)
	}
	w.safety.changedBy(w, c, r.String(), pod)
}

// overBudget is what the eviction API answers where a budget allows no disruption, after admission has let it through.
func overBudget(pod string) error {
	refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget of " + pod + " needs all pods that are there",
	}}
	return refused
}
