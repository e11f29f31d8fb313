package act

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// agentController is the name under which the agent makes events.
const agentController = "usher-agent"

// Event is something that the agent reports about a pod, or about its node.
type Event struct {
	At     time.Time
	Pod    *snapshot.Pod // nil: about the node
	Normal bool          // not a warning
	Reason string
	Action string
	Note   string
}

// Record makes an event.
func (p *Pressure) Record(ctx context.Context, e Event) answers.Answer {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: p.Node, UID: types.UID(p.Node)} // as the kubelet's events
	namespace := metav1.NamespaceDefault
	kind := corev1.EventTypeWarning
	if e.Normal {
		kind = corev1.EventTypeNormal
	}
	if e.Pod != nil {
		about = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID}
		namespace = e.Pod.Namespace
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: eventName(about.Name)},
		EventTime:           metav1.NewMicroTime(e.At),
		ReportingController: agentController,
		ReportingInstance:   clip(agentController+"-"+p.Node, mostInstance),
		Type:                kind, Reason: e.Reason, Action: e.Action,
		Regarding: about,
		Note:      EventNote(e.Note),
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Writer.createEvent(ctx, event)
}

// createEvent makes an event, which is not made again if that fails.
func (w *Writer) createEvent(ctx context.Context, event *eventsv1.Event) answers.Answer {
	return answers.Of(once(ctx, w.Client.EventsV1().RESTClient().Post().Namespace(event.Namespace).Resource("events").Body(event)))
}

// eventName is one that no other event has, within what names may be.
func eventName(about string) string {
	const most = 253 - len(".") - 26
	return strings.TrimRight(clip(about, most), ".-") + "." + strings.ToLower(rand.Text())
}

// mostInstance is what the API allows, in bytes.
const mostInstance = 128

// clip shortens names, which are ASCII.
func clip(name string, most int) string { return name[:min(len(name), most)] }
