package act

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// Maintenance carries out what package maintenance decides, but for the drains.
type Maintenance struct {
	Client client.Client
	// Hooks carries the calls of hooks.
	Hooks http.RoundTripper
	Now   func() time.Time
}

// WriteStatus writes a maintenance's status. It insists on the version that was decided upon.
func (w *Maintenance) WriteStatus(ctx context.Context, seen *v1alpha1.NodeMaintenance, status *v1alpha1.NodeMaintenanceStatus) answers.Answer {
	changed := seen.DeepCopy()
	changed.Status = *status
	return answers.Of(w.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)))
}

// Hold puts the finalizer on a maintenance, or takes it off. It insists on the version that was decided upon.
func (w *Maintenance) Hold(ctx context.Context, seen *v1alpha1.NodeMaintenance, hold bool) answers.Answer {
	changed := seen.DeepCopy()
	changed.Finalizers = withFinalizer(changed.Finalizers, maintenance.Finalizer, hold)
	return answers.Of(w.Client.Patch(ctx, changed, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)))
}

// DeleteNode deletes the Node of this UID. It insists on the version that was decided upon.
func (w *Maintenance) DeleteNode(ctx context.Context, d maintenance.Deletion) answers.Answer {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.Node}}
	return answers.Of(w.Client.Delete(ctx, node, client.Preconditions{UID: &d.Call.Node, ResourceVersion: &d.ResourceVersion}))
}

// conditionsPatch is a strategic merge patch of a node's conditions, which are merged by type.
type conditionsPatch struct {
	Status struct {
		Conditions []conditionPatch `json:"conditions"`
	} `json:"status"`
}

type conditionPatch struct {
	Patch              string                   `json:"$patch,omitempty"`
	Type               corev1.NodeConditionType `json:"type"`
	Status             corev1.ConditionStatus   `json:"status,omitempty"`
	Reason             string                   `json:"reason,omitempty"`
	Message            string                   `json:"message,omitempty"`
	LastHeartbeatTime  *metav1.Time             `json:"lastHeartbeatTime,omitempty"`
	LastTransitionTime *metav1.Time             `json:"lastTransitionTime,omitempty"`
}

// SetConditions sets conditions of a node, and takes others off it. Those of other types stay as they are.
func (w *Maintenance) SetConditions(ctx context.Context, c maintenance.NodeConditions) answers.Answer {
	now := metav1.NewTime(w.Now())
	var patch conditionsPatch
	for _, set := range c.Set {
		patch.Status.Conditions = append(patch.Status.Conditions, conditionPatch{
			Type: set.Type, Status: set.Status, Reason: set.Reason, Message: set.Message, LastHeartbeatTime: &now, LastTransitionTime: &now,
		})
	}
	for _, kind := range c.Remove {
		patch.Status.Conditions = append(patch.Status.Conditions, conditionPatch{Patch: "delete", Type: kind})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return answers.Answer{Code: answers.Rejected, Message: err.Error()}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node}}
	return answers.Of(w.Client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(fieldManager)))
}

// marksPatch is a merge patch of what maintenances set on a node beside drains. Lists are replaced as a whole: it insists on the version that was read.
type marksPatch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     struct {
		Unschedulable *bool           `json:"unschedulable,omitempty"`
		Taints        *[]corev1.Taint `json:"taints,omitempty"`
	} `json:"spec"`
}

// SetMarks writes on a node what maintenances set there beside drains, with its record.
func (w *Maintenance) SetMarks(ctx context.Context, seen *corev1.Node, c *maintenance.MarksChange) answers.Answer {
	patch := marksPatch{Metadata: patchMeta{UID: seen.UID, ResourceVersion: seen.ResourceVersion, Annotations: map[string]*string{snapshot.MarksAnnotation: nil}}}
	if len(c.Marks) > 0 {
		patch.Metadata.Annotations[snapshot.MarksAnnotation] = new(strings.Join(c.Marks, ","))
	}
	patch.Spec.Unschedulable, patch.Spec.Taints = c.Unschedulable, c.Taints
	body, err := json.Marshal(patch)
	if err != nil {
		return answers.Answer{Code: answers.Rejected, Message: err.Error()}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: seen.Name}}
	return answers.Of(w.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// mostAnswer is how much of a hook's answer is read, in bytes: it is thrown away.
const mostAnswer = 4 << 10

// CallHook calls a hook once. No error: it has taken the node.
func (w *Maintenance) CallHook(ctx context.Context, h maintenance.Hook) error {
	body, err := json.Marshal(h.Body)
	if err != nil {
		return fmt.Errorf("writing the call of a hook: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("calling the hook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := w.Hooks.RoundTrip(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("calling %s: no answer within %s", request.URL.Redacted(), h.Timeout)
	case err != nil:
		return fmt.Errorf("calling %s: %w", request.URL.Redacted(), err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer)
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("%s answered %d %s", request.URL.Redacted(), answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return nil
}
