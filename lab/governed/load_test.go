package governed

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// TestLeavesLoad drains a node with a hypervisor, a DaemonSet's pod that stays while its machines leave, and a router that leaves after those.
// The hypervisor is kept empty after the drain, until a person gives the node back.
func TestLeavesLoad(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	namespace, system := h.lab.Namespace(t), newSystem(t)
	nodes := h.lab.Nodes(t, 2)
	h.lab.DaemonSet(t, namespace, "nova", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = nodes[0]
	})
	h.lab.StatefulSet(t, namespace, "router", 1, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = nodes[0]
	})
	nova := h.lab.WaitReady(t, namespace, testlab.Labels("nova"), 1)[0]
	router := h.lab.WaitReady(t, namespace, testlab.Labels("router"), 1)[0]
	h.policy(t, namespace, "cloud", system.spec(), func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Members = []v1alpha1.MemberSelector{
			{Role: "node", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("nova")}, Leaves: v1alpha1.LeavesLoad, Controllers: []string{simulated}},
			{Role: "router", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("router")}, LeavesAfter: []string{"node"}, Controllers: []string{simulated}},
		}
		p.Spec.Roles = append(p.Spec.Roles, v1alpha1.Role{
			Name: "router", System: "http", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone,
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
		})
	})
	h.waitGoverned(t, namespace, "cloud", 2)

	drain := h.usher(t, "drain", nodes[0], "--timeout", "4m")
	h.waitPolicy(t, namespace, "cloud", "the hypervisor to be prepared", prepared(1, v1alpha1.PreparationBegun))
	system.waitAsked(t, "exclude/"+nova.Name)
	h.refusedAs(t, namespace, router.Name, "EarlierRole")
	h.refusedAs(t, namespace, nova.Name, "PodStays")
	system.setSafe(true)
	drain.ends(t, 0, "emptied", "drained after")
	if now := h.uid(t, namespace, nova.Name); now != nova.UID {
		t.Errorf("the pod that stays is another one: %s, was %s", now, nova.UID)
	}
	kept := h.waitPolicy(t, namespace, "cloud", "the hypervisor to be emptied", func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Emptied) == 1 })
	if got := kept.Status.Emptied[0]; got.PodUID != nova.UID || !prepared(1, v1alpha1.PreparationBegun)(kept) {
		t.Errorf("%s is emptied, and %d steps stand", got.PodName, len(kept.Status.Preparations))
	}
	h.usher(t, "why", "pod/"+nova.Name, "-n", namespace).says(t, "emptied, the pod stays")

	h.kubectl(t, "uncordon", nodes[0]).succeed(t)
	h.waitPolicy(t, namespace, "cloud", "the hypervisor to be given back", func(p *v1alpha1.EvictionPolicy) bool {
		return settled(p) && len(p.Status.Emptied) == 0
	})
	if diff := cmp.Diff([]string{"exclude/" + nova.Name, "include/" + nova.Name}, slices.Compact(system.said())); diff != "" {
		t.Errorf("what the system was asked for: %s", diff)
	}

	h.usher(t, "evict", nova.Name, "-n", namespace).ends(t, 0, "is emptied and stays")
	h.usher(t, "evict", nova.Name, "-n", namespace, "--withdraw").ends(t, 0)
	h.waitPolicy(t, namespace, "cloud", "the hypervisor to be given back again", func(p *v1alpha1.EvictionPolicy) bool {
		return settled(p) && len(p.Status.Emptied) == 0
	})
}

// refusedAs asks for a pod's eviction without carrying it out, which is refused for a reason.
func (h *house) refusedAs(t *testing.T, namespace, pod, reason string) {
	t.Helper()
	err := h.lab.Client().PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
	if !apierrors.HasStatusCause(err, metav1.CauseType(reason)) {
		t.Errorf("pod %s: %v, want a refusal as %s", pod, err, reason)
	}
}

// says waits until the program has ended, however it did, and checks what it printed.
func (c *command) says(t *testing.T, text string) {
	t.Helper()
	if err := <-c.ended; err != nil {
		t.Logf("%s: %v", strings.Join(c.cmd.Args[1:], " "), err)
	}
	if !strings.Contains(strings.Join(strings.Fields(c.out.String()), " "), text) {
		t.Errorf("it does not say %q:\n%s", text, c.out.String())
	}
}
