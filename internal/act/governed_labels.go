package act

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// LabelPod writes on a pod which policy governs it, "" for none.
func (g *Governed) LabelPod(ctx context.Context, pod snapshot.Key, uid types.UID, policy string) drain.Answer {
	object := &corev1.Pod{}
	object.Namespace, object.Name = pod.Namespace, pod.Name
	return AnswerOf(g.label(ctx, object, uid, v1alpha1.PolicyLabel, eviction.LabelValue(policy)))
}

// LabelNamespace writes on a namespace whether it has a policy.
func (g *Governed) LabelNamespace(ctx context.Context, name string, uid types.UID, governed bool) drain.Answer {
	object := &corev1.Namespace{}
	object.Name = name
	value := ""
	if governed {
		value = "true"
	}
	return AnswerOf(g.label(ctx, object, uid, v1alpha1.GovernedLabel, value))
}

func (g *Governed) label(ctx context.Context, object client.Object, uid types.UID, name, value string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	set := &value
	if value == "" {
		set = nil
	}
	body, err := json.Marshal(patch{Metadata: patchMeta{UID: uid, Labels: map[string]*string{name: set}}})
	if err != nil {
		return fmt.Errorf("writing a label: %w", err)
	}
	return g.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
}
