package governed

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

const (
	agentLabel  = "maintenance.example.com/agent"
	agentLocks  = "lock.example.com"
	foreignLock = agentLocks + "/nova-compute"
	lockAccount = "neutron-usher"
)

// lockedNode is a node with a waiter and a holder of a policy whose nodeLock is written as a ServiceAccount of its namespace.
type lockedNode struct {
	*house

	ns, node string
}

// TestNodeLocks has managers with exactly the rights that usher install gives them label and lock a node as a ServiceAccount, once the namespace has bound the role for
// that and an admin of the cluster has let the ServiceAccount patch nodes.
func TestNodeLocks(t *testing.T) {
	t.Parallel()
	h := emptyHouse(t, testlab.Start(t))
	h.managers = h.lab.Managers(t, 2)
	h.install(t)
	l := &lockedNode{house: h, ns: h.lab.Namespace(t), node: h.lab.Nodes(t, 1)[0]}
	l.pod(t, "agent", "agent")
	l.pod(t, "router", "router")
	h.lab.WaitReady(t, l.ns, nil, 2)
	_, err := h.lab.Client().CoreV1().ServiceAccounts(l.ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: lockAccount}}, metav1.CreateOptions{})
	must(t, err)
	for _, step := range []struct {
		name string
		does func(*testing.T)
	}{
		{"is refused to who may not patch nodes", l.isRefused},
		{"says which right is missing", l.saysWhichRightIsMissing},
		{"locks the node", l.locks},
		{"waits for another's lock", l.waitsForAnothers},
		{"takes its locks off with the policy", l.unlocks},
	} {
		if !t.Run(step.name, step.does) {
			return
		}
	}
}

// pod makes a pod of a role on the node, as a DaemonSet does: by its name, so that no affinity is asked for.
func (l *lockedNode) pod(t *testing.T, name, role string) {
	t.Helper()
	l.lab.Pod(t, l.ns, name, func(p *corev1.Pod) {
		p.Labels, p.Spec.NodeName = testlab.Labels(role), l.node
	})
}

func (l *lockedNode) policy() *v1alpha1.EvictionPolicy {
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "neutron"},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}}, ServiceAccountName: lockAccount,
			NodeLock: &v1alpha1.NodeLock{StateLabel: agentLabel, LockPrefix: agentLocks, Holders: []string{"router"}, Waiter: "agent"},
		},
	}
	for _, role := range []string{"agent", "router"} {
		policy.Spec.Members = append(policy.Spec.Members, v1alpha1.MemberSelector{Role: role, Selector: metav1.LabelSelector{MatchLabels: testlab.Labels(role)}, Controllers: []string{simulated}})
		policy.Spec.Roles = append(policy.Spec.Roles, v1alpha1.Role{
			Name: role, System: "kubernetes", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
			Evict: v1alpha1.Evict{Settle: &metav1.Duration{}},
		})
	}
	return policy
}

// isRefused: what the owner of a namespace writes acts on no nodes.
func (l *lockedNode) isRefused(t *testing.T) {
	t.Helper()
	config, _ := l.lab.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"usher.sh"}, Resources: []string{"evictionpolicies"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	})
	config.WarningHandler = rest.NoWarnings{}
	tenant, err := client.New(config, client.Options{Scheme: l.client.Scheme()})
	must(t, err)
	if err := tenant.Create(t.Context(), l.policy()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("the policy of one who may not patch nodes: %v", err)
	}
	must(t, l.client.Create(t.Context(), l.policy()))
	t.Cleanup(func() {
		if t.Failed() {
			release(t, l.lab, l.client, l.policy())
		}
	})
}

// saysWhichRightIsMissing: first that to act as the ServiceAccount, which the remedy gives, and then that of the ServiceAccount, which an admin gives as the docs have it. Nothing
// is written until then.
func (l *lockedNode) saysWhichRightIsMissing(t *testing.T) {
	t.Helper()
	bind := l.blocked(t, "impersonate")
	want := "kubectl create rolebinding usher-node-locks-impersonate -n " + l.ns + " --clusterrole=usher-node-locks-impersonate --serviceaccount=usher-system:usher-manager"
	if bind.Remedy != want {
		t.Fatalf("the remedy is %q, want %q", bind.Remedy, want)
	}
	l.kubectl(t, strings.Fields(bind.Remedy)[1:]...).succeed(t)
	patch := l.blocked(t, `cannot patch resource "nodes"`)
	if want := "have an admin of the cluster give ServiceAccount " + lockAccount + " of namespace " + l.ns + " the verb patch on nodes"; patch.Remedy != want {
		t.Fatalf("the remedy is %q, want %q", patch.Remedy, want)
	}
	if node := l.found(t); node.Labels[agentLabel] != "" || len(l.locksOn(node)) > 0 {
		t.Errorf("the node is written without the right: label %q, locks %q", node.Labels[agentLabel], l.locksOn(node))
	}
	role := l.ns + "-" + lockAccount
	l.kubectl(t, "create", "clusterrole", role, "--verb=patch", "--resource=nodes").succeed(t)
	l.kubectl(t, "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+l.ns+":"+lockAccount).succeed(t)
}

// blocked waits until the policy's status says that writes are refused in these words, and returns what it says.
func (l *lockedNode) blocked(t *testing.T, said string) v1alpha1.NodeLockBlocker {
	t.Helper()
	var found v1alpha1.NodeLockBlocker
	l.waitPolicy(t, l.ns, "neutron", "status.nodeLock to say "+said, func(p *v1alpha1.EvictionPolicy) bool {
		if p.Status.NodeLock == nil || len(p.Status.NodeLock.Blockers) != 1 {
			return false
		}
		found = p.Status.NodeLock.Blockers[0]
		return strings.Contains(found.Message, said)
	})
	if found.Reason != "WriteRefused" || !strings.HasPrefix(found.Message, "label and locks of nodes cannot be written; it waits until they can: ") {
		t.Errorf("the blocker is %+v", found)
	}
	return found
}

func (l *lockedNode) found(t *testing.T) *corev1.Node {
	t.Helper()
	node, err := l.lab.Client().CoreV1().Nodes().Get(t.Context(), l.node, metav1.GetOptions{})
	must(t, err)
	return node
}

func (l *lockedNode) locksOn(node *corev1.Node) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(node.Annotations)), func(key string) bool { return !strings.HasPrefix(key, agentLocks+"/") })
}

// waitNode waits until the node has a label, and locks in their order.
func (l *lockedNode) waitNode(t *testing.T, what, label string, locks ...string) {
	t.Helper()
	testlab.WaitFor(t, l.lab.AllNodes(), what, func(all []*corev1.Node) bool {
		return slices.ContainsFunc(all, func(n *corev1.Node) bool {
			return n.Name == l.node && n.Labels[agentLabel] == label && slices.Equal(l.locksOn(n), locks)
		})
	})
}

func (l *lockedNode) own() string {
	return agentLocks + "/" + snapshot.NodeLockName(snapshot.Key{Namespace: l.ns, Name: "neutron"}, "router")
}

func (l *lockedNode) locks(t *testing.T) {
	t.Helper()
	before := l.found(t)
	l.waitNode(t, "the node to be labelled and locked", v1alpha1.NodeLockServes, l.own())
	l.waitPolicy(t, l.ns, "neutron", "nothing to be refused", func(p *v1alpha1.EvictionPolicy) bool { return p.Status.NodeLock == nil })
	after := l.found(t)
	delete(after.Labels, agentLabel)
	if !maps.Equal(before.Labels, after.Labels) || len(before.Spec.Taints) != len(after.Spec.Taints) || after.Spec.Unschedulable {
		t.Errorf("something else of the node is written: %v, %+v", after.Labels, after.Spec)
	}
}

// waitsForAnothers: an eviction of the waiter is refused, and has its holders leave. It goes once another operator's lock is off as well, by the command that the blocker has.
func (l *lockedNode) waitsForAnothers(t *testing.T) {
	t.Helper()
	l.kubectl(t, "annotate", "node", l.node, foreignLock+"=").succeed(t)
	evict := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "agent"}}
	if err := l.lab.Client().CoreV1().Pods(l.ns).EvictV1(t.Context(), evict); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("the eviction of the waiter: %v", err)
	}
	testlab.WaitFor(t, l.lab.Pods(l.ns), "the holder to leave", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == "router" })
	})
	l.waitNode(t, "the label to stay and the policy's lock to go", v1alpha1.NodeLockLeaves, foreignLock)
	l.waitEviction(t, l.ns, "the eviction to name another's lock, and how it is taken off", func(e *lifecycle.Eviction) bool {
		return says(e, "node "+l.node+" has locks of what needs it there: "+foreignLock) && says(e, "kubectl annotate node "+l.node+" "+foreignLock+"-")
	})
	l.lab.WaitReady(t, l.ns, testlab.Labels("agent"), 1)
	l.kubectl(t, "annotate", "node", l.node, foreignLock+"-").succeed(t)
	testlab.WaitFor(t, l.lab.Pods(l.ns), "the waiter to leave", func(all []*corev1.Pod) bool { return len(all) == 0 })
	l.waitNode(t, "the label to stay", v1alpha1.NodeLockLeaves)
}

// unlocks: the lock of a holder that has come goes with the policy, and the label stays.
func (l *lockedNode) unlocks(t *testing.T) {
	t.Helper()
	l.pod(t, "agent-again", "agent")
	l.waitNode(t, "the waiter that is back to serve", v1alpha1.NodeLockServes)
	l.pod(t, "router-again", "router")
	l.waitNode(t, "the next holder to lock the node", v1alpha1.NodeLockServes, l.own())
	must(t, l.client.Delete(t.Context(), l.policy()))
	l.waitNode(t, "the lock to go with the policy", v1alpha1.NodeLockServes)
	testlab.WaitFor(t, await.Source[*v1alpha1.EvictionPolicy]{Client: l.policies, Resource: "evictionpolicies", Namespace: l.ns}, "the policy to go",
		func(all []*v1alpha1.EvictionPolicy) bool { return len(all) == 0 })
}
