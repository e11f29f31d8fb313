package evictionrequest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

func respondersOfThePod(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web", governed, func(p *corev1.Pod) {
		p.Spec.EvictionResponders = []corev1.EvictionResponder{
			{Name: "b.example.com/late", Priority: new(int32(1000))},
			{Name: "a.example.com/first", Priority: new(int32(20000))},
		}
	})
	r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "the first one's turn", active("a.example.com/first"))
	wantShort(t, e, waiting, "a.example.com/first:Active", governor+"Inactive", "b.example.com/late:Inactive", evictor+"Inactive")
	for _, next := range []string{"a.example.com/first", evictionrequest.Responder, "b.example.com/late"} {
		e = r.waitEviction(t, 1, pod, "the turn of "+next, active(next))
		r.report(t, e, next, evictionrequest.Report{Message: "declined", Done: true})
	}
	e = r.waitEviction(t, 1, pod, "the end", ended)
	wantShort(t, e, gone, "a.example.com/first:Completed", governor+"Completed", "b.example.com/late:Completed", evictor+"Completed")
}

func respondersWords(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web", governed)
	r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "Usher's turn", active(evictionrequest.Responder))
	long := strings.Repeat("shard ü7 is not in sync\n", 400)
	r.report(t, e, evictionrequest.Responder, evictionrequest.Report{Message: long, Expected: time.Now().Add(time.Hour)})
	e = r.waitEviction(t, 1, pod, "its words", func(e *api.Eviction) bool {
		return evictionrequest.Entry(e, evictionrequest.Responder).Message != nil
	})
	entry := evictionrequest.Entry(e, evictionrequest.Responder)
	if n := utf8.RuneCountInString(*entry.Message); n > 4000 || !strings.HasSuffix(*entry.Message, "more lines") || entry.HeartbeatTime == nil {
		t.Errorf("%d characters, ending %q, heartbeat %v", n, (*entry.Message)[len(*entry.Message)-30:], entry.HeartbeatTime)
	}
	// The controller's next writes must leave these words alone.
	bob := r.ask(t, pod, "bob")
	e = r.waitEviction(t, 1, pod, "the second requester", func(e *api.Eviction) bool { return len(e.Status.Requesters) == 2 })
	if again := evictionrequest.Entry(e, evictionrequest.Responder); again.Message == nil || *again.Message != *entry.Message || again.ExpectedCompletionTime == nil {
		t.Errorf("the controller changed what the responder said: %+v", again)
	}
	check(t, r.client.Delete(t.Context(), bob))
	check(t, r.lab.Client().CoreV1().Pods(r.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	e = r.waitEviction(t, 1, pod, "the end", ended)
	wantShort(t, e, gone, governor+"Interrupted", evictor+"Inactive")
}

func daemonSet(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	r.lab.DaemonSet(t, r.ns, "agent")
	pod := r.lab.WaitReady(t, r.ns, testlab.Labels("agent"), 1)[0]
	request := r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "the responder to decline", ended)
	wantShort(t, e, unserved, evictor+"Completed")
	r.stays(t, pod)
	r.waitEviction(t, 2, pod, "a second attempt after a pause", ended)
	r.setIntent(t, request, api.EvictionRequestIntentWithdrawn)
	r.stays(t, pod)
}

func anotherResponder(t *testing.T, r *rig) {
	t.Helper()
	stop := r.start(t)
	pod := r.runningPod(t, "web", governed)
	r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "Usher's turn", active(evictionrequest.Responder))
	stop()
	r.lab.MinAvailable(t, r.ns, "web", "1")
	r.lab.WaitBudget(t, r.ns, "web", 1)
	r.report(t, e, evictionrequest.Responder, evictionrequest.Report{Done: true})
	r.start(t)
	e = r.waitEviction(t, 1, pod, "our refusal", func(e *api.Eviction) bool {
		return turnedDown(evictionrequest.Entry(e, evictionrequest.Evictor))
	})
	// Another client reports as the same responder: ours reports no more.
	r.report(t, e, evictionrequest.Evictor, evictionrequest.Report{Message: "mine"})
	if _, ok := evictionrequest.ServedByOther(r.waitEviction(t, 1, pod, "their words", func(e *api.Eviction) bool {
		return *evictionrequest.Entry(e, evictionrequest.Evictor).Message == "mine"
	}), evictionrequest.Evictor, "usher-imperative-eviction"); !ok {
		t.Error("the other responder is not seen")
	}
}

// anotherController plays upstream's and its evictor: it creates the Eviction and writes its status by server-side apply under its own name.
func anotherController(t *testing.T, r *rig) {
	t.Helper()
	pod := r.runningPod(t, "web")
	request := r.ask(t, pod, "alice")
	target := evictionrequest.Target{Now: time.Now(), Ref: refTo(pod), Pod: pod, Version: r.version, Requests: []*api.EvictionRequest{request}}
	upstream := client.FieldOwner("evictionrequest-controller")
	patch, err := evictionrequest.CreationPatch(r.version, evictionrequest.PlanRequest(target, request).Create)
	check(t, err)
	check(t, r.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), upstream))
	theirs := r.waitEviction(t, 1, pod, "theirs", func(*api.Eviction) bool { return true })
	target.Evictions = []*api.Eviction{theirs}
	patch, err = evictionrequest.EvictionStatusPatch(r.version, theirs, evictionrequest.PlanEviction(target, theirs).Status)
	check(t, err)
	check(t, r.client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), upstream))
	// Its evictor reports too: where none does ours evicts, whoever runs the evictions.
	theirs = r.waitEviction(t, 1, pod, "their evictor's turn", active(evictionrequest.Evictor))
	r.report(t, theirs, evictionrequest.Evictor, evictionrequest.Report{Message: "mine"})

	r.start(t)
	other := r.ask(t, pod, "bob")
	source := await.Source[*eventsv1.Event]{Client: r.lab.Client().EventsV1().RESTClient(), Resource: "events", Namespace: r.ns}
	testlab.WaitFor(t, source, "an event about both requests", func(all []*eventsv1.Event) bool {
		noted := map[string]bool{}
		for _, e := range all {
			if e.Reason == "ServedByAnother" && strings.Contains(e.Note, "evictionrequest-controller") {
				noted[e.Regarding.Name] = true
			}
		}
		return noted[request.Name] && noted[other.Name]
	})
	testlab.WaitFor(t, r.allEvictions(), "theirs alone", func(all []*api.Eviction) bool { return len(all) == 1 })
	if now := r.waitRequest(t, other, "the request", func(*api.EvictionRequest) bool { return true }); now.Status.ObservedGeneration != nil {
		t.Errorf("ours wrote %+v", now.Status)
	}
	r.stays(t, pod)
}

// forgedController plays an editor of the namespace who writes managedFields of a request in the name of a controller.
func forgedController(t *testing.T, r *rig) {
	t.Helper()
	pod := r.runningPod(t, "web")
	request := r.ask(t, pod, "alice")
	forged := fmt.Sprintf(`{"metadata":{"managedFields":[{"manager":"evictionrequest-controller","operation":"Apply","subresource":"status",
		"apiVersion":%q,"time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:status":{
		"f:conditions":{"k:{\"type\":\"Failed\"}":{}},"f:targetResponders":{}}}}]}}`, r.version, time.Now().UTC().Format(time.RFC3339))
	check(t, r.client.Patch(t.Context(), request, client.RawPatch(types.MergePatchType, []byte(forged))))
	if !slices.ContainsFunc(request.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "status" }) {
		t.Fatalf("the apiserver did not store what was forged: %+v", request.ManagedFields)
	}
	r.start(t)
	r.waitEviction(t, 1, pod, "it is served all the same", func(e *api.Eviction) bool { return len(e.Status.TargetResponders) > 0 })
}
