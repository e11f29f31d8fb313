package eviction

import (
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Policy is a compiled EvictionPolicy. It is never nil after Compile: one with problems still claims its pods, so that
// they are blocked rather than forgotten. It may be used by several goroutines at once.
type Policy struct {
	problems []Problem
	maxAge   time.Duration
}

// Problem is a mistake in a policy.
type Problem struct {
	Path    string // "spec.roles[0].evict.rules[2].expression"
	Message string // a sentence
}

// Compile checks and compiles a policy. Roles are the built-in ones; schema is that of the policy's system; steps are the
// preparations that the system knows, with a sentence each. The steps and facts of an http system are taken from the spec.
func Compile(spec *v1alpha1.EvictionPolicySpec, roles []v1alpha1.Role, schema Schema, steps map[string]string) (*Policy, []Problem) {
	return &Policy{}, nil
}

// Problems returns what Compile found.
func (p *Policy) Problems() []Problem { return p.problems }

// MaxAge is how old evidence may be when it decides.
func (p *Policy) MaxAge() time.Duration { return p.maxAge }

// Declared is a policy as it stands in the cluster.
type Declared struct {
	Key     snapshot.Key
	Version string // resource version of the object that Status was read from
	Policy  *Policy
	Status  *v1alpha1.EvictionPolicyStatus
}

// Claim says that an entry of a policy claims a pod.
type Claim struct {
	Policy snapshot.Key
	Entry  int            // index in spec.members
	Role   *v1alpha1.Role // nil where no role has the entry's name
	Member string         // id, "" if Error is set
	Error  string         // why the id cannot be told
}

// Claims returns the claims of every policy in the pod's namespace on it, in the order of policies and entries.
func Claims(policies []Declared, pod *snapshot.Pod) []Claim { return nil }

// Claim returns the policy's first claim on the pod. Policy is left empty in it.
func (p *Policy) Claim(pod *snapshot.Pod) (Claim, bool) { return Claim{}, false }
