package agency

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApart(t *testing.T) {
	answer := func(id string, pool ...string) Config {
		c := Config{ID: id, Pool: map[string]string{}}
		for _, other := range pool {
			c.Pool[other] = "tcp://" + other + ":8529"
		}
		return c
	}
	a, b, c := answer("a", "a", "b", "c"), answer("b", "a", "b", "c"), answer("c", "a", "b", "c")
	x, y := answer("x", "x", "y", "z"), answer("y", "x", "y", "z")
	for name, test := range map[string]struct {
		configs []Config
		others  []string
	}{
		"one agency":                              {configs: []Config{a, b, c}},
		"a stranger at the third address":         {configs: []Config{a, b, x}, others: []string{"x"}},
		"the stranger answers first":              {configs: []Config{x, a, b}, others: []string{"x"}},
		"one against one":                         {configs: []Config{a, x}},
		"two against two":                         {configs: []Config{a, b, x, y}},
		"an agent that knows itself alone so far": {configs: []Config{a, b, answer("c", "c")}},
		"one of two that name each other one way": {configs: []Config{answer("a", "a"), answer("b", "a", "b"), x}, others: []string{"x"}},
		"the same agent at two addresses":         {configs: []Config{a, a, x}, others: []string{"x"}},
		"no agent":                                {},
	} {
		ours, others := Apart(test.configs)
		var ids []string
		for _, other := range others {
			ids = append(ids, other.ID)
		}
		if diff := cmp.Diff(test.others, ids); diff != "" || len(ours)+len(others) != len(test.configs) {
			t.Errorf("%s: others (-want +got):\n%s", name, diff)
		}
		if slices.ContainsFunc(ours, func(c Config) bool { return slices.Contains(test.others, c.ID) }) {
			t.Errorf("%s: %v are kept", name, test.others)
		}
	}
}
