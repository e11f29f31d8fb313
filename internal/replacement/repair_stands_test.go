package replacement

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// A request of repair is founded by the condition for which it was made, as long as the policy has it repair members.
func TestUnfounded(t *testing.T) {
	const gone, off = "what was wrong", "repair has requested"
	taint := func(in *RepairInput) {
		in.Policy.Spec.Repair.Taints = []v1alpha1.RepairTaint{{Key: "*", After: &metav1.Duration{}}}
		in.Policy.Spec.Repair.TaintedAfter = &metav1.Duration{Duration: time.Hour}
		in.Nodes["n1"].Ready, in.Nodes["n1"].Taints = false, []corev1.Taint{{Key: "example.com/broken"}}
	}
	untaint := func(in *RepairInput) { in.Nodes["n1"].Taints = nil }
	for name, c := range map[string]struct {
		wrong func(*RepairInput)
		later []func(*RepairInput) // each half an hour after the one before
		want  string
	}{
		"it stands":                     {pending(1), []func(*RepairInput){pending(1)}, ""},
		"its member is well":            {pending(1), []func(*RepairInput){well(1)}, gone},
		"… and fails again":             {pending(1), []func(*RepairInput){well(1), pending(1)}, gone},
		"… for as long again":           {pending(1), []func(*RepairInput){well(1), pending(1), pending(1), pending(1)}, gone},
		"its member lacks a pod by now": {pending(1), []func(*RepairInput){func(in *RepairInput) { in.Members[1].Pod = nil }}, ""},
		"repair is disabled":            {pending(1), []func(*RepairInput){func(in *RepairInput) { in.Policy.Spec.Repair.Mode = v1alpha1.RepairDisabled }}, off},
		"another condition counts": {pending(1), []func(*RepairInput){func(in *RepairInput) {
			in.Policy.Spec.Repair.UnhealthyConditions = []v1alpha1.MemberConditionType{"PodFailing"}
		}}, gone},
		"it is to stand for longer": {pending(1), []func(*RepairInput){func(in *RepairInput) {
			in.Policy.Spec.Repair.UnhealthyAfter = &metav1.Duration{Duration: 3 * time.Hour}
		}}, gone},
		"its node is tainted":         {taint, []func(*RepairInput){taint}, ""},
		"… and not any more":          {taint, []func(*RepairInput){untaint, untaint}, ""},
		"… and it is on another node": {taint, []func(*RepairInput){untaint, well(1)}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			in := repaired()
			then(&in, 0, c.wrong)
			if got := then(&in, time.Hour, c.wrong); len(got.Requests) != 1 {
				t.Fatalf("%+v", got)
			}
			request := in.Requests[0]
			if why := Unfounded(in.Policy, &request, in.Now); why != "" {
				t.Errorf("when it is made: %s", why)
			}
			for _, change := range c.later {
				then(&in, 30*time.Minute, change)
			}
			if why := Unfounded(in.Policy, &request, in.Now); len(why) < len(c.want) || why[:len(c.want)] != c.want || c.want == "" && why != "" {
				t.Errorf("%q, want %q", why, c.want)
			}
			if request.Spec.Requester = "person.usher.sh/anna"; Unfounded(in.Policy, &request, in.Now) != "" {
				t.Error("the request of a person has no reason")
			}
		})
	}
	in := repaired()
	request := v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	request.Spec.Requester = RepairRequester
	if why := Unfounded(in.Policy, &request, noon.Add(time.Second)); why != "" {
		t.Errorf("before the status says what is wrong: %s", why)
	}
	if in.Policy.Spec.Repair = nil; Unfounded(in.Policy, &request, noon) == "" {
		t.Error("there is no spec.repair")
	}
}

// A member that fails once more after a request of repair ended has another made for it, after as long again.
func TestRepairAfterItsRequestEnded(t *testing.T) {
	in := repaired()
	then(&in, 0, pending(1))
	first := then(&in, time.Hour).Requests[0].Name
	then(&in, 30*time.Minute, well(1))
	in.Requests[0].Status.Step = v1alpha1.ReplacementCancelled
	if got := then(&in, 30*time.Minute, pending(1)); len(got.Requests) > 0 {
		t.Fatalf("at once: %+v", got.Requests)
	}
	if got := then(&in, time.Hour); len(got.Requests) != 1 || got.Requests[0].Name == first {
		t.Errorf("after an hour: %+v", got)
	}
}
