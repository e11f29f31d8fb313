package eviction

import (
	"strings"
	"testing"

	"usher.sh/usher/internal/snapshot"
)

// A member whose role asks nothing may always go: its DELETE must not depend on an answer.
func TestGuardedBy(t *testing.T) {
	for name, c := range map[string]struct {
		role   string
		change func(*Input)
		want   string
	}{
		"a role with rules":                    {role: "store", want: "db"},
		"a role that asks nothing":             {role: "router"},
		"the same, suspended":                  {role: "router", change: func(in *Input) { in.Policies[0].Policy.suspended = true }, want: "db"},
		"the same, of a policy with problems":  {role: "router", change: func(in *Input) { in.Policies[0].Policy.problems = []Problem{{}} }, want: "db"},
		"the same, claimed twice":              {role: "router", change: func(in *Input) { in.Policies = append(in.Policies, in.Policies[0]) }, want: "db"},
		"the same, with members one at a time": {role: "router", change: func(in *Input) { in.Policies[0].Policy.entries[1].role.atOnce = 1 }, want: "db"},
		"a role that is not known":             {role: "router", change: func(in *Input) { in.Policies[0].Policy.entries[1].role = nil }, want: "db"},
		"no policy selects it":                 {role: "none"},
		"a policy of another namespace":        {role: "store", change: func(in *Input) { in.Policies[0].Key.Namespace = "else" }},
	} {
		in := world(t)
		in.Pod = toyPod("p", c.role)
		if c.change != nil {
			c.change(&in)
		}
		if got := GuardedBy(in.Policies, in.Pod); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An id is kept of every member, and written into the policy's status.
func TestIDsAreBounded(t *testing.T) {
	spec := toySpec()
	spec.Members[0].ID = "pod.annotations['id']"
	in := world(t)
	in.Policies[0].Policy = compiled(t, spec)
	for _, c := range []struct {
		bytes int
		valid bool
	}{{mostID, true}, {mostID + 1, false}} {
		in.Pod.Annotations = map[string]string{"id": strings.Repeat("x", c.bytes)}
		if claim := Claims(in.Policies, in.Pod)[0]; (claim.Error == "") != c.valid || (len(claim.Member) == c.bytes) != c.valid {
			t.Errorf("an id of %d bytes: %q", c.bytes, claim.Error)
		}
	}
}

// A pod that is listed twice, because two entries select it, is one member, as it was listed last.
func TestRosterListsAPodOnce(t *testing.T) {
	in := world(t)
	roster := NewRoster(in.Policies[0], []*snapshot.Pod{in.Pod})
	crashed := *in.Pod
	crashed.Ready = false
	roster.Add(in.Policies[0], &crashed)
	if len(roster.members) != 1 || roster.members[in.Pod.UID].ready {
		t.Errorf("members %+v", roster.members)
	}
}
