package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

// Of all steps for lost nodes those of the node or of the pod that is asked about are shown, each where it belongs and as this caller types its remedy.
func TestLostStepsThatAreMeant(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	step := func(node, message string) v1alpha1.PreparationStatus {
		return v1alpha1.PreparationStatus{
			MemberRef: v1alpha1.MemberRef{Role: "vm", ID: node, Node: node, PodName: "vm-" + node}, Name: "Evacuate", For: v1alpha1.ForLost,
			State: v1alpha1.PreparationBegun, Message: message, StartTime: metav1.NewTime(noon.Add(-time.Minute)), LastRequestTime: noon,
		}
	}
	policies := []v1alpha1.EvictionPolicy{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack", Name: "cloud"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack", Name: "held"}, Spec: v1alpha1.EvictionPolicySpec{Suspend: true}},
	}
	policies[0].Status.Preparations = []v1alpha1.PreparationStatus{step("n7", ""), step("n8", "evacuating")}
	policies[1].Status.Preparations = []v1alpha1.PreparationStatus{step("n7", "evacuating")}
	o := &whyOptions{commands: show.Commands{Flags: []string{"--context=lab"}}}
	steps, done := o.lostSteps(policies, func(ref *v1alpha1.MemberRef) bool { return ref.Node == "n7" })
	want := []drain.Blocker{{
		Reason: "PreparationPending", Node: "n7", Since: noon.Add(-time.Minute),
		Message: "Evacuate for vm n7 of policy openstack/held, for its lost node: nothing is asked for, since the policy is suspended",
		Remedy:  `kubectl --context=lab patch evictionpolicy held -n openstack --type merge -p '{"spec":{"suspend":false}}'`,
	}}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Evacuate for vm n7 of policy openstack/cloud, for its lost node: done; it stands until the node answers again"}, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if steps, done := o.lostSteps(policies, func(*v1alpha1.MemberRef) bool { return false }); len(steps)+len(done) > 0 {
		t.Errorf("%v, %v", steps, done)
	}
}
