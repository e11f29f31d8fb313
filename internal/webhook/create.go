package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"gomodules.xyz/jsonpatch/v2"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
)

// creationHandler marks governed pods when they are created.
type creationHandler struct{ Options }

// Handle answers one request. It never keeps a pod from being created: the policy's controller makes good what was missed,
// as far as that can be done later.
func (h *creationHandler) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	defer func() {
		if r := recover(); r != nil {
			h.Log.Error("panic while marking a pod", "request", request.UID, "panic", r, "stack", string(debug.Stack()))
			response = admission.Allowed("")
		}
	}()
	patches, err := h.patches(ctx, request.Namespace, request.Object.Raw)
	if err != nil {
		h.Log.Warn("not marked", "request", request.UID, "namespace", request.Namespace, "pod", request.Name, "why", err)
		return admission.Allowed("").WithWarnings("usher could not mark this pod at its creation: " + err.Error())
	}
	response = admission.Allowed("")
	response.Patches = patches
	return response
}

// patches returns what a pod gets, nothing for one that no policy claims.
func (h *creationHandler) patches(ctx context.Context, namespace string, raw []byte) ([]jsonpatch.Operation, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	pod.Namespace = namespace // it may be left out in the object
	facts := policycache.Facts(&pod)
	policies, err := h.policies(ctx, namespace)
	claims := eviction.Claims(policies, facts)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	patches := mark(&pod, eviction.GuardedBy(policies, facts))
	if claims[0].Role != nil {
		change := eviction.NewTolerations(&claims[0], pod.Spec.Tolerations, pod.Annotations[v1alpha1.TolerationsAnnotation])
		patches = append(patches, tolerate(&pod, change)...)
		patches = append(patches, require(&pod, eviction.RequiredAffinity(&claims[0], pod.Spec.Affinity))...)
	}
	if h.Responder != "" {
		patches = append(patches, register(&pod, h.Responder)...)
	}
	return patches, nil
}

// policies returns those of a namespace that are in mode Enforce, from the cache, by name.
func (h *creationHandler) policies(ctx context.Context, namespace string) ([]eviction.Declared, error) {
	var list v1alpha1.EvictionPolicyList
	if err := h.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the policies of namespace %s: %w", namespace, err)
	}
	var declared []eviction.Declared
	for i := range list.Items {
		if policy := &list.Items[i]; !policy.Spec.Audited() {
			declared = append(declared, h.Declare(policy))
		}
	}
	slices.SortFunc(declared, func(a, b eviction.Declared) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return declared, nil
}

// mark sets the label by which admission of a DELETE finds the pod; "" sets none.
func mark(pod *corev1.Pod, policy string) []jsonpatch.Operation {
	value := eviction.LabelValue(policy)
	switch {
	case policy == "" || pod.Labels[v1alpha1.PolicyLabel] == value:
		return nil
	case pod.Labels == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{v1alpha1.PolicyLabel: value})}
	}
	return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels/"+pointer(v1alpha1.PolicyLabel), value)}
}

// pointer escapes a key for a JSON pointer.
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// tolerate changes tolerations one by one, so that nothing of the author's is written anew, and adds the record of that.
func tolerate(pod *corev1.Pod, change eviction.TolerationChange) []jsonpatch.Operation {
	if len(change.Edits) == 0 {
		return nil
	}
	var patches []jsonpatch.Operation
	if pod.Spec.Tolerations == nil {
		patches = append(patches, jsonpatch.NewOperation("add", "/spec/tolerations", []corev1.Toleration{}))
	}
	for i := range change.Edits {
		edit := &change.Edits[i]
		at := fmt.Sprintf("/spec/tolerations/%d", edit.At)
		switch seconds := edit.Toleration.TolerationSeconds; {
		case edit.Insert:
			patches = append(patches, jsonpatch.NewOperation("add", at, edit.Toleration))
		case seconds == nil:
			patches = append(patches, jsonpatch.NewOperation("remove", at+"/tolerationSeconds", nil))
		default:
			patches = append(patches, jsonpatch.NewOperation("add", at+"/tolerationSeconds", *seconds))
		}
	}
	if pod.Annotations == nil {
		return append(patches, jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{v1alpha1.TolerationsAnnotation: change.Record}))
	}
	return append(patches, jsonpatch.NewOperation("add", "/metadata/annotations/"+pointer(v1alpha1.TolerationsAnnotation), change.Record))
}

// require has the scheduler place a pod on certain nodes; nil changes nothing. One that names its node is not scheduled: its kubelet would refuse it
// there instead.
func require(pod *corev1.Pod, nodes *corev1.NodeSelector) []jsonpatch.Operation {
	affinity := pod.Spec.Affinity
	switch {
	case nodes == nil || pod.Spec.NodeName != "":
		return nil
	case affinity == nil:
		whole := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodes}}
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/affinity", whole)}
	case affinity.NodeAffinity == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/affinity/nodeAffinity", &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodes})}
	}
	return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution", nodes)}
}

// mostResponders is what the API allows in a pod.
const mostResponders = 10

// register makes Usher a responder of the pod's evictions. A pod of a scheduling group may not have any.
func register(pod *corev1.Pod, name string) []jsonpatch.Operation {
	known := pod.Spec.EvictionResponders
	listed := slices.ContainsFunc(known, func(r corev1.EvictionResponder) bool { return r.Name == name })
	if listed || pod.Spec.SchedulingGroup != nil || len(known) >= mostResponders {
		return nil
	}
	entry := corev1.EvictionResponder{Name: name, Priority: new(evictionrequest.ResponderPriority)}
	if known == nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/evictionResponders", []corev1.EvictionResponder{entry})}
	}
	return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/evictionResponders/-", entry)}
}
