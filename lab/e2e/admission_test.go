package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// guard is an admission webhook for the evictions of one namespace. What it says can change.
type guard struct {
	denial atomic.Pointer[metav1.Status] // nil: it allows
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	denial := g.denial.Load()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: denial == nil, Result: denial}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // a client that hung up needs no answer
}

// guarded puts a webhook before the evictions of the stage's namespace and returns when it is in force.
func (s *stage) guarded(t *testing.T, denial metav1.Status) *guard {
	t.Helper()
	g := &guard{}
	g.denial.Store(&metav1.Status{Code: http.StatusForbidden}) // the client of awaitDenial would obey a Retry-After
	server := httptest.NewTLSServer(g)
	t.Cleanup(server.Close)
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "guard.lab.usher.sh",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      &server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.ns}},
		Rules:                   []admissionregistrationv1.RuleWithOperations{creating("pods/eviction")},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
	api := s.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
	}
	if _, err := api.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), s.ns, metav1.DeleteOptions{}) })
	s.awaitDenial(t, s.evictDry)
	g.denial.Store(&denial)
	return g
}

func creating(resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}
}

// awaitDenial asks until the apiserver refuses. It keeps to itself when it has seen what admits; nothing can be watched.
func (s *stage) awaitDenial(t *testing.T, try func(context.Context, string) error) {
	t.Helper()
	name := s.names(t)[0]
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return try(ctx, name) != nil, nil
	})
	if err != nil {
		t.Fatal("nothing is denied:", err)
	}
}

func (s *stage) evictDry(ctx context.Context, pod string) error {
	return s.Client().CoreV1().Pods(s.ns).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
}

func (s *stage) deleteDry(ctx context.Context, pod string) error {
	return s.Client().CoreV1().Pods(s.ns).Delete(ctx, pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}

func TestWebhookDeniesAndLaterAllows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "shard", podOn(s.node))
	s.settled(t, 1)
	g := s.guarded(t, metav1.Status{Message: "shard 7 has no other copy", Code: http.StatusForbidden})
	p := start(t, "drain", s.node, "--force")
	b := p.blocked(t, "DeniedByAdmission")
	contains(t, b.Message, "guard.lab.usher.sh", "shard 7 has no other copy")
	g.denial.Store(nil)
	p.wait(t).want(t, 0, "drained")
	same(t, "left", s.rec.left(t, s.node), []string{})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "shard", podOn(s.node))
	s.settled(t, 1)
	g := s.guarded(t, metav1.Status{
		Message: "preparing", Reason: metav1.StatusReasonTooManyRequests, Code: http.StatusTooManyRequests,
		Details: &metav1.StatusDetails{RetryAfterSeconds: 3},
	})
	s.Stick(t, s.ns, "shard") // or it could be gone before usher has seen it terminating
	p := start(t, "drain", s.node, "--force")
	b := p.blocked(t, "ServerAskedToWait")
	contains(t, b.Message, "preparing")
	g.denial.Store(nil)
	evicted := p.reached(t, "shard", "terminating")
	s.Unstick(t, s.ns, "shard")
	f := p.wait(t).want(t, 0, "drained")
	refused := p.await(t, "the refusal", func(e event) bool { return e.Blocker != nil && e.Blocker.Reason == "ServerAskedToWait" })
	if after := evicted.Time.Sub(refused.Time); after < 3*time.Second {
		t.Errorf("asked again after %s, the server had asked for 3 s\n%s", after, f.text)
	}
}

// policy makes a ValidatingAdmissionPolicy for the stage's namespace that denies all, and waits until it is in force.
func (s *stage) policy(t *testing.T, rule admissionregistrationv1.RuleWithOperations, message string, try func(context.Context, string) error) {
	t.Helper()
	api := s.Client().AdmissionregistrationV1()
	meta := metav1.ObjectMeta{Name: s.ns}
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: message}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        s.ns,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.ns}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = api.ValidatingAdmissionPolicyBindings().Delete(ctx, s.ns, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(ctx, s.ns, metav1.DeleteOptions{})
	})
	s.awaitDenial(t, try)
}

// interruptedAt drains the node until something is blocked for this reason.
func (s *stage) interruptedAt(t *testing.T, reason string) finished {
	t.Helper()
	p := start(t, "drain", s.node, "--force")
	p.blocked(t, reason)
	p.signal(t, os.Interrupt)
	return p.wait(t).want(t, 130, "interrupted")
}

func TestAdmissionPolicyDenies(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "vm", podOn(s.node))
	s.settled(t, 1)
	s.policy(t, creating("pods/eviction"), "live-migrate it first", s.evictDry)
	f := s.interruptedAt(t, "DeniedByAdmission")
	denied := f.blockers("DeniedByAdmission")
	if len(denied) != 1 {
		t.Fatalf("want one denial: %+v", f.End.Blockers)
	}
	contains(t, denied[0].Message, "live-migrate it first", s.ns)
	same(t, "left", s.rec.left(t, s.node), []string{"vm"})
}

func TestTerminatingNamespaceHoldsItsPods(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "late", podOn(s.node))
	s.settled(t, 1)
	deleting := creating("pods")
	deleting.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	s.policy(t, deleting, "not yet", s.deleteDry)
	if err := s.Client().CoreV1().Namespaces().Delete(t.Context(), s.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f := s.interruptedAt(t, "NamespaceTerminating")
	if held := f.blockers("NamespaceTerminating"); len(held) != 1 || held[0].Pod != "late" {
		t.Errorf("the namespace is not named: %+v", f.End.Blockers)
	}
}
