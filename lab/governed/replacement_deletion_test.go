package governed

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// A Deployment's pod that does its work no more goes, and the one that the Deployment makes, under another name, is its successor.
func (h *house) replacementDeletesThePod(t *testing.T) {
	t.Parallel()
	t.Helper()
	ns := h.lab.Namespace(t)
	nodes := h.lab.Nodes(t, 1)
	h.lab.Deployment(t, ns, "web", 2, onlyOn(nodes)) // tests beside it lose theirs
	pods := h.lab.WaitReady(t, ns, testlab.Labels("web"), 2)
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Members: []v1alpha1.MemberSelector{{
				Role: "server", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("web")}, Controllers: []string{simulated},
				Provider: &v1alpha1.Provider{DeletePod: &v1alpha1.DeletePodProvider{}},
			}},
			Roles: []v1alpha1.Role{{
				Name: "server", System: "kubernetes", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone,
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
			}},
		},
	}
	must(t, h.client.Create(t.Context(), policy))
	t.Cleanup(func() { release(t, h.lab, h.client, policy) })
	h.waitReason(t, ns, "web", "Governing") // its pods are not labelled: nothing is asked of the role

	lost := pods[0]
	q := requestFor(ns, "web", lost.Name)
	q.Spec.Member.Role = "server"
	must(t, h.client.Create(t.Context(), q))
	h.waitReplacement(t, ns, q.Name, "the pod to be kept while it is Ready", waitsFor("PredecessorRuns"))
	h.lab.SetReady(t, ns, lost.Name, false)
	q = h.waitReplacement(t, ns, q.Name, "another to take over", isReplaced)
	if s := q.Status.Successor; s == nil || s.PodName == lost.Name || s.PodName == pods[1].Name {
		t.Errorf("the successor is %+v", s)
	}
}
