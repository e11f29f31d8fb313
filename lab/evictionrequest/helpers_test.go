package evictionrequest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

func (r *rig) allEvictions() await.Source[*api.Eviction] {
	return await.Source[*api.Eviction]{Client: r.rest, Resource: "evictions", Namespace: r.ns}
}

func (r *rig) allRequests() await.Source[*api.EvictionRequest] {
	return await.Source[*api.EvictionRequest]{Client: r.rest, Resource: "evictionrequests", Namespace: r.ns}
}

// runningPod makes a pod without an owner, and returns it once it is ready.
func (r *rig) runningPod(t *testing.T, name string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	r.lab.Pod(t, r.ns, name, mutate...)
	return r.lab.WaitReady(t, r.ns, testlab.Labels(name), 1)[0]
}

func governed(p *corev1.Pod) { p.Labels[v1alpha1.PolicyLabel] = "some" }

func refTo(p *corev1.Pod) evictionrequest.Ref {
	return evictionrequest.Ref{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// ask creates a request for the pod in the name of a user.
func (r *rig) ask(t *testing.T, pod *corev1.Pod, user string) *api.EvictionRequest {
	t.Helper()
	request := evictionrequest.NewRequest(refTo(pod), evictionrequest.Requester(user))
	request.OwnerReferences = nil // as of another client: it outlives its pod, and shows how it ended
	check(t, r.client.Create(t.Context(), request))
	return request
}

func (r *rig) setIntent(t *testing.T, request *api.EvictionRequest, intent api.EvictionRequestIntent) {
	t.Helper()
	patch, err := evictionrequest.IntentPatch(request, intent)
	check(t, err)
	check(t, r.client.Patch(t.Context(), request.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
}

// report lets a responder speak as every responder should, under a field manager of its own: one that served two
// responders would take the first one's words back with the second one's.
func (r *rig) report(t *testing.T, e *api.Eviction, responder string, report evictionrequest.Report) {
	t.Helper()
	entry, write, _ := evictionrequest.NextEntry(e, responder, report, time.Now())
	if !write {
		t.Fatalf("%s has nothing to write: %+v", responder, e.Status)
	}
	patch, err := evictionrequest.ReportPatch(r.version, e, entry)
	check(t, err)
	check(t, r.client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner("test "+responder), client.ForceOwnership))
}

// waitEviction waits for the n-th eviction of the pod, and until it is as wanted.
func (r *rig) waitEviction(t *testing.T, n int, pod *corev1.Pod, what string, done func(*api.Eviction) bool) *api.Eviction {
	t.Helper()
	var found *api.Eviction
	testlab.WaitFor(t, r.allEvictions(), what, func(all []*api.Eviction) bool {
		i := slices.IndexFunc(all, func(e *api.Eviction) bool { return e.Name == fmt.Sprintf("pod-%d-%s", n, pod.Name) })
		if i < 0 {
			return false
		}
		found = all[i]
		return done(found)
	})
	return found
}

func (r *rig) waitRequest(t *testing.T, request *api.EvictionRequest, what string, done func(*api.EvictionRequest) bool) *api.EvictionRequest {
	t.Helper()
	var found *api.EvictionRequest
	testlab.WaitFor(t, r.allRequests(), what, func(all []*api.EvictionRequest) bool {
		i := slices.IndexFunc(all, func(e *api.EvictionRequest) bool { return e.UID == request.UID })
		if i < 0 {
			return false
		}
		found = all[i]
		return done(found)
	})
	return found
}

func active(responder string) func(*api.Eviction) bool {
	return func(e *api.Eviction) bool { return evictionrequest.Active(e, responder) }
}

// turnedDown reports whether the eviction API has refused the last responder, at least once.
func turnedDown(entry *api.ResponderStatus) bool {
	return entry != nil && entry.Message != nil && strings.Contains(*entry.Message, " was refused, the next is at ")
}

func requestIs(condition api.EvictionConditionType, reason api.EvictionConditionReason) func(*api.EvictionRequest) bool {
	return func(r *api.EvictionRequest) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, string(condition))
		return c != nil && c.Reason == string(reason)
	}
}

// story returns conditions and states in short.
func inShort(e *api.Eviction) string {
	var said []string
	for _, c := range e.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	for _, r := range e.Status.TargetResponders {
		said = append(said, fmt.Sprintf("%s:%s", r.Name, r.State))
	}
	return strings.Join(said, " ")
}

func wantShort(t *testing.T, e *api.Eviction, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, " "), inShort(e)); diff != "" {
		t.Errorf("eviction %s (-want +got):\n%s", e.Name, diff)
	}
}

const (
	gone     = "Failed=False/Succeeded TargetEvicted=True/PodDeleted"
	canceled = "Failed=True/CanceledDueToNoRequesters TargetEvicted=False/EvictionFailed"
	waiting  = "Failed=False/AwaitingEviction TargetEvicted=False/AwaitingEviction"
	unserved = "Failed=True/NoFurtherResponder TargetEvicted=False/EvictionFailed"
	governor = evictionrequest.Responder + ":"
	evictor  = evictionrequest.Evictor + ":"
)

func (r *rig) podNow(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := r.lab.Client().CoreV1().Pods(r.ns).Get(t.Context(), name, metav1.GetOptions{})
	check(t, err)
	return pod
}

// stays fails when the pod was touched.
func (r *rig) stays(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if now := r.podNow(t, pod.Name); now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("pod %s was evicted", pod.Name)
	}
}
