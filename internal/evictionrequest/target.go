package evictionrequest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Ref names a pod for good: one that came back under the same name is another.
type Ref struct {
	Namespace string
	Name      string
	UID       types.UID
}

// Target is what is known about one pod and about everything that names it.
type Target struct {
	Now time.Time
	Ref Ref
	// Version is the group and version under which the cluster serves the two kinds.
	Version schema.GroupVersion
	// Pod is nil only when it was seen that no pod has the reference's name and UID. A pod that a watch has not
	// delivered yet is not gone.
	Pod *corev1.Pod
	// EndedSince is when the pod was first seen gone or terminal; zero for now.
	EndedSince time.Time
	// Governed reports whether Usher's responder serves a pod although its spec may not name it.
	Governed func(*corev1.Pod) bool
	// Requests and Evictions are those of all pods of the reference's namespace and name, whatever their UIDs.
	Requests  []*api.EvictionRequest
	Evictions []*api.Eviction
	// Made is the eviction that this process created last for the pod, which the evictions may lack.
	Made Made
}

// Made is an eviction that was created for a pod, and when; zero for none that is remembered.
type Made struct {
	Name string
	Time time.Time
}

// RequestRef returns the pod that a request names; false when it names none.
func RequestRef(r *api.EvictionRequest) (Ref, bool) {
	if r.Spec.Target.Pod == nil {
		return Ref{Namespace: r.Namespace}, false
	}
	return Ref{Namespace: r.Namespace, Name: r.Spec.Target.Pod.Name, UID: r.Spec.Target.Pod.UID}, true
}

// EvictionRef returns the pod that an eviction names; false when it names none.
func EvictionRef(e *api.Eviction) (Ref, bool) {
	if e.Spec.Target.Pod == nil {
		return Ref{Namespace: e.Namespace}, false
	}
	return Ref{Namespace: e.Namespace, Name: e.Spec.Target.Pod.Name, UID: e.Spec.Target.Pod.UID}, true
}

// RefOf returns the pod that a request or an eviction names; false when it names none, or is neither.
func RefOf(o metav1.Object) (Ref, bool) {
	switch o := o.(type) {
	case *api.EvictionRequest:
		return RequestRef(o)
	case *api.Eviction:
		return EvictionRef(o)
	}
	return Ref{}, false
}

// Failed reports whether an eviction or a request has failed for good.
func Failed(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, string(api.EvictionConditionFailed))
}

// Evicted reports whether the target is gone or terminal.
func Evicted(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, string(api.EvictionConditionTargetEvicted))
}

// isInvalid reports whether an eviction or a request can never be carried out.
func isInvalid(conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, string(api.EvictionConditionFailed))
	return Failed(conditions) && c.Reason == string(api.EvictionConditionReasonEvictionInvalid)
}

// Final reports whether an eviction has ended: nothing of its status changes any more.
func Final(e *api.Eviction) bool {
	return Failed(e.Status.Conditions) || Evicted(e.Status.Conditions)
}

// mine returns the requests of exactly this pod.
func (t Target) mine() []*api.EvictionRequest {
	var mine []*api.EvictionRequest
	for _, r := range t.Requests {
		if ref, ok := RequestRef(r); ok && ref == t.Ref {
			mine = append(mine, r)
		}
	}
	return mine
}

// requests returns the requests of exactly this pod, oldest first.
func (t Target) requests() []*api.EvictionRequest {
	mine := t.mine()
	slices.SortFunc(mine, func(a, b *api.EvictionRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return mine
}

// evictions returns the evictions of exactly this pod, oldest first. Creation times have a resolution of a second, so
// the number in the name decides between two of the same second.
func (t Target) evictions() []*api.Eviction {
	var mine []*api.Eviction
	for _, e := range t.Evictions {
		if ref, ok := EvictionRef(e); ok && ref == t.Ref {
			mine = append(mine, e)
		}
	}
	slices.SortFunc(mine, func(a, b *api.Eviction) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(serial(a.Name), serial(b.Name)),
			strings.Compare(a.Name, b.Name))
	})
	return mine
}

// relevant returns the eviction that speaks for the pod: the newest that succeeded, else the oldest that goes on, else
// the newest that failed; nil if there is none. One that is invalid never does: another came first, as the cache of some process had it,
// and what that says to requests is not to end them.
func (t Target) relevant() *api.Eviction {
	var succeeded, active, failed *api.Eviction
	for _, e := range t.evictions() {
		switch {
		case Evicted(e.Status.Conditions):
			succeeded = e
		case isInvalid(e.Status.Conditions):
		case Failed(e.Status.Conditions):
			failed = e
		case active == nil:
			active = e
		}
	}
	return cmp.Or(succeeded, active, failed)
}

// Stands reports whether a request stands. One that is being deleted does not, even if a finalizer holds it.
func Stands(r *api.EvictionRequest) bool {
	return r.DeletionTimestamp == nil && r.Spec.Intent == api.EvictionRequestIntentEviction
}

func (t Target) wanted() bool {
	return slices.ContainsFunc(t.mine(), Stands)
}

func (t Target) terminal() bool {
	return t.Pod != nil && (t.Pod.Status.Phase == corev1.PodSucceeded || t.Pod.Status.Phase == corev1.PodFailed)
}

// grouped reports whether the pod belongs to a PodGroup, which the API does not support.
func (t Target) grouped() bool {
	return t.Pod != nil && t.Pod.Spec.SchedulingGroup != nil
}

// serial returns the number in an eviction's name, 0 if it has none.
func serial(name string) int {
	rest, ok := strings.CutPrefix(name, "pod-")
	if !ok {
		return 0
	}
	digits, _, ok := strings.Cut(rest, "-")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
