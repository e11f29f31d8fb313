package observe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// write answers a request that changes something, with the text of what it left. The caller holds the lock.
func (s *apiserver) write(request *http.Request, at place) ([]byte, error) {
	body := []byte{}
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	present := s.objects[at.resource][at.key()]
	switch {
	case request.Method == http.MethodPost && at.name == "":
		return s.create(at, body)
	case present == nil:
		return nil, apierrors.NewNotFound(at.group(), at.name)
	case request.Method == http.MethodPatch:
		return s.patch(at, present, body)
	case at.sub == "eviction":
		var eviction policyv1.Eviction
		if err := json.Unmarshal(body, &eviction); err != nil {
			return nil, err
		}
		return s.evict(at, present.object.(*corev1.Pod), ptr.Deref(eviction.DeleteOptions, metav1.DeleteOptions{})) //nolint:forcetypeassert // pods are
	case request.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, err
		}
		return s.delete(at, present.object, options)
	}
	return nil, apierrors.NewMethodNotSupported(at.group(), request.Method)
}

var success = []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`)

func (s *apiserver) create(at place, body []byte) ([]byte, error) {
	fresh := kinds[at.resource].empty()
	if err := json.Unmarshal(body, fresh); err != nil {
		return nil, err
	}
	fresh.SetNamespace(at.namespace)
	if s.objects[at.resource][keyOf(fresh)] != nil {
		return nil, apierrors.NewAlreadyExists(at.group(), fresh.GetName())
	}
	fresh.SetUID(types.UID(fmt.Sprintf("made-%d", s.version)))
	fresh.SetCreationTimestamp(metav1.Now())
	return s.set(at.resource, fresh).text, nil
}

// patch merges a JSON merge patch into an object. UID and resource version in it are preconditions.
func (s *apiserver) patch(at place, present *stored, body []byte) ([]byte, error) {
	var asked struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	var edit, whole map[string]any
	for text, into := range map[string]any{"asked": &asked, "edit": &edit} {
		if err := json.Unmarshal(body, into); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	if err := json.Unmarshal(present.text, &whole); err != nil {
		return nil, err
	}
	switch {
	case asked.Metadata.UID != "" && asked.Metadata.UID != present.object.GetUID():
		return nil, apierrors.NewInvalid(kinds[at.resource].version.WithKind(kinds[at.resource].kind).GroupKind(), at.name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), asked.Metadata.UID, "field is immutable")})
	case asked.Metadata.ResourceVersion != "" && asked.Metadata.ResourceVersion != present.object.GetResourceVersion():
		return nil, apierrors.NewConflict(at.group(), at.name, fmt.Errorf("the object has been modified"))
	}
	fresh := kinds[at.resource].empty()
	if err := json.Unmarshal(encoded(merged(whole, edit)), fresh); err != nil {
		return nil, err
	}
	if edit["spec"] != nil {
		fresh.SetGeneration(present.object.GetGeneration() + 1)
	}
	return s.set(at.resource, fresh).text, nil
}

// merged is a JSON merge patch (RFC 7386) applied.
func merged(whole, edit map[string]any) map[string]any {
	fresh := maps.Clone(whole)
	if fresh == nil {
		fresh = map[string]any{}
	}
	for key, value := range edit {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(fresh, key)
		case isMap:
			former, _ := fresh[key].(map[string]any)
			fresh[key] = merged(former, inner)
		default:
			fresh[key] = value
		}
	}
	return fresh
}

func (s *apiserver) delete(at place, present object, options metav1.DeleteOptions) ([]byte, error) {
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != present.GetUID() {
		return nil, apierrors.NewConflict(at.group(), at.name, fmt.Errorf("UID in precondition: %s, UID in object meta: %s", *p.UID, present.GetUID()))
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != present.GetResourceVersion() {
		return nil, apierrors.NewConflict(at.group(), at.name, fmt.Errorf("the ResourceVersion in the precondition does not match"))
	}
	if pod, ok := present.(*corev1.Pod); ok {
		s.terminate(pod, options.GracePeriodSeconds)
	} else {
		s.drop(at.resource, at.key())
	}
	return success, nil
}

// terminate ends a pod: at once, or when its grace is over.
func (s *apiserver) terminate(pod *corev1.Pod, grace *int64) {
	seconds := ptr.Deref(grace, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 30))
	if len(pod.Finalizers) == 0 && (seconds == 0 || pod.Spec.NodeName == "" || finished(pod)) {
		s.drop("pods", keyOf(pod))
		return
	}
	at := metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second))
	if pod.DeletionTimestamp != nil && !at.Before(pod.DeletionTimestamp) {
		return
	}
	fresh := pod.DeepCopy()
	fresh.DeletionTimestamp, fresh.DeletionGracePeriodSeconds = &at, &seconds
	s.set("pods", fresh)
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// evict asks the pod's budget as the eviction API does.
func (s *apiserver) evict(at place, pod *corev1.Pod, options metav1.DeleteOptions) ([]byte, error) {
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID || finished(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil {
		return s.delete(at, pod, options)
	}
	budgets := s.budgetsOver(pod)
	switch {
	case len(budgets) > 1:
		return nil, apierrors.NewInternalError(fmt.Errorf("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
	case len(budgets) == 1 && (isReady(pod) || !unreadyMayGo(budgets[0])):
		if err := s.use(budgets[0], pod); err != nil {
			return nil, err
		}
	}
	return s.delete(at, pod, options)
}

func unreadyMayGo(b *policyv1.PodDisruptionBudget) bool {
	always := ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow
	return always || b.Status.ObservedGeneration >= b.Generation && b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// use takes one eviction from a budget.
func (s *apiserver) use(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + b.Name + " needs more"}}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		refusal.ErrStatus.Details.RetryAfterSeconds = 10
		return refusal
	case b.Status.DisruptionsAllowed <= 0:
		return refusal
	}
	fresh := b.DeepCopy()
	fresh.Status.DisruptionsAllowed--
	if fresh.Status.DisruptedPods == nil {
		fresh.Status.DisruptedPods = map[string]metav1.Time{}
	}
	fresh.Status.DisruptedPods[pod.Name] = metav1.Now()
	s.set("poddisruptionbudgets", fresh)
	return nil
}

func (s *apiserver) budgetsOver(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var over []*policyv1.PodDisruptionBudget
	for _, o := range s.objects["poddisruptionbudgets"] {
		if b := o.object.(*policyv1.PodDisruptionBudget); counts(b, pod) { //nolint:forcetypeassert // budgets are
			over = append(over, b)
		}
	}
	return over
}

func counts(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels))
}

func isReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
