package act

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// patch is a JSON merge patch; in maps a nil value removes the key. UID and resource
// version are preconditions, which the apiserver compares with what it stores: another
// version is a 409, another UID a 422, because a UID cannot be changed.
type patch struct {
	Metadata patchMeta  `json:"metadata"`
	Spec     *patchSpec `json:"spec,omitempty"`
}

type patchMeta struct {
	UID             types.UID          `json:"uid,omitempty"`
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
}

type patchSpec struct {
	Unschedulable *bool  `json:"unschedulable,omitempty"`
	Replicas      *int32 `json:"replicas,omitempty"`
	MinReplicas   *int32 `json:"minReplicas,omitempty"`

	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	HolderIdentity       *string           `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32            `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            *metav1.MicroTime `json:"renewTime,omitempty"`
}

// target is where a patch goes.
type target struct {
	client    rest.Interface
	resource  string
	namespace string // "" for resources of the cluster
	name      string
}

func (w *Writer) patch(to target, what patch) (*rest.Request, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	options := &metav1.PatchOptions{DryRun: w.dryRun(), FieldManager: fieldManager}
	return to.client.Patch(types.MergePatchType).
		NamespaceIfScoped(to.namespace, to.namespace != "").
		Resource(to.resource).
		Name(to.name).
		VersionedParams(options, scheme.ParameterCodec).
		Body(body), nil
}
