package replacement

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/replacement"
)

// knowledge is what is known of requests beside the cache. Nothing is lost with the process: it says only how soon they are looked at again, and what need not
// be read again.
type knowledge struct {
	mu       sync.Mutex
	at       map[types.UID]time.Time // of the last look
	versions map[types.UID]*v1alpha1.ReplacementRequest
	looks    map[types.UID]*look // that were held up by a system alone, until the next
}

const (
	// mostKnown is how many requests are remembered; beyond, they are looked at and read more often.
	mostKnown = 1000
	// mostLooks is the same of looks, which have pods and sets, of mostLook bytes each.
	mostLooks = 100
	mostLook  = 128 << 10
)

func (k *knowledge) looked(request types.UID, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil || len(k.at) >= mostKnown {
		k.at = map[types.UID]time.Time{}
	}
	k.at[request] = at
}

// hold keeps a look for the next one. A large one would take the memory of others, and what it has is read again.
func (k *knowledge) hold(l *look) {
	if l.size() > mostLook {
		return
	}
	kept := *l
	kept.request = replacement.Slim(l.request)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looks == nil || len(k.looks) >= mostLooks {
		k.looks = map[types.UID]*look{}
	}
	k.looks[l.request.UID] = &kept
}

// size is how many bytes a look has of what its owner may have made large.
func (l *look) size() int {
	total := 0
	for _, pod := range []*corev1.Pod{l.pod, l.made} {
		if pod != nil {
			total += pod.Size()
		}
	}
	if l.template != nil {
		total += l.template.Size()
	}
	return total
}

// held returns the look that was kept for a request, once; nil: there is none.
func (k *knowledge) held(request types.UID) *look {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.looks[request]
	delete(k.looks, request)
	return l
}

func (k *knowledge) last(request types.UID) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at[request]
}

// note takes in a request as the apiserver has just returned it, because the cache will have it only later.
func (k *knowledge) note(request *v1alpha1.ReplacementRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.versions == nil || len(k.versions) >= mostKnown {
		k.versions = map[types.UID]*v1alpha1.ReplacementRequest{}
	}
	k.versions[request.UID] = replacement.Slim(request)
}

// latest returns what is known of a request that the cache has, which must not be changed. Once the cache has that too, it is forgotten.
func (k *knowledge) latest(cached *v1alpha1.ReplacementRequest) *v1alpha1.ReplacementRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	noted := k.versions[cached.UID]
	if noted == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, noted.ResourceVersion); err == nil && order < 0 {
		return noted
	}
	delete(k.versions, cached.UID)
	return cached
}

// stands returns how long a request need not be looked at, since the cache shows that what it waits for stands: a node that does not report and is not
// proven off, or a successor whose pod is not there yet, is on no node, or is not Ready. Zero: it is looked at now.
func (r *reconciler) stands(ctx context.Context, request *v1alpha1.ReplacementRequest) (time.Duration, error) {
	passed := r.Now().Sub(r.known.last(request.UID))
	if delegating(request) || request.DeletionTimestamp != nil || request.Generation != request.Status.ObservedGeneration || passed >= anyway || passed < 0 {
		return 0, nil
	}
	switch progress := replacement.ProgressOf(&request.Status); progress.Phase {
	case replacement.Waiting:
		stands, err := r.nodeStands(ctx, request)
		if stands {
			return anyway - passed, err
		}
		return 0, err
	case replacement.Removing, replacement.Joining:
		pod, err := r.cachedPod(ctx, request)
		return max(0, podStands(&progress, pod)-passed), err
	case replacement.Complete, replacement.Cancelled:
	}
	return 0, nil
}

// podStands is how long after a look nothing follows from the pod that the cache has; nil: it has none. An event comes once that is another, which its
// set makes when the claims are gone, or is Ready.
func podStands(progress *replacement.Progress, pod *corev1.Pod) time.Duration {
	switch bound := pod != nil && pod.Spec.NodeName != ""; {
	case progress.Phase == replacement.Removing && pod != nil && (pod.UID != progress.PodUID || pod.DeletionTimestamp == nil):
		return 0
	case bound && progress.Phase == replacement.Joining && (progress.Registration != nil || isReady(pod)):
		return 0
	}
	return later
}

// nodeStands reports whether a node for which a request waits is as its status says. One that has a permit is looked at: it may have to give it back.
func (r *reconciler) nodeStands(ctx context.Context, request *v1alpha1.ReplacementRequest) (bool, error) {
	policy, err := r.Gatherer.Policies.Policy(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Source.Name})
	if err != nil || eviction.ReplacingFor(&policy.Status, request.UID) >= 0 {
		return false, client.IgnoreNotFound(err)
	}
	for i := range request.Status.Places {
		place := &request.Status.Places[i]
		object := &corev1.Node{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: place.Node}, object); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		node, err := r.standing(ctx, place.Node, object)
		if err != nil {
			return false, err
		}
		if node.UID == place.NodeUID && replacement.WaitsFor(&request.Status, &node) {
			return true, nil
		}
	}
	return false, nil
}

// cachedPod is the successor's, as the cache has it; nil: there is none.
func (r *reconciler) cachedPod(ctx context.Context, request *v1alpha1.ReplacementRequest) (*corev1.Pod, error) {
	p := request.Status.Predecessor
	if p == nil {
		return nil, nil
	}
	var pod corev1.Pod
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: p.PodName}, &pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &pod, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// lightly looks at a request by a few reads where these show that nothing is left to be removed, or that a successor waits for its system, and reports
// whether that is all for now.
func (r *reconciler) lightly(ctx context.Context, request *v1alpha1.ReplacementRequest) (done bool, result reconcile.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.patienceFor(ctx, request))
	defer cancel()
	seen := r.newLook(request)
	look := map[replacement.Phase]func(context.Context, *look) (bool, error){replacement.Removing: r.leftovers, replacement.Joining: r.successor}[seen.in.Progress.Phase]
	if look == nil || seen.in.Cancelled || delegating(request) {
		return false, result, nil
	}
	if enough, err := look(ctx, seen); err != nil || !enough {
		return false, result, err
	}
	step := replacement.Step(seen.in)
	if slices.ContainsFunc(step.Actions, func(a replacement.Action) bool { return !light(&a) }) {
		return false, result, nil
	}
	if _, result, err = r.carryOut(ctx, seen, &step); err == nil && result.IsZero() {
		result.RequeueAfter = soon
	}
	return true, result, err
}

// light reports whether an action may follow from a few reads: it removes nothing. That a successor does its work is the word of its system, whose list is
// asked for at each look.
func light(a *replacement.Action) bool {
	return a.Kind == replacement.Join || a.Kind == replacement.Write && (a.Progress.Phase == replacement.Joining || a.Progress.Phase == replacement.Complete)
}

// leftovers looks at what is left of a predecessor, and reports whether all that is on its way. Its pod is looked at by the cache: what is gone there
// does not come back.
func (r *reconciler) leftovers(ctx context.Context, l *look) (enough bool, err error) {
	p := l.request.Status.Predecessor
	if p == nil {
		return false, nil
	}
	l.cached, l.in.Member.PodName, l.in.Set = true, p.PodName, replacement.Set{Name: p.StatefulSet, Makes: replacement.Yes}
	if l.pod, err = r.cachedPod(ctx, l.request); err != nil {
		return false, err
	}
	if l.pod != nil && l.pod.UID == p.PodUID && l.pod.DeletionTimestamp == nil {
		return false, nil
	}
	for _, c := range l.in.Progress.Claims {
		var claim corev1.PersistentVolumeClaim
		err := r.live.Get(ctx, client.ObjectKey{Namespace: l.request.Namespace, Name: c.Name}, &claim)
		switch {
		case client.IgnoreNotFound(err) != nil || err == nil && claim.UID == c.UID && claim.DeletionTimestamp == nil:
			return false, nil //nolint:nilerr // another look says what it could not read
		case err == nil:
			l.in.Claims = append(l.in.Claims, replacement.Claim{Name: c.Name, UID: claim.UID, Terminating: claim.DeletionTimestamp != nil})
		}
	}
	if err := r.source(ctx, l); err != nil {
		return false, err
	}
	if err := r.present(ctx, l); err != nil {
		return false, err
	}
	r.listing(ctx, l)
	return !replacement.Untouched(&l.in), nil
}

// successor looks at one that is on a node and has its part in its system's list to get, by the cache, and reports whether it is such a one. BySteps the system
// does not tell it from its predecessor, so that only the pod, which the cache may lack, says that it is there.
func (r *reconciler) successor(ctx context.Context, l *look) (enough bool, err error) {
	pod, err := r.cachedPod(ctx, l.request)
	if err != nil || pod == nil || pod.Spec.NodeName == "" || pod.UID == l.in.Progress.PodUID || l.in.Progress.Registration == nil {
		return false, err
	}
	l.cached, l.pod, l.in.Member.PodName = true, pod, pod.Name
	l.in.Set = replacement.Set{Name: l.request.Status.Predecessor.StatefulSet, Makes: replacement.Yes}
	if err := r.source(ctx, l); err != nil || l.policy == nil {
		return false, err
	}
	l.claimed(r.Gatherer.Policies)
	if r.order(l) == replacement.BySteps {
		return false, nil
	}
	if err := r.present(ctx, l); err != nil {
		return false, err
	}
	r.listing(ctx, l)
	return true, r.judge(ctx, l)
}
