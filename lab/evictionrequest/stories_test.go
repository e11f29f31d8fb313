package evictionrequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/lab/testlab"
)

func ended(e *api.Eviction) bool { return evictionrequest.Final(e) }

// affordable is how many requests of the controllers one eviction of a willing pod may cost, lost races included.
const affordable = 20

func wholeLife(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web")
	begun := time.Now()
	request := r.ask(t, pod, "alice@example.com")

	e := r.waitEviction(t, 1, pod, "the eviction to end and its labels", func(e *api.Eviction) bool {
		return ended(e) && e.Labels[evictionrequest.Evictor] != ""
	})
	wantShort(t, e, gone, evictor+"Completed")
	r.waitRequest(t, request, "the request to succeed", requestIs(api.EvictionConditionTargetEvicted, api.EvictionConditionReasonPodDeleted))
	testlab.WaitFor(t, r.lab.Pods(r.ns), "no pod", func(all []*corev1.Pod) bool { return len(all) == 0 })

	labels := map[string]string{request.Spec.Requester: "requester", evictionrequest.Evictor: "responder"}
	if diff := cmp.Diff(labels, e.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	owners := []metav1.OwnerReference{{APIVersion: r.version.String(), Kind: "EvictionRequest", Name: request.Name, UID: request.UID}}
	if diff := cmp.Diff(owners, e.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	sent := r.lab.Requests(t, r.agent(), begun)
	t.Logf("requests: %v", sent)
	if n := sent.Total(); n > affordable {
		t.Errorf("%d requests for one eviction, more than %d", n, affordable)
	}
	check(t, r.client.Delete(t.Context(), request))
	testlab.WaitFor(t, r.allEvictions(), "the eviction to be collected", func(all []*api.Eviction) bool { return len(all) == 0 })
}

func withdrawnAndAskedAnew(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web", governed)
	request := r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "Usher's turn", active(evictionrequest.Responder))
	wantShort(t, e, waiting, governor+"Active", evictor+"Inactive")

	r.setIntent(t, request, api.EvictionRequestIntentWithdrawn)
	e = r.waitEviction(t, 1, pod, "the cancellation", ended)
	wantShort(t, e, canceled, governor+"Canceled", evictor+"Inactive")
	r.waitRequest(t, request, "the request to say so", requestIs(api.EvictionConditionFailed, api.EvictionConditionReasonCanceledDueToNoRequesters))
	r.waitEviction(t, 1, pod, "the requester's label to go", func(e *api.Eviction) bool { return e.Labels[request.Spec.Requester] == "" })
	r.stays(t, pod)

	r.setIntent(t, request, api.EvictionRequestIntentEviction)
	r.waitEviction(t, 2, pod, "a second eviction", active(evictionrequest.Responder))
	r.waitRequest(t, request, "the request to wait again", requestIs(api.EvictionConditionFailed, api.EvictionConditionReasonAwaitingEviction))
}

func twoRequesters(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web", governed)
	alice, bob := r.ask(t, pod, "alice"), r.ask(t, pod, "bob")
	r.waitEviction(t, 1, pod, "two requesters and owners", func(e *api.Eviction) bool {
		return len(e.Status.Requesters) == 2 && len(e.OwnerReferences) == 2 && evictionrequest.Active(e, evictionrequest.Responder)
	})

	r.setIntent(t, alice, api.EvictionRequestIntentWithdrawn)
	e := r.waitEviction(t, 1, pod, "one to have withdrawn", func(e *api.Eviction) bool {
		return e.Status.Requesters[0].Intent != e.Status.Requesters[1].Intent
	})
	wantShort(t, e, waiting, governor+"Active", evictor+"Inactive")

	check(t, r.client.Delete(t.Context(), bob))
	e = r.waitEviction(t, 1, pod, "the cancellation", ended)
	wantShort(t, e, canceled, governor+"Canceled", evictor+"Inactive")
	r.stays(t, pod)
	testlab.WaitFor(t, r.allEvictions(), "no second eviction", func(all []*api.Eviction) bool { return len(all) == 1 })
}

func sameNameOtherPod(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	r.lab.StatefulSet(t, r.ns, "db", 1)
	first := r.lab.WaitReady(t, r.ns, testlab.Labels("db"), 1)[0]
	request := r.ask(t, first, "alice")
	r.waitRequest(t, request, "the first pod to be evicted", requestIs(api.EvictionConditionTargetEvicted, api.EvictionConditionReasonPodDeleted))

	var second *corev1.Pod
	testlab.WaitFor(t, r.lab.Pods(r.ns), "the pod to come back", func(all []*corev1.Pod) bool {
		if len(all) == 1 && all[0].UID != first.UID && testlab.PodReady(all[0]) {
			second = all[0]
		}
		return second != nil
	})
	late := r.ask(t, first, "bob")
	r.waitRequest(t, late, "the late request to join the first eviction",
		requestIs(api.EvictionConditionTargetEvicted, api.EvictionConditionReasonPodDeleted))
	stranger := second.DeepCopy()
	stranger.UID = "00000000-0000-4000-8000-000000000000"
	wrong := r.waitRequest(t, r.ask(t, stranger, "carol"), "a request for no pod to be refused",
		requestIs(api.EvictionConditionFailed, api.EvictionConditionReasonEvictionInvalid))
	if said := wrong.Status.Conditions[0].Message; !strings.Contains(said, "there is no pod db-0 with UID "+string(stranger.UID)) {
		t.Errorf("the refusal says %q", said)
	}
	r.stays(t, second)

	r.ask(t, second, "alice")
	e := r.waitEviction(t, 2, second, "the second pod's own eviction", ended)
	wantShort(t, e, gone, evictor+"Completed")
}

func restartedInBetween(t *testing.T, r *rig) {
	t.Helper()
	stop := r.start(t)
	pod := r.runningPod(t, "web", governed)
	request := r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "Usher's turn", active(evictionrequest.Responder))
	stop()
	r.report(t, e, evictionrequest.Responder, evictionrequest.Report{Message: "declined", Done: true})
	r.stays(t, pod)

	stop = r.start(t)
	r.waitEviction(t, 1, pod, "the last responder's turn", func(e *api.Eviction) bool {
		return evictionrequest.State(e, evictionrequest.Evictor) != api.ResponderStateInactive
	})
	stop()
	r.start(t)
	e = r.waitEviction(t, 1, pod, "the end", ended)
	if evictionrequest.State(e, evictionrequest.Responder) != api.ResponderStateCompleted || !evictionrequest.Evicted(e.Status.Conditions) {
		t.Errorf("got %s", inShort(e))
	}
	r.waitRequest(t, request, "the request to succeed", requestIs(api.EvictionConditionTargetEvicted, api.EvictionConditionReasonPodDeleted))
}

func refusedByABudgetFirst(t *testing.T, r *rig) {
	t.Helper()
	r.start(t)
	pod := r.runningPod(t, "web")
	r.lab.MinAvailable(t, r.ns, "web", "1")
	r.lab.WaitBudget(t, r.ns, "web", 1)
	r.ask(t, pod, "alice")
	e := r.waitEviction(t, 1, pod, "a refusal in the responder's words", func(e *api.Eviction) bool {
		return turnedDown(evictionrequest.Entry(e, evictionrequest.Evictor))
	})
	if said := *evictionrequest.Entry(e, evictionrequest.Evictor).Message; !strings.Contains(said, "disruption budget web needs 1 healthy pods and has 1 currently") {
		t.Errorf("the refusal does not name the budget: %q", said)
	}
	r.stays(t, pod)

	check(t, r.client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: "web"}}))
	e = r.waitEviction(t, 1, pod, "the end", ended)
	wantShort(t, e, gone, evictor+"Completed")
}
