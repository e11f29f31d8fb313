package eviction

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// orderOfRoles checks that roles leave after others of the policy, and never after themselves.
func (c *compiler) orderOfRoles(spec *v1alpha1.EvictionPolicySpec) {
	members := spec.Members
	before := len(c.problems)
	for i := range members {
		for k, earlier := range members[i].LeavesAfter {
			path := fmt.Sprintf("spec.members[%d].leavesAfter[%d]", i, k)
			switch {
			case earlier == members[i].Role:
				c.report(path, "role %q cannot leave after itself: name another role of the policy", earlier)
			case !slices.ContainsFunc(members, func(m v1alpha1.MemberSelector) bool { return m.Role == earlier }):
				c.report(path, "no entry of spec.members has role %q: name a role that is in this policy", earlier)
			}
		}
	}
	if len(c.problems) > before {
		return
	}
	if circle := snapshot.RoleCircle(spec); circle != nil {
		at := slices.IndexFunc(members, func(m v1alpha1.MemberSelector) bool {
			return m.Role == circle[0] && slices.Contains(m.LeavesAfter, circle[1])
		})
		path := "spec.nodeLock" // its waiter leaves after its holders
		if at >= 0 {
			path = fmt.Sprintf("spec.members[%d].leavesAfter", at)
		}
		c.report(path, "roles wait for each other in a circle, so that none could ever leave: %s; take one of them out",
			strings.Join(circle, " after "))
	}
}
