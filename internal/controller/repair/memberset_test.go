package repair

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// Repair passes over the members for which a zone is under maintenance, and over no others of that zone.
func TestNote(t *testing.T) {
	for name, test := range map[string]struct {
		maintenance *v1alpha1.ZoneMaintenance
		want        []string
	}{
		"none is": {nil, []string{"", ""}},
		"one is waited for": {
			&v1alpha1.ZoneMaintenance{Zone: "z1", Members: []v1alpha1.MaintainedMember{{ID: "db-2", PodUID: "u"}}}, []string{"", "z1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			members := []replacement.Seen{{MemberRef: v1alpha1.MemberRef{ID: "db-1"}}, {MemberRef: v1alpha1.MemberRef{ID: "db-2"}}}
			note(test.maintenance, members)
			if diff := cmp.Diff(test.want, []string{members[0].Maintained, members[1].Maintained}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
