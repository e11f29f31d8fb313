package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/lab/testlab"
)

// webhook serves an admission webhook that answers every eviction in ns with result.
func webhook(t *testing.T, l *testlab.Lab, ns string, result *metav1.Status) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: result}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answering the apiserver: %v", err)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	registerWebhook(t, l, ns, server.URL, certificate)
}

func registerWebhook(t *testing.T, l *testlab.Lab, ns, url string, ca []byte) {
	t.Helper()
	api := l.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := api.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "guard.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules:                   evictions(),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](30),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func evictions() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
	}}
}

// once the apiserver has seen a webhook or a policy, it answers otherwise than before.
// Nothing reports when, so a dry run asks.
func answersOtherwise(t *testing.T, l *testlab.Lab, a drain.Action) {
	t.Helper()
	probe := &act.Writer{Client: l.Client(), DryRun: true}
	for probe.Do(t.Context(), a).Code == answers.Accepted {
		if t.Context().Err() != nil {
			t.Fatal("the apiserver never saw the webhook")
		}
	}
}

func TestAdmissionWebhook(t *testing.T) {
	l := testlab.Get(t)
	l.Nodes(t, 1)
	cases := map[string]struct {
		result     *metav1.Status
		want       answers.Code
		retryAfter time.Duration
	}{
		"without a code":        {&metav1.Status{Message: "shard master here"}, answers.Denied, 0},
		"403":                   {&metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "shard master here"}, answers.Denied, 0},
		"422":                   {&metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "shard master here"}, answers.Denied, 0},
		"409":                   {&metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict, Message: "shard master here"}, answers.Denied, 0},
		"500":                   {&metav1.Status{Code: 500, Message: "shard master here"}, answers.Denied, 0},
		"429":                   {&metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "shard master here"}, answers.RefusedForNow, 0},
		"429 with a time":       {&metav1.Status{Code: 429, Message: "shard master here", Details: &metav1.StatusDetails{RetryAfterSeconds: 7}}, answers.RefusedForNow, 7 * time.Second},
		"404 is no missing pod": {&metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "shard master here"}, answers.Denied, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := l.Namespace(t)
			pod := runningPod(t, l, ns, "db")
			webhook(t, l, ns, c.result)
			action := drain.Action{Kind: drain.Evict, Pod: pod}
			answersOtherwise(t, l, action)
			said := answer(t, &act.Writer{Client: l.Client()}, action, c.want)
			contains(t, said.Message, "guard.example.com", "shard master here")
			if said.RetryAfter != c.retryAfter {
				t.Errorf("retry after %s, want %s", said.RetryAfter, c.retryAfter)
			}
		})
	}
}

func TestAdmissionWebhookThatIsDown(t *testing.T) {
	l := testlab.Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	pod := runningPod(t, l, ns, "db")
	registerWebhook(t, l, ns, "https://127.0.0.1:1/", nil)
	action := drain.Action{Kind: drain.Evict, Pod: pod}
	answersOtherwise(t, l, action)
	said := answer(t, &act.Writer{Client: l.Client()}, action, answers.Unavailable)
	contains(t, said.Message, "guard.example.com")
}

func TestValidatingAdmissionPolicy(t *testing.T) {
	l := testlab.Get(t)
	l.Nodes(t, 1)
	ns := l.Namespace(t)
	pod := runningPod(t, l, ns, "db")
	policies := l.Client().AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: evictions()[0]}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "not on a Saturday"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        ns,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	action := drain.Action{Kind: drain.Evict, Pod: pod}
	answersOtherwise(t, l, action)
	said := answer(t, &act.Writer{Client: l.Client()}, action, answers.Denied)
	contains(t, said.Message, "not on a Saturday")
}
