package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

var clock = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is what the handlers see: one policy with one rule, and pods.
type world struct {
	reviewer Reviewer
	t        *testing.T
	green    bool
	pods     map[string]*corev1.Pod
	fresh    map[string]*corev1.Pod // where the cache is behind
	departed map[string]*corev1.Pod // seen gone
	broken   error                  // of every read
	delay    time.Duration
	conflict int // how many writes of the status meet a conflict
	// Nothing of a policy can be written, or read again.
	unwritable, unreadable bool
	// The policy is being deleted, or the apiserver is busy, and takes no permit.
	vanishing, busy bool
	// hidden: no pod can be read past the cache. Looks counts who tries.
	hidden bool
	looks  int
	// left: the pod of that name for which jane was refused has left another node.
	left bool
	// cordoned: the pod's node is, which the cache has not seen.
	cordoned bool
	// The cache knows no policy, and a read past it says so as well.
	unknown, ungoverned bool
	// The policy is in mode Audit; both: there is one in each mode.
	audit, both bool
	// policies are in the reader's cache; nil: the enforced one.
	policies []*v1alpha1.EvictionPolicy
	did      []string
	events   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, pods: map[string]*corev1.Pod{"db-0": testPod("db-0"), "web": {
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"}, Spec: corev1.PodSpec{NodeName: "n1"},
	}}}
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-1", Labels: map[string]string{"app": "db", v1alpha1.PolicyLabel: "db"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
}

func testPolicy() *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "policy-uid", ResourceVersion: "7", Generation: 1},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{
				HTTP: &v1alpha1.HTTP{
					Access: v1alpha1.Access{Endpoints: []string{"http://db:1"}},
					Facts:  []v1alpha1.Get{{Name: "green", URL: "/green"}},
				},
			},
			Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Second}},
			Members:  []v1alpha1.MemberSelector{{Role: "replica", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, ID: "pod.name", Deletes: v1alpha1.DeleteGuard, Controllers: []string{"operator"}}},
			Roles: []v1alpha1.Role{{
				Name: "replica", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Tolerations: v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Seconds: new(int64(15))}, Unreachable: &v1alpha1.Toleration{Forever: true}},
				Evict:       v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "green", Reason: "NotGreen", Expression: "system.green", Message: "the database is not green"}}},
				Replace:     v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
			}},
		},
	}
}

func declare(policy *v1alpha1.EvictionPolicy) eviction.Declared {
	compiled, _ := eviction.Compile(&policy.Spec, nil, rest.Kind().Declaration(&policy.Spec.System))
	return eviction.Declared{Key: client.ObjectKeyFromObject(policy), Version: policy.ResourceVersion, Policy: compiled, Status: &policy.Status}
}

// Pod implements Facts.
func (w *world) Pod(_ context.Context, key snapshot.Key) (*corev1.Pod, bool, error) {
	return w.pods[key.Name], false, w.broken
}

// FreshPod implements Facts.
func (w *world) FreshPod(_ context.Context, key snapshot.Key) (*corev1.Pod, error) {
	w.looks++
	if w.hidden {
		return nil, errors.New("no answer")
	}
	if fresh, ok := w.fresh[key.Name]; ok {
		return fresh, w.broken
	}
	return w.pods[key.Name], w.broken
}

// Departed implements Facts.
func (w *world) Departed(key snapshot.Key) *corev1.Pod { return w.departed[key.Name] }

// Guarded implements Facts.
func (w *world) Guarded(_ context.Context, pod *corev1.Pod) (bool, error) {
	policies := []eviction.Declared{declare(testPolicy())}
	policies[0].Key.Namespace = pod.Namespace
	return !w.unknown && eviction.GuardedBy(policies, policycache.Facts(pod)) != "", w.broken
}

// Claimed implements Facts.
func (w *world) Claimed(_ context.Context, pod *corev1.Pod) (enforced, audited bool, err error) {
	claims := pod.Labels["app"] == "db" && !w.unknown
	return claims && !w.audit, claims && (w.audit || w.both), w.broken
}

// Input implements Facts.
func (w *world) Input(ctx context.Context, of policycache.Subject) (eviction.Input, error) {
	if w.delay > 0 {
		<-time.After(w.delay)
	}
	if of.Pod.Name == "panic" {
		panic("planted")
	}
	if of.Deleted {
		w.did = append(w.did, "judge as deleted")
	}
	policy := testPolicy()
	facts := policycache.Facts(of.Pod)
	if of.Audit {
		policy.Name = "trial"
	}
	if w.unknown || of.Audit && !w.audit && !w.both || !of.Audit && w.audit {
		return eviction.Input{Now: clock, Pod: facts, Fresh: of.Fresh}, w.broken
	}
	if w.left {
		policy.Status.Departed = []v1alpha1.Departed{{
			PodUID: "before", PodName: of.Pod.Name, Node: "n0", Refused: []string{"requester.usher.sh/jane"}, GoneTime: metav1.NewTime(clock),
		}}
	}
	return eviction.Input{
		Now: clock, Pod: facts, Fresh: of.Fresh, Deleted: of.Deleted, Policies: []eviction.Declared{declare(policy)}, Node: &snapshot.Node{Name: "n1", Unschedulable: w.cordoned && of.FreshNode},
		Evidence: &eviction.Evidence{
			Observed: clock.Add(-time.Second), System: expression.Facts{"green": w.green},
			Members: map[string]expression.Facts{of.Pod.Name: {}},
		},
	}, w.broken
}

// Refresh implements Facts.
func (w *world) Refresh(context.Context, snapshot.Key, string) error {
	w.did = append(w.did, "refresh")
	if w.unreadable {
		return errors.New("no answer")
	}
	return nil
}

// Ungoverned implements Facts.
func (w *world) Ungoverned(context.Context, string) (bool, error) {
	w.did = append(w.did, "read the namespace")
	return w.ungoverned, w.broken
}

// DoAll implements Writer, as act.Governed does.
func (w *world) DoAll(_ context.Context, actions []eviction.Action) (eviction.Action, answers.Answer) {
	for _, a := range actions {
		if answer := w.do(a); answer.Code != answers.Accepted && !a.BestEffort {
			return a, answer
		}
	}
	return eviction.Action{}, answers.Answer{Code: answers.Accepted}
}

func (w *world) do(a eviction.Action) answers.Answer {
	switch {
	case a.Kind == eviction.Permit && w.conflict > 0:
		w.conflict--
		w.did = append(w.did, "conflict")
		return answers.Answer{Code: answers.Conflict, Message: "another replica was faster"}
	case a.Kind == eviction.Permit && w.vanishing:
		w.did = append(w.did, "permit refused")
		return answers.Answer{Code: answers.RefusedForNow, Message: "policy shop/db is being deleted", Vanishing: true}
	case a.Kind == eviction.Permit && w.busy:
		w.did = append(w.did, "permit refused")
		return answers.Answer{Code: answers.RefusedForNow, Message: "too many requests"}
	case w.unwritable:
		w.did = append(w.did, string(a.Kind)+" refused")
		return answers.Answer{Code: answers.Unavailable, Message: "no answer"}
	}
	w.did = append(w.did, string(a.Kind))
	return answers.Answer{Code: answers.Accepted}
}

// Eventf implements Recorder.
func (w *world) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	about, ok := regarding.(metav1.Object)
	if !ok {
		w.t.Errorf("an event about a %T", regarding)
		return
	}
	w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", about.GetName(), kind, reason, fmt.Sprintf(note, args...)))
}

// mux serves the handlers of this world.
func (w *world) mux() *http.ServeMux {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		w.t.Fatal(err)
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	for _, policy := range w.policies {
		objects = append(objects, policy)
	}
	if w.policies == nil {
		objects = append(objects, testPolicy())
	}
	mux := &registrar{http.NewServeMux()}
	Setup(mux, Options{
		Facts: w, Writer: w, Events: w, Log: slog.New(slog.DiscardHandler), Declare: declare,
		Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Kind:   func(*v1alpha1.System) (system.Kind, bool) { return rest.Kind(), true },
		Compile: func(spec *v1alpha1.EvictionPolicySpec) []eviction.Problem {
			_, problems := eviction.Compile(spec, nil, rest.Kind().Declaration(&spec.System))
			return problems
		},
		Reviewer: w.reviewer, Self: []string{"usher"}, Namespace: "usher-system", Responder: "responder.usher.sh/governor",
	})
	return mux.ServeMux
}

type registrar struct{ *http.ServeMux }

func (r *registrar) Register(path string, hook http.Handler) { r.Handle(path, hook) }

// deleted is the pod that a body is about, nil unless it is one of a DELETE.
func deleted(body string) *corev1.Pod {
	var review admissionv1.AdmissionReview
	if json.Unmarshal([]byte(body), &review) != nil || review.Request == nil {
		return nil
	}
	old := &corev1.Pod{}
	if json.Unmarshal(review.Request.OldObject.Raw, old) != nil {
		return nil
	}
	return old
}

// post sends a body and returns what is answered; nil if that is no AdmissionReview. The pod that a DELETE is about is there, unless the
// world has another state of it.
func (w *world) post(path, body string) *admissionv1.AdmissionResponse {
	if old := deleted(body); old != nil && w.fresh == nil {
		w.pods[old.Name] = old
	}
	request := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.mux().ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		w.t.Fatalf("the answer to %s is no AdmissionReview: %v\n%s", body, err, recorder.Body)
	}
	return review.Response
}

// evictionOf is the body of an eviction as an apiserver sends it; extra are more fields of the request, object of the
// Eviction.
func evictionOf(pod, extra, object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","kind":{"group":"policy","version":"v1","kind":"Eviction"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"subResource":"eviction","name":"` + pod + `","namespace":"shop","operation":"CREATE",` +
		`"userInfo":{"username":"jane","groups":["system:authenticated"]},` + extra +
		`"object":{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + pod + `","namespace":"shop"` + object + `}}}`
}

func deletionOf(t *testing.T, pod *corev1.Pod, name, user, options string) string {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"name":"` + name + `","namespace":"shop","operation":"DELETE",` +
		`"userInfo":{"username":"` + user + `"},"oldObject":` + string(raw) + `,"options":{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"` + options + `}}}`
}

const noMore = `}`

func TestLeave(t *testing.T) {
	gone := metav1.NewTime(clock)
	terminating, glass := testPod("db-0"), testPod("db-0")
	terminating.DeletionTimestamp = &gone
	glass.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
	cases := map[string]struct {
		body     string
		prepare  func(*world)
		allowed  bool
		says     string
		did      []string
		events   int
		answered string
	}{
		"a member may go":               {body: evictionOf("db-0", "", noMore), prepare: green, allowed: true, did: []string{"permit"}, events: 1, answered: "LetThrough"},
		"a request that cannot be made": {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.unwritable = true }, says: "not green", did: []string{"request refused"}, events: 1, answered: "Refused"},
		"a member may not go":           {body: evictionOf("db-0", "", noMore), says: "the database is not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"a request of its own":          {body: evictionOf("db-0", "", `,"annotations":{"usher.sh/skip-eviction-request":"true"}}`), says: "the database is not green", events: 1, answered: "Refused"},
		"a dry run may not":             {body: evictionOf("db-0", `"dryRun":true,`, noMore), says: "not green", answered: "Refused"},
		"a dry run may":                 {body: evictionOf("db-0", `"dryRun":true,`, noMore), prepare: green, allowed: true, answered: "LetThrough"},
		"a dry run in the object":       {body: evictionOf("db-0", "", `},"deleteOptions":{"dryRun":["All"]}`), prepare: green, allowed: true, answered: "LetThrough"},
		"usher itself may":              {body: strings.Replace(evictionOf("db-0", "", noMore), "jane", "usher", 1), prepare: green, allowed: true, did: []string{"permit"}, answered: "LetThrough"},
		"usher itself is refused":       {body: strings.Replace(evictionOf("db-0", "", noMore), "jane", "usher", 1), says: "not green", events: 1, answered: "Refused"},
		"a question":                    {body: evictionOf("db-0", `"dryRun":true,`, `,"annotations":{"usher.sh/verdict":"evict"}}`), prepare: green, says: "may go: this only answers", answered: "Asked"},
		"a pod of no policy":            {body: evictionOf("web", "", noMore), allowed: true, answered: "NotGoverned"},
		"no pod":                        {body: evictionOf("none", "", noMore), says: `pods "none" not found`, answered: "NoSuchPod"},
		"no pod, a question":            {body: evictionOf("none", `"dryRun":true,`, `,"annotations":{"usher.sh/verdict":"evict"}}`), says: "not found", answered: "NoSuchPod"},
		"no pod any more": {body: evictionOf("db-0", "", noMore), prepare: func(w *world) {
			w.green, w.fresh = true, map[string]*corev1.Pod{"db-0": nil}
		}, says: `pods "db-0" not found`, answered: "NoSuchPod"},
		"a label that the cache has not seen": {body: evictionOf("web", "", noMore), prepare: func(w *world) {
			labelled := w.pods["web"].DeepCopy()
			labelled.Labels = map[string]string{v1alpha1.PolicyLabel: "new"}
			w.fresh = map[string]*corev1.Pod{"web": labelled}
		}, says: "policy \"new\", and namespace shop has no such policy in mode Enforce", events: 1, answered: "Refused"},
		"glass that the cache shows broken still": {body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"uid-1"}}`), prepare: func(w *world) {
			w.pods["db-0"], w.fresh = glass, map[string]*corev1.Pod{"db-0": testPod("db-0")}
		}, says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"a dry run reads nothing afresh": {body: evictionOf("db-0", `"dryRun":true,`, noMore), prepare: func(w *world) {
			w.green, w.fresh = true, map[string]*corev1.Pod{"db-0": nil}
		}, allowed: true, answered: "LetThrough"},
		"a pod without a node": {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.pods["db-0"].Spec.NodeName = "" }, allowed: true, did: []string{"permit"}, answered: "LetThrough"},
		"a pod that has found its node meanwhile": {body: evictionOf("db-0", "", noMore), prepare: func(w *world) {
			w.fresh = map[string]*corev1.Pod{"db-0": testPod("db-0")}
			w.pods["db-0"].Spec.NodeName = ""
		}, says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"another pod of that name":           {body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"old"}}`), allowed: true, answered: "NotGoverned"},
		"the pod that was meant":             {body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"uid-1"}}`), says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"another replica is faster":          {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.conflict = true, 2 }, allowed: true, did: []string{"conflict", "refresh", "conflict", "refresh", "permit"}, events: 1, answered: "LetThrough"},
		"others are always faster":           {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.conflict = true, 99 }, says: "could not be written down", did: []string{"conflict", "refresh", "conflict", "refresh", "conflict", "refresh", "conflict", "refresh", "request"}, events: 1, answered: "Refused"},
		"the policy vanishes":                {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.vanishing = true, true }, says: "now: policy shop/db is being deleted. Ask again", did: []string{"permit refused"}, events: 1, answered: "Refused"},
		"the apiserver is busy":              {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.busy = true, true }, says: "could not be written down: too many requests", did: []string{"permit refused", "request"}, events: 1, answered: "Refused"},
		"nothing can be read":                {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.broken = errors.New("no cache") }, says: "no cache", events: 0, answered: "Refused"},
		"the cache shows its predecessor":    {body: evictionOf("db-0", "", noMore), prepare: behind, says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"the cache has only its predecessor": {body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"uid-2"}}`), prepare: behind, says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"no kind of question":                {body: strings.Replace(evictionOf("db-0", "", noMore), `"subResource":"eviction"`, `"subResource":"status"`, 1), says: "no question"},
		"an object that is none":             {body: strings.Replace(evictionOf("db-0", "", noMore), `"metadata":{`, `"metadata":7,"x":{`, 1), says: "reading the Eviction"},

		"a DELETE for a taint, nothing can be read": {
			body:    deletionOf(t, testPod("db-0"), "db-0", "system:serviceaccount:kube-system:taint-eviction-controller", ""),
			prepare: func(w *world) { w.broken = errors.New("no cache") }, says: "no cache", answered: "Refused",
		},
		"a dry-run DELETE, nothing can be read": {
			body:    deletionOf(t, testPod("db-0"), "db-0", "jane", `,"dryRun":["All"]`),
			prepare: func(w *world) { w.broken = errors.New("no cache") }, says: "no cache", answered: "Refused",
		},
		"an unlabelled pod, nothing can be read": {body: evictionOf("web", "", noMore), prepare: func(w *world) { w.broken = errors.New("no cache") }, says: "no cache", answered: "Refused"},
		"a retry by name":                        {body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.left = true, true }, says: "has left node n0", answered: "GoneMeanwhile"},
		"a retry by name, the other node is cordoned by now": {
			body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.green, w.left, w.cordoned = true, true, true }, allowed: true, did: []string{"permit"}, events: 1, answered: "LetThrough",
		},
		"the same with the UID": {body: evictionOf("db-0", "", `},"deleteOptions":{"preconditions":{"uid":"uid-1"}}`), prepare: func(w *world) { w.green, w.left = true, true }, allowed: true, did: []string{"permit"}, events: 1, answered: "LetThrough"},
		"a DELETE where the policy has vanished": {
			body: deletionOf(t, testPod("db-0"), "db-0", "jane", ""), prepare: func(w *world) { w.unknown = true },
			says: "namespace shop has no such policy in mode Enforce", did: []string{"read the namespace"}, events: 1, answered: "Refused",
		},
		"a DELETE where a tenant has written the label": {
			body: deletionOf(t, testPod("db-0"), "db-0", "jane", ""), prepare: func(w *world) { w.unknown, w.ungoverned = true, true },
			allowed: true, did: []string{"read the namespace"}, answered: "NotGoverned",
		},
		"an eviction where a tenant has written the label": {
			body: evictionOf("db-0", "", noMore), prepare: func(w *world) { w.unknown, w.ungoverned = true, true },
			allowed: true, did: []string{"read the namespace", "read the namespace"}, answered: "NotGoverned",
		},
		"a DELETE":                    {body: deletionOf(t, testPod("db-0"), "db-0", "jane", ""), says: "not green", did: []string{"request"}, events: 1, answered: "Refused"},
		"a DELETE that may":           {body: deletionOf(t, testPod("db-0"), "db-0", "jane", ""), prepare: green, allowed: true, did: []string{"permit"}, events: 1, answered: "LetThrough"},
		"one of a collection":         {body: deletionOf(t, testPod("db-0"), "", "jane", ""), says: "shop/db-0", did: []string{"request"}, events: 1, answered: "Refused"},
		"a dry-run DELETE":            {body: deletionOf(t, testPod("db-0"), "db-0", "jane", `,"dryRun":["All"]`), says: "not green", answered: "Refused"},
		"a DELETE of what terminates": {body: deletionOf(t, terminating, "db-0", "jane", ""), allowed: true, answered: "AlreadyLeaving"},
		"the same by force":           {body: deletionOf(t, terminating, "db-0", "jane", `,"gracePeriodSeconds":0`), says: "not green", events: 1, answered: "Refused"},
		"its kubelet":                 {body: strings.Replace(deletionOf(t, terminating, "db-0", "system:node:n1", `,"gracePeriodSeconds":0`), `"username":"system:node:n1"`, `"username":"system:node:n1","groups":["system:nodes"]`, 1), allowed: true, answered: "ByKubelet"},
		"another pod was meant":       {body: deletionOf(t, testPod("db-0"), "db-0", "jane", `,"preconditions":{"uid":"old"}`), allowed: true, answered: "NotGoverned"},
		"broken glass":                {body: deletionOf(t, glass, "db-0", "jane", ""), allowed: true, did: []string{"permit"}, events: 2, answered: "BrokenGlass"},
		"broken glass, another replica is faster": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.conflict = 2 }, allowed: true,
			did: []string{"conflict", "refresh", "conflict", "refresh", "permit"}, events: 2, answered: "BrokenGlass",
		},
		"broken glass, others are always faster": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.conflict = 99 }, allowed: true,
			did:    []string{"conflict", "refresh", "conflict", "refresh", "conflict", "refresh", "conflict", "refresh"},
			events: 2, answered: "BrokenGlass",
		},
		"broken glass, nothing can be written": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.unwritable = true }, allowed: true,
			did: []string{"permit refused"}, events: 2, answered: "BrokenGlass",
		},
		"broken glass, the policy vanishes": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.vanishing = true }, allowed: true,
			did: []string{"permit refused"}, events: 2, answered: "BrokenGlass",
		},
		"broken glass, the apiserver is busy": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.busy = true }, allowed: true,
			did: []string{"permit refused"}, events: 2, answered: "BrokenGlass",
		},
		"broken glass, the policy cannot be read again": {
			body: deletionOf(t, glass, "db-0", "jane", ""), prepare: func(w *world) { w.conflict, w.unreadable = 1, true }, allowed: true,
			did: []string{"conflict", "refresh"}, events: 2, answered: "BrokenGlass",
		},
		"broken glass, dry run": {body: deletionOf(t, glass, "db-0", "jane", `,"dryRun":["All"]`), allowed: true, answered: "BrokenGlass"},
		"no old object":         {body: strings.Replace(deletionOf(t, testPod("db-0"), "db-0", "jane", ""), `"oldObject"`, `"newObject"`, 1), says: "reading the pod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.prepare != nil {
				c.prepare(w)
			}
			got := w.post(PathLeave, c.body)
			message := ""
			if got.Result != nil {
				message = got.Result.Message
			}
			if got.Allowed != c.allowed || !strings.Contains(message, c.says) {
				t.Errorf("allowed: %t, message %q; want %t with %q", got.Allowed, message, c.allowed, c.says)
			}
			if !got.Allowed && c.answered != "" && !strings.Contains(c.body, `"name":"`+got.Result.Details.Name+`"`) {
				t.Errorf("refused about %q", got.Result.Details.Name)
			}
			noted := strings.Contains(message, "an EvictionRequest was created") || strings.Contains(message, "An EvictionRequest was made")
			if noted != slices.Contains(c.did, "request") {
				t.Errorf("the refusal says that a request was created: %t; done: %v", noted, c.did)
			}
			if diff := cmp.Diff(c.did, w.did); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if len(w.events) != c.events {
				t.Errorf("events %q, want %d", w.events, c.events)
			}
			if got.UID != "r1" || got.AuditAnnotations["answer"] != c.answered {
				t.Errorf("UID %q, audited %v, want %s", got.UID, got.AuditAnnotations, c.answered)
			}
		})
	}
}

func green(w *world) { w.green = true }

// behind is a cache that still shows a pod that terminates, where its successor runs by now.
func behind(w *world) {
	ending := testPod("db-0")
	ending.DeletionTimestamp = &metav1.Time{Time: clock}
	next := testPod("db-0")
	next.UID = "uid-2"
	w.pods["db-0"], w.fresh = ending, map[string]*corev1.Pod{"db-0": next}
}

// Of a member without a pod it can be asked whether another may take its place, and nothing else.
func TestReplacementOfPodThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.departed = map[string]*corev1.Pod{"db-9": testPod("db-9")}
	ask := func(what string) *admissionv1.AdmissionResponse {
		return w.post(PathLeave, evictionOf("db-9", `"dryRun":true,`, `,"annotations":{"usher.sh/verdict":"`+what+`"}}`))
	}
	if answer := ask("evict"); answer.Result.Code != http.StatusNotFound {
		t.Errorf("asked about an eviction: %+v", answer.Result)
	}
	answer := ask("replace")
	if answer.Result.Code != http.StatusTooManyRequests || answer.Result.Details == nil {
		t.Fatalf("asked about a replacement: %+v", answer.Result)
	}
	verdict, ok := eviction.ReadAnswer(answer.Result.Details.Causes)
	if !ok || len(verdict.Blockers) != 1 || verdict.Blockers[0].Reason != eviction.NoSuccessor || !slices.Contains(w.did, "judge as deleted") {
		t.Errorf("verdict %+v, done %v", verdict, w.did)
	}
}
