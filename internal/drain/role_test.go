package drain_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// inRole is a pod that policy cloud has in a role.
func inRole(role string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) {
		p.Labels = map[string]string{v1alpha1.PolicyLabel: "cloud", "role": role}
	}
}

// ungovernedRole is one of a role that asks nothing, so that it has no label.
func ungovernedRole(role string) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { p.Labels = map[string]string{"role": role} }
}

// roles is policy cloud, with what each role leaves after.
func roles(members map[string][]string) fact {
	policy := &snapshot.Policy{Namespace: "default", Name: "cloud", UID: "uid-cloud"}
	for role, after := range members {
		policy.Members = append(policy.Members, snapshot.PolicyMember{
			Role: role, Selector: labels.SelectorFromSet(labels.Set{"role": role}), LeavesAfter: after,
		})
	}
	return func(c *snapshot.Cluster) { c.SetPolicy(policy) }
}

// elsewhere puts a pod into another namespace.
func elsewhere(p *snapshot.Pod) { p.Namespace = "other" }

// The order of roles goes before priorities and annotations, in both directions, and over several roles.
func TestRolesLeaveInTheirOrder(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), roles(map[string][]string{"router": {"hypervisor"}, "network": {"router", "hypervisor"}, "hypervisor": nil}),
		pod("net", on("a"), inRole("network"), order(-5)),
		pod("rt", on("a"), inRole("router")),
		pod("vm", on("a"), inRole("hypervisor"), priority(critical), order(3)))
	for _, name := range []string{"vm", "rt", "net"} {
		s.expect("ask " + name)
		s.answer(answers.Accepted)
		s.then(time.Millisecond, askedBy(me, name), evictionOf(name, "responder.usher.sh/governor", "making it safe"))
		s.expect()
		s.then(time.Millisecond, gone(name))
	}
	s.expect("mark a drained")
}

func TestEarlierRolesAreNamed(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), roles(map[string][]string{"router": {"hypervisor"}, "hypervisor": nil}),
		pod("rt", on("a"), inRole("router")),
		pod("vm-0", on("a"), inRole("hypervisor")), pod("vm-1", on("a"), inRole("hypervisor")))
	s.expect("ask vm-0", "ask vm-1")
	s.holds("rt: EarlierRole")
	same(t, "message", "waits for vm-0 of role hypervisor and 1 more pod, which policy cloud has leave first (leavesAfter)", s.status("rt").Blockers[0].Message)
	same(t, "remedy", "wait, while nothing moves no longer than until 12:05:00; or usher why pod/vm-0 -n default", s.status("rt").Blockers[0].Remedy)
}

// A role that cannot go holds no other for longer than a wave does: the verdict of the later one says on what it waits.
func TestEarlierRolesAreNotAwaitedForEver(t *testing.T) {
	never := evictionOf("vm", "responder.usher.sh/governor", "Never: it is alone")
	policy := roles(map[string][]string{"router": {"hypervisor"}, "hypervisor": nil})
	s := tell(t, ask("a"), node("a", ours), policy, pod("rt", on("a"), inRole("router")), pod("vm", on("a"), inRole("hypervisor")), askedBy(me, "vm"), never)
	s.expect("ask rt")

	s = tell(t, ask("a"), node("a", ours), policy, pod("rt", on("a"), inRole("router")), pod("vm", on("a"), inRole("hypervisor")), askedBy(me, "vm"),
		evictionOf("vm", "responder.usher.sh/governor", "it holds 3 machines"))
	s.expect()
	s.then(5*time.Minute, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect("ask rt")
}

// A role that leaves after one of a DaemonSet, whose pods leave last, waits no longer for what runs on the node than others do for earlier waves.
func TestRolesAfterDaemonSetsAreNotHeldForEver(t *testing.T) {
	s := tell(t, asked(force, evictDaemons), node("a", ours), roles(map[string][]string{"late": {"agent"}, "agent": nil}), daemonSet("agent"),
		pod("agent-1", on("a"), ofDaemon("agent"), inRole("agent")), pod("late", on("a"), inRole("late")),
		pod("held", on("a"), of("held")), budget("held", 1, 1, 1))
	s.expect()
	s.then(5*time.Minute, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect("ask late")
}

// Who may write a pod's labels, or a policy, puts pods of that namespace in order, and no others.
func TestRolesOrderTheirNamespaceOnly(t *testing.T) {
	policy := roles(map[string][]string{"router": {"hypervisor"}, "hypervisor": nil})
	cases := []struct {
		name  string
		facts []fact
		want  []string
	}{
		{"of another namespace", []fact{pod("rt", on("a"), inRole("router"), elsewhere), pod("vm", on("a"), inRole("hypervisor"))}, []string{"ask vm", "ask rt"}},
		{"of a role that asks nothing", []fact{pod("rt", on("a"), inRole("router")), pod("vm", on("a"), ungovernedRole("hypervisor"))}, []string{"evict vm"}},
		{"on another node", []fact{pod("rt", on("a"), inRole("router")), node("b"), pod("vm", on("b"), inRole("hypervisor"))}, []string{"ask rt"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tell(t, ask("a"), all(append(c.facts, node("a", ours), policy)...)).expect(c.want...)
		})
	}
	twice := func(c *snapshot.Cluster) {
		c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "second", UID: types.UID("uid-2"), Members: []snapshot.PolicyMember{
			{Role: "x", Selector: labels.SelectorFromSet(labels.Set{"role": "router"})},
		}})
	}
	tell(t, ask("a"), node("a", ours), policy, twice, pod("rt", on("a"), inRole("router")), pod("vm", on("a"), inRole("hypervisor"))).expect("ask rt", "ask vm")
}
