package governed

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// trial is a namespace whose policy is in mode Audit and lets no pod go.
type trial struct {
	*house

	ns     string
	warned *warnings
	caller kubernetes.Interface
}

// warnings are what the apiserver says beside its answers.
type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// take returns what was said since it was taken last.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.all = nil }()
	return w.all
}

// TestAudit tries a policy that would let nothing go: everything goes, and what would be refused is said. The same policy then holds its
// pods in mode Enforce, and lets go of them again.
func TestAudit(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	s := &trial{house: h, ns: h.lab.Namespace(t), warned: &warnings{}}
	config := h.lab.RESTConfig()
	config.WarningHandler = s.warned
	var err error
	s.caller, err = kubernetes.NewForConfig(config)
	must(t, err)
	truth := newTruth(t)
	policy := examplePolicy(s.ns, "db")
	policy.Spec.Mode = v1alpha1.ModeAudit
	policy.Spec.System.HTTP.Endpoints = []string{truth.server.URL}
	policy.Spec.System.HTTP.Facts = []v1alpha1.Get{{Name: "health", URL: "/health"}}
	policy.Spec.Roles[0].Evict.Rules[0].Expression = "system.health.green"
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	h.statefulSet(t, s.ns, 2)
	s.waitMode(t, v1alpha1.ModeAudit)
	t.Run("what would be refused", s.wouldRefuse)
	t.Run("usher why", s.why)
	t.Run("Enforce", func(t *testing.T) {
		s.to(t, v1alpha1.ModeEnforce)
		refused(t, "an eviction", s.evicts(t, "db-0", false), "not green")
	})
	t.Run("Audit again", func(t *testing.T) {
		s.to(t, v1alpha1.ModeAudit)
		s.leaves(t, "db-0")
	})
	t.Run("no replica answers", func(t *testing.T) {
		h.managers.Kill(t, 0)
		s.warned.take()
		s.leaves(t, "db-1")
		must(t, s.caller.CoreV1().Pods(s.ns).Delete(t.Context(), "db-0", now))
		if said := s.warned.take(); slices.ContainsFunc(said, wouldRefuse) {
			t.Errorf("warned %q", said)
		}
	})
}

const warning = "in mode Audit would have refused this: pod "

func wouldRefuse(text string) bool { return strings.Contains(text, warning) }

// wouldRefuse: a dry run says it, and an eviction, a DELETE and a drain go through and leave an event and a number.
func (s *trial) wouldRefuse(t *testing.T) {
	// The namespace's label takes effect a moment after it was written, and the system is asked about new members a moment later.
	eventually(t, "a warning", func() bool {
		must(t, s.evicts(t, "db-0", true))
		return slices.ContainsFunc(s.warned.take(), func(text string) bool { return wouldRefuse(text) && strings.Contains(text, "not green") })
	})
	s.leaves(t, "db-0")
	if said := s.warned.take(); !slices.ContainsFunc(said, func(text string) bool {
		return strings.HasPrefix(text, "policy "+s.ns+"/db "+warning+s.ns+"/db-0 (replica) may not leave its node yet: ") && strings.Contains(text, "not green")
	}) {
		t.Errorf("warned %q", said)
	}
	must(t, s.caller.CoreV1().Pods(s.ns).Delete(t.Context(), "db-1", now))
	if said := s.warned.take(); !slices.ContainsFunc(said, wouldRefuse) {
		t.Errorf("a DELETE warned %q", said)
	}
	s.lab.WaitReady(t, s.ns, testlab.Labels("db"), 2)
	eventually(t, "an event", func() bool {
		events, err := s.caller.EventsV1().Events(s.ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, e := range events.Items {
			if e.Reason == "WouldRefuse" && e.Regarding.Kind == "Pod" && e.Regarding.Name == "db-0" && wouldRefuse(e.Note) {
				return true
			}
		}
		return false
	})
	if text := s.metrics(t, 0); !strings.Contains(text, `usher_admission_answers_total{answer="WouldRefuse",verb="evict"}`) {
		t.Errorf("not counted: %s", text)
	}
	var requests lifecycle.EvictionRequestList
	must(t, s.lab.Lifecycle(t).List(t.Context(), &requests, client.InNamespace(s.ns)))
	if len(requests.Items) > 0 {
		t.Errorf("requests %+v", requests.Items)
	}
	if status := s.stored(t).Status; len(status.Leaving) > 0 || status.Epoch > 0 || len(s.stored(t).Finalizers) > 0 {
		t.Errorf("status %+v", status)
	}
}

func (s *trial) why(t *testing.T) {
	s.usher(t, "why", "db-0", "-n", s.ns).ends(t, 0, "may be evicted now", "policy "+s.ns+"/db in mode Audit claims it as replica db-0", "in mode Enforce it would be refused:")
	if text := s.kubectl(t, "get", "evp", "-n", s.ns).succeed(t); !strings.Contains(text, "Audit") {
		t.Errorf("kubectl get shows\n%s", text)
	}
}

// evicts tries an eviction by name.
func (s *trial) evicts(t *testing.T, pod string, dry bool) error {
	t.Helper()
	var options metav1.DeleteOptions
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return s.caller.PolicyV1().Evictions(s.ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: pod}, DeleteOptions: &options})
}

// leaves evicts a pod, and waits until another has its name.
func (s *trial) leaves(t *testing.T, pod string) {
	t.Helper()
	before, err := s.caller.CoreV1().Pods(s.ns).Get(t.Context(), pod, metav1.GetOptions{})
	must(t, err)
	must(t, s.evicts(t, pod, false))
	eventually(t, pod+" to be another", func() bool {
		after, err := s.caller.CoreV1().Pods(s.ns).Get(t.Context(), pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
		return err == nil && after.UID != before.UID
	})
	s.lab.WaitReady(t, s.ns, testlab.Labels("db"), 2)
}

func (s *trial) stored(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "db"}, &policy))
	return &policy
}

// to changes the policy's mode, and waits until that is in force.
func (s *trial) to(t *testing.T, mode v1alpha1.PolicyMode) {
	t.Helper()
	must(t, s.client.Patch(t.Context(), s.stored(t), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"`+string(mode)+`"}}`))))
	s.waitMode(t, mode)
	eventually(t, "the mode to be in force", func() bool { return (s.evicts(t, "db-0", true) == nil) == (mode == v1alpha1.ModeAudit) })
	s.warned.take()
}

// waitMode waits until the policy is at work in a mode, and its pods carry the label of that mode alone.
func (s *trial) waitMode(t *testing.T, mode v1alpha1.PolicyMode) {
	t.Helper()
	label, other, reason := v1alpha1.PolicyLabel, v1alpha1.AuditLabel, "Governing"
	if mode == v1alpha1.ModeAudit {
		label, other, reason = other, label, "Auditing"
	}
	s.waitReason(t, s.ns, "db", reason)
	testlab.WaitFor(t, s.lab.Pods(s.ns), "labels of mode "+string(mode), func(all []*corev1.Pod) bool {
		labelled := 0
		for _, pod := range all {
			if _, has := pod.Labels[other]; !has && pod.Labels[label] == "db" {
				labelled++
			}
		}
		return labelled == 2
	})
	namespace, gone := v1alpha1.GovernedLabel, v1alpha1.AuditedLabel
	if mode == v1alpha1.ModeAudit {
		namespace, gone = gone, namespace
	}
	eventually(t, "the namespace's label", func() bool {
		found, err := s.caller.CoreV1().Namespaces().Get(t.Context(), s.ns, metav1.GetOptions{})
		must(t, err)
		_, has := found.Labels[gone]
		return found.Labels[namespace] == "true" && !has
	})
}
