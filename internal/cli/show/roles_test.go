package show

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// What is done for a member whose node is off is in the words of its role, also on a narrow terminal. A role that says nothing of it goes by its rules of replacement.
func TestRoleOfANodeThatIsOff(t *testing.T) {
	evacuate := v1alpha1.Preparation{Name: "EvacuateServers", When: "member.up ||\n  member.left > 0", Message: "evacuating"}
	const (
		title   = "What Usher has the system do once its node is proven off"
		nothing = "Once its node is proven off its pod may be removed: nothing is to be done for it."
	)
	for name, c := range map[string]struct {
		lost  *v1alpha1.Lost
		width int
		want  []string
	}{
		"it says nothing": {nil, 0, nil},
		"nothing is done": {&v1alpha1.Lost{}, 0, []string{"", nothing}},
		"… and is narrow": {&v1alpha1.Lost{}, 40, []string{"", "Once its node is proven off its pod may", "be removed: nothing is to be done for", "it."}},
		"a step": {&v1alpha1.Lost{Prepare: []v1alpha1.Preparation{evacuate}}, 0, []string{
			"", title, "  EvacuateServers", "    when member.up || member.left > 0",
		}},
		"… and is narrow as well": {&v1alpha1.Lost{Prepare: []v1alpha1.Preparation{evacuate}}, 24, []string{
			"", title, "  EvacuateServers", "    when member.up ||", "    member.left > 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			role := Role{Name: "nova-compute", System: "openstack", Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone}, Lost: c.lost}
			const last = "May be replaced by no other member"
			_, got, _ := strings.Cut(strings.Join(role.Lines(c.width, Paint{}), "\n"), last)
			want := strings.Join(append([]string{""}, c.want...), "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
