package governed

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// saysWhatIsWrong: everything that keeps a policy from its work is a sentence in its status, and meanwhile no pod is evicted.
func (h *house) saysWhatIsWrong(t *testing.T) {
	t.Helper()
	secret := &v1alpha1.SecretKey{Name: "login", Key: "token"}
	withSecret := func(s *v1alpha1.System) {
		s.HTTP.Headers = []v1alpha1.Header{{Name: "Authorization", Secret: secret}}
	}
	tests := []struct {
		name   string
		secret string
		system func(*fakeSystem, *v1alpha1.System)
		policy func(*v1alpha1.EvictionPolicy)
		second bool
		barred bool // the namespace lets no manager read its Secrets
		reason string
		says   []string
		refuse string // part of what kubectl drain is answered
	}{{
		name: "wrong credentials", secret: "wrong",
		system: func(f *fakeSystem, s *v1alpha1.System) { f.token = "right"; withSecret(s) },
		reason: "SystemUnreachable", says: []string{"the system cannot be asked", "401"}, refuse: "401",
	}, {
		name:   "no Secret",
		system: func(_ *fakeSystem, s *v1alpha1.System) { withSecret(s) },
		reason: "SystemUnreachable", says: []string{`the Secret "login", which the policy refers to, does not exist`}, refuse: `the Secret "login"`,
	}, {
		name: "a Secret that it may not read", secret: "right", barred: true,
		system: func(f *fakeSystem, s *v1alpha1.System) { f.token = "right"; withSecret(s) },
		reason: "SystemUnreachable", says: []string{`reading the Secret "login"`, "kubectl create rolebinding usher-secrets -n "}, refuse: "kubectl create rolebinding",
	}, {
		name:   "unreachable",
		system: func(_ *fakeSystem, s *v1alpha1.System) { s.HTTP.Endpoints = []string{"http://127.0.0.1:1"} },
		reason: "SystemUnreachable", says: []string{"connection refused"}, refuse: "connection refused",
	}, {
		name:   "hanging",
		system: func(f *fakeSystem, _ *v1alpha1.System) { f.hush() },
		policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Evidence.Timeout.Duration = time.Second },
		reason: "SystemUnreachable", says: []string{"the system has not answered within 1s"}, refuse: "has not answered",
	}, {
		name:   "suspended",
		policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true },
		reason: "Suspended", says: []string{"spec.suspend is set"}, refuse: "suspend",
	}, {
		name: "two policies", second: true,
		reason: "ClaimedTwice", says: []string{"3 pods claimed more than once, by db (spec.members[0]) and other (spec.members[0])"}, refuse: "other",
	}, {
		name:   "a fact that is not there",
		policy: func(p *v1alpha1.EvictionPolicy) { p.Spec.Roles[0].Evict.Rules[1].Expression = "system.health.nowhere" },
		reason: "FactMissing", says: []string{`rule safe asks for "system.health.nowhere"`, "by a wrong name"}, refuse: "nowhere",
	}, {
		name: "a rule that takes too long", system: func(f *fakeSystem, _ *v1alpha1.System) { f.shards = 3000 },
		policy: func(p *v1alpha1.EvictionPolicy) {
			p.Spec.Roles[0].Evict.Rules[1].Expression = "system.health.shards.all(a, system.health.shards.exists(b, a == b))"
		},
		reason: "RuleFailed", says: []string{"db-0: rule safe has no answer: it takes too long", "to be corrected"},
		refuse: "rule safe has no answer: it takes too long: the evaluation was stopped at its cost limit",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			namespace, system := h.lab.Namespace(t), newSystem(t)
			node, pod := h.members(t, namespace, 3)
			if !test.barred {
				h.allowSecrets(t, namespace)
			}
			if test.secret != "" {
				must(t, h.client.Create(t.Context(), newSecret(namespace, test.secret)))
			}
			spec := system.spec()
			if test.system != nil {
				test.system(system, &spec)
			}
			h.policy(t, namespace, "db", spec, func(p *v1alpha1.EvictionPolicy) {
				if test.policy != nil {
					test.policy(p)
				}
			})
			if test.second {
				h.policy(t, namespace, "other", spec)
			}
			h.waitSays(t, namespace, "db", test.reason, test.says...)
			h.waitLabelled(t, namespace, "db", 3)
			uid := h.uid(t, namespace, pod)
			out := h.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=6s").fail(t)
			if !strings.Contains(out, test.refuse) {
				t.Errorf("kubectl drain said, without %q:\n%s", test.refuse, out)
			}
			h.usher(t, "why", "-n", namespace, pod).ends(t, 2, test.refuse)
			if now := h.uid(t, namespace, pod); now != uid {
				t.Error("the pod was evicted")
			}
		})
	}
}

// readsAChangedSecret: a Secret may be read when its namespace has said so, by the command that the status names. A password that
// was wrong is put right. Nothing has to be restarted.
func (h *house) readsAChangedSecret(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	system.token = "right"
	h.members(t, namespace, 3)
	secret := newSecret(namespace, "wrong")
	must(t, h.client.Create(t.Context(), secret))
	spec := system.spec()
	spec.HTTP.Headers = []v1alpha1.Header{{Name: "Authorization", Secret: &v1alpha1.SecretKey{Name: "login", Key: "token"}}}
	h.policy(t, namespace, "db", spec)
	_, allow, _ := strings.Cut(h.waitReason(t, namespace, "db", "SystemUnreachable"), "allow it: kubectl ")
	h.kubectl(t, strings.Fields(allow)...).succeed(t)
	h.waitPolicy(t, namespace, "db", "the Secret to be read", func(p *v1alpha1.EvictionPolicy) bool { return strings.Contains(p.Status.System.Error, "401") })
	patch := client.MergeFrom(secret.DeepCopy())
	secret.Data["token"] = []byte("right")
	must(t, h.client.Patch(t.Context(), secret, patch))
	h.waitReason(t, namespace, "db", "Governing")
}

// saysWhyAPolicyIsInvalid: a policy that cannot be used is refused when it is written; one that got in while no webhook answered
// says what is wrong.
func (h *house) saysWhyAPolicyIsInvalid(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	broken := func(p *v1alpha1.EvictionPolicy) { p.Spec.Roles[0].Evict.Rules[1].Expression = "system.health.safe &&" }
	create := func(ctx context.Context) error {
		policy := &v1alpha1.EvictionPolicy{}
		must(t, h.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "good"}, policy))
		broken(policy)
		policy.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "broken"}
		return h.client.Create(ctx, policy)
	}
	h.policy(t, namespace, "good", system.spec())
	err := create(t.Context())
	if err == nil || !strings.Contains(err.Error(), "spec.roles[0].evict.rules[1].expression") {
		t.Fatalf("the apiserver said %v, want the path of what is wrong", err)
	}
	must(t, h.client.Delete(t.Context(), validation(t, h)))
	// The apiserver asks the webhook until its cache shows that there is none.
	eventually(t, "the apiserver to take the policy unasked", func() bool { return create(t.Context()) == nil })
	message := h.waitReason(t, namespace, "broken", "Invalid")
	if !strings.Contains(message, "spec.roles[0].evict.rules[1].expression") {
		t.Errorf("the status says %q, want the path of what is wrong", message)
	}
}

// allowSecrets lets the manager read the Secrets of a namespace, as its owner does.
func (h *house) allowSecrets(t *testing.T, namespace string) {
	t.Helper()
	h.kubectl(t, "create", "rolebinding", "usher-secrets", "-n", namespace, "--clusterrole=usher-secrets", "--serviceaccount=usher-system:usher-manager").succeed(t)
}

func newSecret(namespace, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "login"},
		Data:       map[string][]byte{"token": []byte(token)},
	}
}
