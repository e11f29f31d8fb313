package histories

import (
	"encoding/json"
	"sync"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/all"
)

// What all histories share never changes.
var roles = builtIn()

func builtIn() []v1alpha1.Role {
	found, err := all.Roles()
	if err != nil {
		panic(err)
	}
	return found
}

type compiled struct {
	policy   *eviction.Policy
	problems []eviction.Problem
}

var memory sync.Map // of compiled, by the policy's spec

// compile remembers: histories have the same few policies.
func compile(spec *v1alpha1.EvictionPolicySpec, roles []v1alpha1.Role, declared eviction.Declaration) (*eviction.Policy, []eviction.Problem) {
	key, err := json.Marshal(spec)
	if err != nil {
		return eviction.Compile(spec, roles, declared)
	}
	if known, ok := memory.Load(string(key)); ok {
		c, _ := known.(compiled)
		return c.policy, c.problems
	}
	policy, problems := eviction.Compile(spec, roles, declared)
	addressees.Store(policy, addressee(&spec.System))
	memory.Store(string(key), compiled{policy, problems})
	return policy, problems
}
