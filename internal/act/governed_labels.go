package act

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// LabelPod writes on a pod which policy governs it.
func (g *Governed) LabelPod(ctx context.Context, pod *snapshot.Pod, policy string) answers.Answer {
	return answers.Of(g.label(ctx, podObject(pod), patchMeta{UID: pod.UID}, v1alpha1.PolicyLabel, eviction.LabelValue(policy)))
}

// UnlabelPod takes that off. It insists on the version of the pod that was decided upon: a policy selects by other labels, which may have
// changed since.
func (g *Governed) UnlabelPod(ctx context.Context, pod *snapshot.Pod) answers.Answer {
	if pod.ResourceVersion == "" {
		return rejected("acting: taking a pod's label off without its resource version")
	}
	return answers.Of(g.label(ctx, podObject(pod), patchMeta{UID: pod.UID, ResourceVersion: pod.ResourceVersion}, v1alpha1.PolicyLabel, ""))
}

// AuditPod writes on a pod which policy in mode Audit claims it; "" takes that off. Nothing is refused for the sake of that label, so
// it insists on no version.
func (g *Governed) AuditPod(ctx context.Context, pod *snapshot.Pod, policy string) answers.Answer {
	return answers.Of(g.label(ctx, podObject(pod), patchMeta{UID: pod.UID}, v1alpha1.AuditLabel, eviction.LabelValue(policy)))
}

func podObject(pod *snapshot.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

// LabelNamespace writes on a namespace whether it has a policy: by GovernedLabel of one in mode Enforce, by AuditedLabel of one in mode
// Audit.
func (g *Governed) LabelNamespace(ctx context.Context, name string, uid types.UID, label string, has bool) answers.Answer {
	object := &corev1.Namespace{}
	object.Name = name
	value := ""
	if has {
		value = "true"
	}
	return answers.Of(g.label(ctx, object, patchMeta{UID: uid}, label, value))
}

// label writes a label upon what is said of the object, "" takes it off.
func (g *Governed) label(ctx context.Context, object client.Object, upon patchMeta, name, value string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	set := &value
	if value == "" {
		set = nil
	}
	upon.Labels = map[string]*string{name: set}
	body, err := json.Marshal(patch{Metadata: upon})
	if err != nil {
		return fmt.Errorf("writing a label: %w", err)
	}
	return g.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager))
}
