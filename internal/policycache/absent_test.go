package policycache

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

func newReplacement(name, policy, role, id string, step v1alpha1.ReplacementStep) *v1alpha1.ReplacementRequest {
	return &v1alpha1.ReplacementRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name},
		Spec:       v1alpha1.ReplacementRequestSpec{Source: v1alpha1.ReplacementSource{Name: policy}, Member: v1alpha1.ReplacementMember{Role: role, ID: id}},
		Status:     v1alpha1.ReplacementRequestStatus{Step: step},
	}
}

// A system is asked about members without a pod as well, as long as they are to be replaced: or else it would not know them.
func TestMembersThatAreReplacedWithoutAPod(t *testing.T) {
	policy := newPolicy("db", "db")
	asked := func(objects ...client.Object) []string {
		s := newSetting(t, append(objects, policy, newPod("db-0", "db"))...)
		members, err := s.gatherer.Policies.members(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range members {
			all = append(all, fmt.Sprintf("%s (pod: %t)", m.ID, m.Pod != nil))
		}
		return all
	}
	got := asked(
		newReplacement("a", "db", "node", "db-1", v1alpha1.ReplacementWaiting),
		newReplacement("b", "db", "node", "db-0", v1alpha1.ReplacementRemoving),
		newReplacement("c", "db", "node", "db-2", v1alpha1.ReplacementComplete),
		newReplacement("d", "db", "no-role-of-it", "db-3", ""),
		newReplacement("e", "another", "node", "db-4", ""),
		newReplacement("f", "db", "node", "db-1", ""),
	)
	if diff := cmp.Diff([]string{"db-0 (pod: true)", "db-1 (pod: false)"}, got); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	var many []client.Object
	for i := range mostAbsent + 20 {
		many = append(many, newReplacement(fmt.Sprintf("r%d", i), "db", "node", fmt.Sprintf("n%d", i), ""))
	}
	if got := asked(many...); len(got) != mostAbsent+1 {
		t.Errorf("asked about %d members", len(got))
	}
}
