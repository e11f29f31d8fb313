package snapshot

import (
	"cmp"
	"maps"
	"slices"
)

// RoleOrder is the order in which the members of a policy leave nodes that they are on.
type RoleOrder struct {
	Policy *Policy
	// Roles are sorted by name. Those that neither wait for another nor are waited for are not among them.
	Roles []OrderedRole
}

// OrderedRole is a role of a RoleOrder.
type OrderedRole struct {
	Role string
	// After are the roles whose members leave before, on a node where there are some of both; sorted.
	After []string
	Pods  []*Pod // of the role, on the nodes
	Load  bool   // they stay, and what they carry leaves
}

// RoleOrders returns the orders on nodes by leavesAfter and nodeLock, sorted by policy; none where no member on them waits for another.
func (c *Cluster) RoleOrders(nodes []string) []RoleOrder {
	found := map[Key]map[string]*OrderedRole{}
	for _, name := range nodes {
		c.orderOn(name, found)
	}
	var all []RoleOrder
	for _, policy := range c.Policies() {
		order := RoleOrder{Policy: policy, Roles: related(found[policy.Key()])}
		if len(order.Roles) > 0 {
			all = append(all, order)
		}
	}
	return all
}

// orderOn adds the members on a node, by policy and role.
func (c *Cluster) orderOn(node string, found map[Key]map[string]*OrderedRole) {
	type entry struct {
		key Key
		of  *PolicyMember
	}
	here := map[Key][]string{}
	var waiting []entry
	for _, pod := range c.PodsOn(node) {
		member, some := c.MembershipOf(pod)
		if !some || pod.Finished() {
			continue
		}
		key, role := member.Policy.Key(), member.Entry.Role
		at := orderedRole(found, key, role)
		at.Pods, at.Load = append(at.Pods, pod), at.Load || member.Entry.Load
		here[key], waiting = append(here[key], role), append(waiting, entry{key, member.Entry})
	}
	for _, w := range waiting {
		found[w.key][w.of.Role].await(w.of.LeavesAfter, here[w.key])
	}
}

// orderedRole is a policy's role, made where it is not there.
func orderedRole(found map[Key]map[string]*OrderedRole, policy Key, role string) *OrderedRole {
	if found[policy] == nil {
		found[policy] = map[string]*OrderedRole{}
	}
	if found[policy][role] == nil {
		found[policy][role] = &OrderedRole{Role: role}
	}
	return found[policy][role]
}

// await adds those of earlier roles that are on a node.
func (r *OrderedRole) await(earlier, here []string) {
	for _, role := range earlier {
		if slices.Contains(here, role) && !slices.Contains(r.After, role) {
			r.After = append(r.After, role)
		}
	}
}

// related are the roles that wait for another or are waited for.
func related(roles map[string]*OrderedRole) []OrderedRole {
	awaited := map[string]bool{}
	for _, r := range roles {
		slices.Sort(r.After)
		for _, earlier := range r.After {
			awaited[earlier] = true
		}
	}
	var all []OrderedRole
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		r := roles[name]
		if !awaited[name] && len(r.After) == 0 {
			continue
		}
		slices.SortStableFunc(r.Pods, func(a, b *Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
		all = append(all, *r)
	}
	return all
}
