package governed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// house is a lab with managers in it.
type house struct {
	lab      *testlab.Lab
	managers *testlab.Managers
	client   client.Client
	policies rest.Interface
}

func newHouse(t *testing.T, replicas int, options ...testlab.Option) *house {
	t.Helper()
	h := emptyHouse(t, testlab.Start(t, options...))
	h.managers = h.lab.Managers(t, replicas)
	return h
}

func emptyHouse(t *testing.T, l *testlab.Lab) *house {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	config := l.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return &house{lab: l, client: c, policies: l.UsherAPI(t)}
}

// install installs Usher for the managers of the house, as a person does.
func (h *house) install(t *testing.T, flags ...string) {
	t.Helper()
	args := append([]string{"install", "--kubeconfig", h.lab.Kubeconfig(), "--webhook-url", h.managers.URL()}, flags...)
	if out, err := exec.CommandContext(t.Context(), h.lab.Usher(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("installing usher: %v: %s", err, out)
	}
}

// members starts a StatefulSet of n and returns a node with one of its pods.
func (h *house) members(t *testing.T, namespace string, n int) (node, pod string) {
	t.Helper()
	pods := h.statefulSet(t, namespace, n)
	return pods[0].Spec.NodeName, pods[0].Name
}

// statefulSet starts n members on nodes of their own, and one more to go to: tests that run beside each other drain and
// delete their nodes.
func (h *house) statefulSet(t *testing.T, namespace string, n int) []*corev1.Pod {
	t.Helper()
	own := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: h.lab.Nodes(t, n+1)}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{own}}}
	h.lab.StatefulSet(t, namespace, "db", int32(n), func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	})
	return h.lab.WaitReady(t, namespace, testlab.Labels("db"), n)
}

// policy makes a policy over the pods of the StatefulSet, whose members leave when they are excluded and the system is
// safe.
func (h *house) policy(t *testing.T, namespace, name string, system v1alpha1.System, change ...func(*v1alpha1.EvictionPolicy)) *v1alpha1.EvictionPolicy {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.EvictionPolicySpec{
			System: system,
			// Far longer than this system takes on a busy machine: what is not answered in time is asked for again.
			Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: 2 * time.Second}, Timeout: metav1.Duration{Duration: 20 * time.Second}},
			Members: []v1alpha1.MemberSelector{{
				Role: "node", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("db")}, Controllers: []string{simulated},
			}},
			Roles: []v1alpha1.Role{{
				Name: "node", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict: v1alpha1.Evict{
					Rules: []v1alpha1.Rule{
						{Name: "empty", Reason: "HoldsData", Expression: "member.id in system.health.excluded", Message: "{{member.id}} still holds data"},
						{Name: "safe", Reason: "Unsafe", Expression: "system.health.safe", Message: "the database is not safe without {{member.id}}"},
					},
					Prepare: []v1alpha1.Preparation{{Name: "Exclude", When: "!(member.id in system.health.excluded)", Message: "{{member.id}} is being emptied"}},
				},
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
			}},
		},
	}
	for _, f := range change {
		f(policy)
	}
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	return policy
}

// release lets go of a policy's pods at the end of a test, which must not wait for a system that the test has made hang,
// and ends them by force.
func release(t *testing.T, l *testlab.Lab, c client.Client, policy *v1alpha1.EvictionPolicy) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_ = c.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	_ = c.Delete(ctx, policy)
	pods, err := l.Client().CoreV1().Pods(policy.Namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	for i := range pods.Items {
		unlabel := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1alpha1.PolicyLabel+`":null},`+
			`"annotations":{"`+v1alpha1.BreakGlassAnnotation+`":"the test is over"}}}`)) // a manager may just set the label again
		_ = c.Patch(ctx, &pods.Items[i], unlabel)
	}
}

// waitPolicy waits until a policy is as it should be.
func (h *house) waitPolicy(t *testing.T, namespace, name, what string, done func(*v1alpha1.EvictionPolicy) bool) *v1alpha1.EvictionPolicy {
	t.Helper()
	var found *v1alpha1.EvictionPolicy
	source := await.Source[*v1alpha1.EvictionPolicy]{Client: h.policies, Resource: "evictionpolicies", Namespace: namespace}
	defer func() {
		if t.Failed() && found != nil {
			t.Logf("the policy's status is %+v", found.Status)
		}
	}()
	testlab.WaitFor(t, source, what, func(all []*v1alpha1.EvictionPolicy) bool {
		for _, policy := range all {
			if policy.Name == name {
				found = policy
				return done(policy)
			}
		}
		return false
	})
	return found
}

// waitReason waits until the policy's Ready condition has a reason, and returns its message.
func (h *house) waitReason(t *testing.T, namespace, name, reason string) string {
	t.Helper()
	policy := h.waitPolicy(t, namespace, name, "policy "+name+" to be "+reason, func(p *v1alpha1.EvictionPolicy) bool {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == p.Generation
	})
	return meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady).Message
}

// waitSays waits until the policy's Ready condition has a reason and says all of this: with the same reason it may first say
// something else, such as that a Secret may not be read yet.
func (h *house) waitSays(t *testing.T, namespace, name, reason string, texts ...string) {
	t.Helper()
	h.waitPolicy(t, namespace, name, fmt.Sprintf("policy %s to be %s and to say %q", name, reason, texts), func(p *v1alpha1.EvictionPolicy) bool {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == p.Generation &&
			!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(ready.Message, text) })
	})
}

// waitGoverned waits until a policy is at work and n pods carry its label.
func (h *house) waitGoverned(t *testing.T, namespace, name string, n int) {
	t.Helper()
	h.waitReason(t, namespace, name, "Governing")
	h.waitLabelled(t, namespace, name, n)
}

// waitLabelled waits until admission finds n pods of a policy. The namespace is labelled before its pods.
func (h *house) waitLabelled(t *testing.T, namespace, name string, n int) {
	t.Helper()
	testlab.WaitFor(t, h.lab.Pods(namespace), "the pods to be labelled", func(all []*corev1.Pod) bool {
		labelled := 0
		for _, pod := range all {
			if pod.Labels[v1alpha1.PolicyLabel] == name {
				labelled++
			}
		}
		return labelled == n
	})
}

// waitEviction waits until the Eviction of a pod is as it should be.
func (h *house) waitEviction(t *testing.T, namespace, what string, done func(*lifecycle.Eviction) bool) {
	t.Helper()
	testlab.WaitFor(t, h.lab.Lifecycle(t).Evictions(namespace), what, func(all []*lifecycle.Eviction) bool { return slices.ContainsFunc(all, done) })
}

// says reports whether Usher's entry in an Eviction contains a text.
func says(e *lifecycle.Eviction, text string) bool {
	for _, r := range e.Status.Responders {
		if r.Name == "responder.usher.sh/governor" && r.Message != nil && strings.Contains(*r.Message, text) {
			return true
		}
	}
	return false
}

// commandTimeout ends only what hangs.
const commandTimeout = 5 * time.Minute

// command is a running program.
type command struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

// kubectl starts kubectl as the administrator.
func (h *house) kubectl(t *testing.T, args ...string) *command {
	t.Helper()
	c := &command{ended: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	c.cmd = exec.CommandContext(ctx, h.lab.Binary(t, "kubectl"), args...)
	c.cmd.Env = []string{"KUBECONFIG=" + h.lab.Kubeconfig(), "HOME=" + filepath.Dir(h.lab.Kubeconfig()), "PATH=" + os.Getenv("PATH")}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	must(t, c.cmd.Start())
	go func() {
		defer cancel()
		c.ended <- c.cmd.Wait()
	}()
	return c
}

// drain starts draining a node with kubectl.
func (h *house) drain(t *testing.T, node string) *command {
	t.Helper()
	return h.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
}

// succeed waits until the program has ended well, and returns what it printed.
func (c *command) succeed(t *testing.T) string {
	t.Helper()
	if err := <-c.ended; err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(c.cmd.Args[1:], " "), err, c.out.String())
	}
	return c.out.String()
}

// abort ends the program.
func (c *command) abort(t *testing.T) {
	t.Helper()
	must(t, c.cmd.Process.Kill())
	c.fail(t)
}

// fail waits until the program has ended badly, and returns what it printed.
func (c *command) fail(t *testing.T) string {
	t.Helper()
	if err := <-c.ended; err == nil {
		t.Fatalf("%s succeeded:\n%s", strings.Join(c.cmd.Args[1:], " "), c.out.String())
	}
	return c.out.String()
}

// validation is the configuration by which the apiserver asks.
func validation(t *testing.T, h *house) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	var found admissionv1.ValidatingWebhookConfiguration
	must(t, h.client.Get(t.Context(), client.ObjectKey{Name: "usher"}, &found))
	return &found
}
