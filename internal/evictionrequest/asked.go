package evictionrequest

import (
	"slices"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// LastRequestTimeAnnotation is on requests that admission made in a caller's name: when the caller asked last, in RFC 3339.
const LastRequestTimeAnnotation = "usher.sh/last-request-time"

// LastRequestTime says when the caller asked last in whose name admission made the request; false if it did not make it. A time
// that cannot be read is that of the request's creation.
func LastRequestTime(r *api.EvictionRequest) (time.Time, bool) {
	text, ok := r.Annotations[LastRequestTimeAnnotation]
	if !ok {
		return time.Time{}, false
	}
	asked, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return r.CreationTimestamp.Time, true
	}
	return asked, true
}

// RepeatPatch is an IntentPatch for a request that admission makes: its caller has asked again.
func RepeatPatch(r *api.EvictionRequest, now time.Time) ([]byte, error) {
	asked := map[string]string{LastRequestTimeAnnotation: now.UTC().Format(time.RFC3339)}
	return intentPatch(r, patchMetadata{UID: r.UID, Annotations: asked}, api.EvictionRequestIntentEviction)
}

// GivenUpPatch is an IntentPatch that withdraws a request that admission made. It insists on the version that this was
// decided upon: the caller may just have asked again.
func GivenUpPatch(r *api.EvictionRequest) ([]byte, error) {
	return intentPatch(r, patchMetadata{UID: r.UID, ResourceVersion: r.ResourceVersion}, api.EvictionRequestIntentWithdrawn)
}

// OnlyRefused reports whether a pod is wanted gone, and only by callers whom admission has refused.
func OnlyRefused(requests []*api.EvictionRequest, pod types.UID) bool {
	some := false
	for _, r := range requests {
		if ref, ok := RequestRef(r); !ok || ref.UID != pod || !Stands(r) {
			continue
		}
		if _, made := LastRequestTime(r); !made {
			return false
		}
		some = true
	}
	return some
}

// refused reports whether a requester of the pod's eviction was refused by admission.
func (t Target) refused() bool {
	return slices.ContainsFunc(t.mine(), func(r *api.EvictionRequest) bool {
		_, made := LastRequestTime(r)
		return made && Stands(r)
	})
}
