package responder

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// waiting knows by which policy the pods are judged that are wanted gone, so that an event reaches those to which it may make a
// difference, at a cost that does not grow with the requests of the namespace. It says what the last look at each pod has found: a process
// that begins to lead looks at all of them.
type waiting struct {
	mu       sync.Mutex
	policies map[snapshot.Key]string                     // by pod
	pods     map[string]map[string]map[snapshot.Key]bool // by namespace and policy
}

// Beside the names of policies.
const (
	// undecided: a look at the pod is under way or has failed. Any event may make a difference.
	undecided = ""
	// noPolicy: no policy judges the pod, or several claim it. So it is until a policy's spec or the pod itself changes.
	noPolicy = "-"
)

func newWaiting() *waiting {
	return &waiting{policies: map[snapshot.Key]string{}, pods: map[string]map[string]map[snapshot.Key]bool{}}
}

// judge is the policy that judges a pod on which there are these claims.
func judge(claims []eviction.Claim) string {
	if len(claims) == 1 {
		return claims[0].Policy.Name
	}
	return noPolicy
}

func (w *waiting) set(pod snapshot.Key, policy string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(pod)
	w.policies[pod] = policy
	namespace := w.pods[pod.Namespace]
	if namespace == nil {
		namespace = map[string]map[snapshot.Key]bool{}
		w.pods[pod.Namespace] = namespace
	}
	if namespace[policy] == nil {
		namespace[policy] = map[snapshot.Key]bool{}
	}
	namespace[policy][pod] = true
}

// forget is for a pod that is not wanted gone.
func (w *waiting) forget(pod snapshot.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(pod)
}

func (w *waiting) remove(pod snapshot.Key) {
	policy, known := w.policies[pod]
	if !known {
		return
	}
	delete(w.policies, pod)
	namespace := w.pods[pod.Namespace]
	if delete(namespace[policy], pod); len(namespace[policy]) == 0 {
		delete(namespace, policy)
	}
	if len(namespace) == 0 {
		delete(w.pods, pod.Namespace)
	}
}

func (w *waiting) knows(pod snapshot.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.policies[pod]
	return known
}

// of returns the pods that policies of a namespace judge, and those that are undecided.
func (w *waiting) of(namespace string, policies ...string) []reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []reconcile.Request
	for _, policy := range append(policies, undecided) {
		for pod := range w.pods[namespace][policy] {
			keys = append(keys, reconcile.Request{NamespacedName: pod})
		}
	}
	return keys
}

// in returns all pods of a namespace.
func (w *waiting) in(namespace string) []reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []reconcile.Request
	for _, pods := range w.pods[namespace] {
		for pod := range pods {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKey(pod)})
		}
	}
	return keys
}

// all returns the pods of all namespaces.
func (w *waiting) all() []reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []reconcile.Request
	for pod := range w.policies {
		keys = append(keys, reconcile.Request{NamespacedName: pod})
	}
	return keys
}
