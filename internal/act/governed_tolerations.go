package act

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// Tolerate has a pod tolerate what its role says, and writes the record of that. It insists on the version of the pod that was decided upon:
// all of its tolerations are written, and those of other clients stay as they are.
func (g *Governed) Tolerate(ctx context.Context, pod *snapshot.Pod, change eviction.TolerationChange) answers.Answer {
	if pod.UID == "" || pod.ResourceVersion == "" {
		return rejected("acting: changing a pod's tolerations without its UID or resource version")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(patch{
		Metadata: patchMeta{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{v1alpha1.TolerationsAnnotation: &change.Record}},
		Spec:     &patchSpec{Tolerations: change.Apply(pod.Tolerations)},
	})
	if err != nil {
		return answers.Of(fmt.Errorf("writing tolerations: %w", err))
	}
	return answers.Of(g.Client.Patch(ctx, podObject(pod), client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}
