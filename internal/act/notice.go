package act

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// Notices carries out what package notice decides. It may be used by several goroutines, and on several replicas, at once.
type Notices struct {
	Client client.Client
	// Instance is this process among those of its name.
	Instance string
	Now      func() time.Time
}

// Begin makes a maintenance. That one of the name is there is a Conflict: another process was faster, or one of an earlier notice is being given back.
func (w *Notices) Begin(ctx context.Context, m *v1alpha1.NodeMaintenance) answers.Answer {
	return answers.Of(w.Client.Create(ctx, m.DeepCopy(), client.FieldOwner(fieldManager)))
}

// Change changes a maintenance. It insists on the version that was decided upon.
func (w *Notices) Change(ctx context.Context, c notice.Change) answers.Answer {
	patch := client.MergeFromWithOptions(c.Seen, client.MergeFromWithOptimisticLock{})
	return answers.Of(w.Client.Patch(ctx, c.To.DeepCopy(), patch, client.FieldOwner(fieldManager)))
}

// Withdraw deletes a maintenance. It insists on the version that was decided upon: by a later one its notice may stand again.
func (w *Notices) Withdraw(ctx context.Context, m *v1alpha1.NodeMaintenance) answers.Answer {
	return answers.Of(w.Client.Delete(ctx, m.DeepCopy(), client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}))
}

// Release takes Usher's hook off a Machine of Cluster API, which goes on with its deletion then. It insists on the version that was decided upon.
func (w *Notices) Release(ctx context.Context, kind schema.GroupVersionKind, m *notice.Machine) answers.Answer {
	body, err := json.Marshal(patch{Metadata: patchMeta{UID: m.UID, ResourceVersion: m.ResourceVersion, Annotations: map[string]*string{notice.MachineHook: nil}}})
	if err != nil {
		return answers.Answer{Code: answers.Rejected, Message: err.Error()}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(m.Namespace)
	object.SetName(m.Name)
	return answers.Of(w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// Record makes the event of a notice. Its name is the notice's, so that there is one as long as the apiserver keeps it.
func (w *Notices) Record(ctx context.Context, e notice.Event) answers.Answer {
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: e.Name},
		EventTime:           metav1.NewMicroTime(w.Now()),
		ReportingController: observe.NoticesController,
		ReportingInstance:   clip(w.Instance, mostInstance),
		Type:                corev1.EventTypeWarning, Reason: e.Reason, Action: "Report",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Node, UID: types.UID(e.Node)}, // as the kubelet's events
		Note:      EventNote(e.Note),
	}
	return answers.Of(client.IgnoreAlreadyExists(w.Client.Create(ctx, event, client.FieldOwner(fieldManager))))
}
