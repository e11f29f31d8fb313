package governed

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/testlab"
)

// now deletes without waiting for anything.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// TestScope asks which requests come to the webhook at all, while it answers and while it does not.
func TestScope(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	r.lab.Nodes(t, 1)
	ns, other := r.namespace(t, true), r.namespace(t, false)
	t.Run("what is asked", func(t *testing.T) { askedAbout(t, r, ns, other) })
	t.Run("by which user", func(t *testing.T) { askedBy(t, r, ns) })
	t.Run("narrower", func(t *testing.T) { narrower(t, r, ns) })
	t.Run("audited", func(t *testing.T) { audited(t, r, other) })
	t.Run("policies", func(t *testing.T) { policiesAsked(t, r, ns) })
	t.Run("kube-system", func(t *testing.T) {
		r.label(t, metav1.NamespaceSystem)
		want(t, r, metav1.NamespaceSystem, func() {
			r.lab.Pod(t, metav1.NamespaceSystem, "a", member)
			r.lab.Pod(t, metav1.NamespaceSystem, "b", member)
			must(t, evict(t, r.lab.Client(), metav1.NamespaceSystem, "a"))
			must(t, r.lab.Client().CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), "b", now))
		})
	})
	t.Run("while no replica answers", func(t *testing.T) { whileDown(t, r, ns, other) })
}

// want fails unless exactly these questions are asked about a namespace while do runs.
func want(t *testing.T, r *recorder, namespace string, do func(), asked ...string) {
	t.Helper()
	if asked == nil {
		asked = []string{}
	}
	if diff := cmp.Diff(asked, r.during(namespace, do)); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func evict(t *testing.T, c kubernetes.Interface, namespace, name string) error {
	t.Helper()
	return c.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

func askedAbout(t *testing.T, r *recorder, ns, other string) {
	t.Helper()
	pods := r.lab.Client().CoreV1().Pods(ns)
	create := func(namespace, name string, mutate ...func(*corev1.Pod)) {
		r.lab.Pod(t, namespace, name, append(mutate, nowhere)...)
	}
	want(t, r, ns, func() { create(ns, "a", member) }, "/create CREATE pods a")
	want(t, r, ns, func() { create(ns, "plain") }, "/create CREATE pods plain")
	want(t, r, other, func() { create(other, "a"); create(other, "labelled", member) })

	want(t, r, ns, func() { must(t, evict(t, r.lab.Client(), ns, "a")) }, "/leave CREATE pods/eviction a")
	want(t, r, ns, func() { must(t, evict(t, r.lab.Client(), ns, "plain")) }, "/leave CREATE pods/eviction plain")
	want(t, r, other, func() { must(t, evict(t, r.lab.Client(), other, "a")) })

	create(ns, "b", member)
	create(ns, "c", member)
	create(ns, "plain")
	want(t, r, ns, func() {
		_, err := pods.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{})
		must(t, err)
		_, err = pods.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"status":{"message":"x"}}`), metav1.PatchOptions{}, "status")
		must(t, err)
	})
	want(t, r, ns, func() { must(t, pods.Delete(t.Context(), "plain", now)) })
	want(t, r, ns, func() { must(t, pods.Delete(t.Context(), "b", now)) }, "/leave DELETE pods b")
	create(ns, "b", member)
	create(ns, "plain")
	want(t, r, ns, func() { must(t, pods.DeleteCollection(t.Context(), now, metav1.ListOptions{})) }, "/leave DELETE pods (b)", "/leave DELETE pods (c)")
	// Anyone who may create pods can write the label: it decides nothing where no policy is.
	want(t, r, other, func() {
		must(t, r.lab.Client().CoreV1().Pods(other).Delete(t.Context(), "labelled", now))
	})
}

// askedBy deletes governed pods as those who clear away what has ended.
func askedBy(t *testing.T, r *recorder, ns string) {
	t.Helper()
	for user, asked := range map[string]bool{
		"system:node:n1": false,
		"system:serviceaccount:kube-system:generic-garbage-collector": false,
		"system:serviceaccount:kube-system:namespace-controller":      false,
		"system:serviceaccount:kube-system:pod-garbage-collector":     false,
		"system:serviceaccount:kube-system:statefulset-controller":    true,
		"system:serviceaccount:kube-system:taint-eviction-controller": true,
		"system:serviceaccount:other:generic-garbage-collector":       true,
		"system:kube-scheduler":                                        true,
		"system:kube-controller-manager":                               true,
		"system:serviceaccount:kube-system:generic-garbage-collector2": true,
	} {
		t.Run(user, func(t *testing.T) {
			r.lab.Pod(t, ns, "a", member, nowhere)
			questions := []string{}
			if asked {
				questions = append(questions, "/leave DELETE pods a")
			}
			c := as(t, r.lab, user, "system:masters")
			want(t, r, ns, func() { must(t, c.CoreV1().Pods(ns).Delete(t.Context(), "a", now)) }, questions...)
		})
	}
	t.Run("garbage collection", func(t *testing.T) {
		owner, err := r.lab.Client().CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		must(t, err)
		r.lab.Pod(t, ns, "owned", member, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
		})
		want(t, r, ns, func() {
			must(t, r.lab.Client().CoreV1().ConfigMaps(ns).Delete(t.Context(), "owner", metav1.DeleteOptions{}))
			gone(t, r.lab, ns, "owned")
		})
	})
	t.Run("deletion of the namespace", func(t *testing.T) {
		going := r.namespace(t, true)
		r.lab.Pod(t, going, "a", member)
		want(t, r, going, func() {
			must(t, r.lab.Client().CoreV1().Namespaces().Delete(t.Context(), going, metav1.DeleteOptions{}))
			gone(t, r.lab, going, "a")
		})
	})
}

// audited asks about a namespace with policies in mode Audit: by its own label, and of DELETEs by the pods' own.
func audited(t *testing.T, r *recorder, other string) {
	t.Helper()
	ns := r.lab.Namespace(t)
	pods := r.lab.Client().CoreV1().Pods(ns)
	r.labels(t, ns, v1alpha1.AuditedLabel)
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	r.lab.Pod(t, ns, "plain", member, nowhere)
	eventually(t, "questions about pods of "+ns, func() bool {
		must(t, r.lab.Client().PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "plain"}, DeleteOptions: &dry}))
		return r.wasAskedAbout(ns)
	})
	want(t, r, ns, func() { r.lab.Pod(t, ns, "a", auditedMember, nowhere) })
	want(t, r, ns, func() { must(t, evict(t, r.lab.Client(), ns, "plain")) }, "/audit CREATE pods/eviction plain")
	r.lab.Pod(t, ns, "plain", member, nowhere)
	want(t, r, ns, func() { must(t, pods.Delete(t.Context(), "plain", now)) })
	want(t, r, ns, func() { must(t, pods.Delete(t.Context(), "a", now)) }, "/audit DELETE pods a")
	r.lab.Pod(t, ns, "a", auditedMember, nowhere)
	want(t, r, ns, func() {
		must(t, as(t, r.lab, "system:node:n1", "system:masters").CoreV1().Pods(ns).Delete(t.Context(), "a", now))
	})
	want(t, r, other, func() {
		r.lab.Pod(t, other, "trial", auditedMember, nowhere)
		must(t, r.lab.Client().CoreV1().Pods(other).Delete(t.Context(), "trial", now))
	})
	r.label(t, ns)
	r.lab.Pod(t, ns, "both", auditedMember, member, nowhere)
	r.during(ns, func() {
		eventually(t, "questions by both labels", func() bool {
			must(t, r.lab.Client().PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "both"}, DeleteOptions: &dry}))
			return r.wasAsked("/leave")
		})
	})
	want(t, r, ns, func() { must(t, pods.Delete(t.Context(), "both", now)) }, "/audit DELETE pods both", "/leave DELETE pods both")
}

// narrower tries what would let evictions of other pods in a governed namespace pass without Usher: neither a selector nor a
// condition sees the pod.
func narrower(t *testing.T, r *recorder, ns string) {
	t.Helper()
	var ours admissionregistrationv1.ValidatingWebhookConfiguration
	must(t, r.client.Get(t.Context(), client.ObjectKey{Name: "usher"}, &ours))
	tried := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "narrower"}}
	try := func(name string, mutate func(*admissionregistrationv1.ValidatingWebhook)) {
		hook := ours.Webhooks[0].DeepCopy()
		hook.Name = name + ".usher.sh"
		hook.ClientConfig.URL = new(strings.Replace(*hook.ClientConfig.URL, "/leave", "/"+name, 1))
		mutate(hook)
		tried.Webhooks = append(tried.Webhooks, *hook)
	}
	try("as-it-is", func(*admissionregistrationv1.ValidatingWebhook) {})
	try("by-label", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.PolicyLabel, Operator: metav1.LabelSelectorOpExists}}}
	})
	try("by-pod", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "pod", Expression: "oldObject != null || has(object.spec)"}}
	})
	must(t, r.client.Create(t.Context(), tried))
	r.lab.Pod(t, ns, "n", member)
	asked := r.during(ns, func() {
		// Configurations take effect a moment after they were written: once the first is asked, the others are in force too.
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		eventually(t, "the first to be asked", func() bool {
			must(t, r.lab.Client().PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "n"}, DeleteOptions: &dry}))
			return r.wasAsked("/as-it-is")
		})
	})
	if diff := cmp.Diff([]string{"/as-it-is CREATE pods/eviction n", "/leave CREATE pods/eviction n"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	must(t, r.client.Delete(t.Context(), tried))
}

// as is a client of a user of that name and groups.
func as(t *testing.T, l *testlab.Lab, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, l.Cluster().WriteKubeconfig(path, user, groups...))
	config, err := cluster.LoadRESTConfig(path)
	must(t, err)
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c
}

// gone waits until there is no pod of that name.
func gone(t *testing.T, l *testlab.Lab, ns, name string) {
	t.Helper()
	testlab.WaitFor(t, l.Pods(ns), name+" to be gone", func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.Name == name {
				return false
			}
		}
		return true
	})
}

func policiesAsked(t *testing.T, r *recorder, ns string) {
	t.Helper()
	policy := examplePolicy(ns, "db")
	want(t, r, ns, func() { must(t, r.client.Create(t.Context(), policy)) }, "/policy CREATE evictionpolicies db")
	want(t, r, ns, func() {
		policy.Finalizers = []string{"usher.sh/undo"}
		must(t, r.client.Update(t.Context(), policy))
		policy.Finalizers = nil
		must(t, r.client.Update(t.Context(), policy))
		policy.Status.MemberCount = 3
		must(t, r.client.Status().Update(t.Context(), policy))
	})
	want(t, r, ns, func() {
		policy.Spec.Suspend = true
		must(t, r.client.Update(t.Context(), policy))
	}, "/policy UPDATE evictionpolicies db")
	want(t, r, ns, func() { must(t, r.client.Delete(t.Context(), policy)) })
}

// examplePolicy governs pods labelled app=<name>.
func examplePolicy(ns, name string) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{HTTP: &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://127.0.0.1:1"}}}},
			Members: []v1alpha1.MemberSelector{{
				Role: "replica", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels(name)}, Controllers: []string{simulated},
			}},
			Roles: []v1alpha1.Role{{
				Name: "replica", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict:   v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "green", Reason: "NotGreen", Expression: "false", Message: "not green"}}},
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
			}},
		},
	}
}

// whileDown: what is governed is refused, everything else goes on.
func whileDown(t *testing.T, r *recorder, ns, other string) {
	t.Helper()
	policy := examplePolicy(ns, "db")
	must(t, r.client.Create(t.Context(), policy))
	r.lab.Pod(t, ns, "governed", member)
	r.lab.Pod(t, ns, "plain")
	r.lab.Pod(t, other, "plain")
	r.down(t)
	pods, others := r.lab.Client().CoreV1().Pods(ns), r.lab.Client().CoreV1().Pods(other)

	unanswered(t, "the eviction of a governed pod", evict(t, r.lab.Client(), ns, "governed"))
	unanswered(t, "the eviction of another pod beside it", evict(t, r.lab.Client(), ns, "plain"))
	unanswered(t, "the deletion of a governed pod", pods.Delete(t.Context(), "governed", now))
	must(t, pods.Delete(t.Context(), "plain", now))
	r.lab.Pod(t, ns, "created", member, nowhere)
	must(t, evict(t, r.lab.Client(), other, "plain"))
	r.lab.Pod(t, other, "created")
	must(t, others.Delete(t.Context(), "created", now))

	unanswered(t, "a policy", r.client.Create(t.Context(), examplePolicy(other, "new")))
	must(t, r.client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["usher.sh/undo"]}}`))))
	must(t, r.client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, r.client.Delete(t.Context(), policy))

	// The remedy that docs/admission.md describes.
	_, err := pods.Patch(t.Context(), "governed", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.PolicyLabel), metav1.PatchOptions{})
	must(t, err)
	must(t, pods.Delete(t.Context(), "governed", now))

	must(t, r.lab.Client().CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	gone(t, r.lab, ns, "created")
}

// nowhere keeps a pod from being scheduled, so that no kubelet has a hand in its end.
func nowhere(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "where"} }

func unanswered(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !apierrors.IsInternalError(err) {
		t.Errorf("%s, while no replica answers: %v", what, err)
		return
	}
	t.Logf("%s: %v", what, err)
}
