package evictionrequest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	requesterDomain = "requester.usher.sh/"
	maxKey          = 63
)

// NodeLockDomain begins the names of the requesters that are nodeLocks of policies.
const NodeLockDomain = "nodelock.usher.sh/"

var (
	keyForm  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	notInKey = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	marked   = regexp.MustCompile(fmt.Sprintf(`-[0-9a-f]{%d}$`, hashLength))
)

// Requester returns the name under which Usher asks for a user: requester.usher.sh/<user>. What a label key may not
// hold is replaced, what is too long is cut, and a name that was changed ends with a hash of the whole. A name that
// looks so already gets one too, so that two users never share a requester.
func Requester(user string) string { return keyed(requesterDomain, user) }

// NodeLockRequester returns the name under which Usher asks holders of a policy's nodeLock to leave.
func NodeLockRequester(policy string) string { return keyed(NodeLockDomain, policy) }

func keyed(domain, user string) string {
	if len(user) <= maxKey && keyForm.MatchString(user) && !marked.MatchString(user) {
		return domain + user
	}
	key := notInKey.ReplaceAllString(user, "-")
	mark := hash(user)
	key = strings.Trim(key[:min(len(key), maxKey-len(mark)-1)], "-._")
	return domain + cmp.Or(key, "user") + "-" + mark
}

// CheckRequest returns an error where a request that has the name of the wanted one asks for something else: anyone who may create
// requests can take the name.
func CheckRequest(there, wanted *api.EvictionRequest) error {
	if there.Spec.Requester == wanted.Spec.Requester && apiequality.Semantic.DeepEqual(there.Spec.Target, wanted.Spec.Target) {
		return nil
	}
	return fmt.Errorf("evictionrequest %s/%s has its name and is about another pod, or of another requester: delete it (kubectl delete evictionrequest -n %s %s)",
		there.Namespace, there.Name, there.Namespace, there.Name)
}

// NewRequest returns the request by which a requester asks for a pod's eviction. Its name follows from pod and
// requester: asking twice makes one request. Where it exists and was withdrawn, IntentPatch asks anew. The pod owns it, so
// that it goes when the pod is gone, whatever has become of the requester.
func NewRequest(pod Ref, requester string) *api.EvictionRequest {
	name := fmt.Sprintf("usher-%s-%s", fit(pod.Name, maxName-len("usher--")-hashLength), hash(string(pod.UID)+"/"+requester))
	return &api.EvictionRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: api.EvictionRequestSpec{
			Target:    api.EvictionRequestTarget{Pod: &api.EvictionRequestPodReference{Name: pod.Name, UID: pod.UID}},
			Requester: requester,
			Intent:    api.EvictionRequestIntentEviction,
		},
	}
}

// IntentPatch returns a JSON merge patch that sets a request's intent: withdraws it, or asks anew. The UID in it makes
// the server refuse another request of the same name.
func IntentPatch(r *api.EvictionRequest, intent api.EvictionRequestIntent) ([]byte, error) {
	return intentPatch(r, patchMetadata{UID: r.UID}, intent)
}

type patchMetadata struct {
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

func intentPatch(r *api.EvictionRequest, metadata patchMetadata, intent api.EvictionRequestIntent) ([]byte, error) {
	type spec struct {
		Intent api.EvictionRequestIntent `json:"intent"`
	}
	patch, err := json.Marshal(struct {
		Metadata patchMetadata `json:"metadata"`
		Spec     spec          `json:"spec"`
	}{metadata, spec{intent}})
	if err != nil {
		return nil, fmt.Errorf("writing the intent of request %s: %w", r.Name, err)
	}
	return patch, nil
}
