package eviction

import "testing"

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
