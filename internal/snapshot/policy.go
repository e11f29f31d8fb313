package snapshot

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Policy is what drains know of an EvictionPolicy in mode Enforce: the order in which its members leave a node, and whose pods stay. Whether one may leave is not
// in it.
type Policy struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Members         []PolicyMember // empty where it is in mode Audit
	Prepares        []types.UID    // pods for whose members steps are under way
	LoadUnread      bool           // an entry whose pods stay has a selector that cannot be used: which pods these are is not known
}

// PolicyMember is an entry of a policy.
type PolicyMember struct {
	Role        string
	Selector    labels.Selector
	LeavesAfter []string // roles; empty where those of the policy wait for each other in a circle
	Load        bool     // the pod stays, and what it carries leaves
}

// Key returns namespace and name.
func (p *Policy) Key() Key { return Key{Namespace: p.Namespace, Name: p.Name} }

// orders reports whether the policy says more of its members than that they are some.
func (p *Policy) orders() bool {
	return slices.ContainsFunc(p.Members, func(m PolicyMember) bool { return len(m.LeavesAfter) > 0 || m.Load })
}

// Membership is what a policy says of a pod.
type Membership struct {
	Policy *Policy
	Entry  *PolicyMember
}

// SetPolicy adds or replaces a policy.
func (c *Cluster) SetPolicy(p *Policy) {
	if c.policies[p.Namespace] == nil {
		c.policies[p.Namespace] = map[string]*Policy{}
	}
	c.policies[p.Namespace][p.Name] = p
}

// Policy returns a policy, or nil.
func (c *Cluster) Policy(key Key) *Policy { return c.policies[key.Namespace][key.Name] }

// DeletePolicy forgets a policy.
func (c *Cluster) DeletePolicy(key Key) {
	if delete(c.policies[key.Namespace], key.Name); len(c.policies[key.Namespace]) == 0 {
		delete(c.policies, key.Namespace)
	}
}

// Policies returns all policies, sorted by namespace and name.
func (c *Cluster) Policies() []*Policy {
	var all []*Policy
	for _, of := range c.policies {
		for _, p := range of {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// MembershipOf returns what the policies of the pod's namespace say of it, by its labels; false where none of them says more than that it is
// a member, or where not exactly one entry selects it. The labels are the word of who may write the pod, and policies that of the
// namespace's owner: what comes of it concerns pods of this namespace alone.
func (c *Cluster) MembershipOf(p *Pod) (Membership, bool) {
	of := c.policies[p.Namespace]
	some := false
	for _, policy := range of {
		some = some || policy.orders()
	}
	if !some {
		return Membership{}, false
	}
	var found Membership
	for _, policy := range of {
		for i := range policy.Members {
			if !policy.Members[i].Selector.Matches(labels.Set(p.Labels)) {
				continue
			}
			if found.Entry != nil {
				return Membership{}, false
			}
			found = Membership{Policy: policy, Entry: &policy.Members[i]}
		}
	}
	return found, found.Entry != nil
}

// Preparing reports whether a step is under way for the pod's member.
func (c *Cluster) Preparing(p *Pod) bool {
	for _, policy := range c.policies[p.Namespace] {
		if slices.Contains(policy.Prepares, p.UID) {
			return true
		}
	}
	return false
}

// Loads reports whether the pod stays by a policy that may govern it, and what it carries leaves. Where several entries select it, one of them is
// enough: none of them says then that the pod may go.
func (c *Cluster) Loads(p *Pod) bool {
	if p.Policy() == "" {
		return false
	}
	for _, policy := range c.policies[p.Namespace] {
		if slices.ContainsFunc(policy.Members, func(m PolicyMember) bool { return m.Load && m.Selector.Matches(labels.Set(p.Labels)) }) {
			return true
		}
	}
	return false
}

// LoadUnread returns the policy that governs the pod by its label, and of which it is not known which pods stay; nil where there is none.
func (c *Cluster) LoadUnread(p *Pod) *Policy {
	for _, policy := range c.policies[p.Namespace] {
		if policy.LoadUnread && p.Policy() == PolicyLabelValue(policy.Name) {
			return policy
		}
	}
	return nil
}

// PolicyLabelValue is the value of PolicyLabel for a policy.
func PolicyLabelValue(policy string) string {
	const longest = 63
	if len(policy) > longest {
		policy = policy[:longest]
	}
	return strings.TrimRight(policy, "-.")
}

// RolesBefore are the roles whose members leave a node before those of an entry of spec.members: those of its leavesAfter, and the holders where its
// role is the waiter of nodeLock.
func RolesBefore(spec *v1alpha1.EvictionPolicySpec, entry int) []string {
	member := &spec.Members[entry]
	before := member.LeavesAfter
	if spec.NodeLock == nil || spec.NodeLock.Waiter != member.Role {
		return before
	}
	for _, holder := range spec.NodeLock.Holders {
		if !slices.Contains(before, holder) {
			before = append(slices.Clip(before), holder)
		}
	}
	return before
}

// RoleCircle returns roles of which each leaves after the next, the first of them again at the end; nil where no role waits for itself so.
func RoleCircle(spec *v1alpha1.EvictionPolicySpec) []string {
	members := spec.Members
	after := map[string][]string{}
	for i := range members {
		after[members[i].Role] = append(after[members[i].Role], RolesBefore(spec, i)...)
	}
	done := map[string]bool{}
	var path []string
	var visit func(role string) []string
	visit = func(role string) []string {
		if at := slices.Index(path, role); at >= 0 {
			return append(slices.Clone(path[at:]), role)
		}
		if done[role] {
			return nil
		}
		path = append(path, role)
		for _, earlier := range after[role] {
			if circle := visit(earlier); circle != nil {
				return circle
			}
		}
		path, done[role] = path[:len(path)-1], true
		return nil
	}
	for i := range members {
		if circle := visit(members[i].Role); circle != nil {
			return circle
		}
	}
	return nil
}
