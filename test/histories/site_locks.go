package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

const (
	stateLabel = "maintenance.example.com/agent"
	lockPrefix = "lock.example.com"
	// agentRole is that of the waiter.
	agentRole = "agent"
	// locker is the ServiceAccount as which the policy has nodes written.
	locker = "agent-locker"
)

// lockSite is a store whose routers, and mostly its keepers, need an agent on their node, which their policy says as nodeLock. Each keeper's node has an agent, and
// perhaps a router.
type lockSite struct {
	*httpSite

	theirs bool // the agents are another operator's
	daemon bool // they are a DaemonSet's
	router bool // keepers do without them
}

func newLockSite(w *world) site {
	keepers := 3 + w.dice.IntN(2)
	d := storeOf(w, keepers, 2+w.dice.IntN(2))
	d.stay = w.dice.IntN(4) == 0
	s := &lockSite{httpSite: d, theirs: w.dice.IntN(5) == 0, daemon: w.dice.IntN(4) == 0, router: w.dice.IntN(3) == 0}
	if !s.theirs {
		for n := range keepers {
			d.plan = append(d.plan, planned{fmt.Sprintf("agent-%d", n), agentRole, false})
		}
	}
	w.locks = newLocks()
	return s
}

// lockSite returns the site where its policy has a nodeLock, nil where it has none.
func (w *world) lockSite() *lockSite {
	s, _ := w.site.(*lockSite)
	return s
}

// beside is the member whose machine another one is on too, "" where it has its own.
func (s *lockSite) beside(pod string) string {
	role, n, _ := strings.Cut(pod, "-")
	switch role {
	case agentRole, "router":
		return "keeper-" + n
	}
	return ""
}

func (s *lockSite) spec(staging bool) v1alpha1.EvictionPolicySpec {
	spec := s.httpSite.spec(staging)
	spec.ServiceAccountName = locker
	spec.NodeLock = &v1alpha1.NodeLock{StateLabel: stateLabel, LockPrefix: lockPrefix, Holders: []string{"router"}}
	if !s.router {
		spec.NodeLock.Holders = append(spec.NodeLock.Holders, "keeper")
	}
	if !s.theirs {
		spec.NodeLock.Waiter = agentRole
		spec.Roles = append(spec.Roles, v1alpha1.Role{Name: agentRole, System: "http", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone, Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity}})
	}
	return spec
}

// renameLock has a nodeLock name the roles by the names that rename gives them.
func renameLock(lock *v1alpha1.NodeLock) {
	if lock == nil {
		return
	}
	for i, holder := range lock.Holders {
		lock.Holders[i] = "own-" + holder
	}
	if lock.Waiter != "" {
		lock.Waiter = "own-" + lock.Waiter
	}
}

// waits reports whether members of a role wait for locks.
func (w *world) waits(role string) bool { return w.lockSite() != nil && role == agentRole }

// place has a new pod ask for a node whose agent serves, where admission sees to that, and wait for it. Those with which a history begins were there before the policy.
func (s *lockSite) place(p planned, pod *corev1.Pod) {
	w := s.world
	policy := w.policy(pod.Labels[v1alpha1.PolicyLabel])
	if len(w.replicas) == 0 || policy == nil || policy.Spec.NodeLock == nil {
		return
	}
	if !slices.ContainsFunc(policy.Spec.NodeLock.Holders, func(role string) bool { return strings.TrimPrefix(role, "own-") == p.role }) {
		return
	}
	required := eviction.RequiredAffinity(&eviction.Claim{StateLabel: stateLabel}, nil)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	pod.Spec.NodeName = ""
}

// bind has the scheduler put a pod on its node, nil where its agent does not serve.
func (s *lockSite) bind(pod *corev1.Pod) func() {
	w := s.world
	node := w.lockedNode(w.nodeKey(pod.Name).Name)
	if node == nil || node.Labels[stateLabel] != v1alpha1.NodeLockServes || w.lost(pod.Name) {
		return nil
	}
	return func() {
		bound := duplicate(pod)
		bound.Spec.NodeName = node.Name
		w.note("scheduler: binds %s (%s) to %s", pod.Name, pod.UID, node.Name)
		w.locks.bound[pod.UID] = time.Now()
		w.store.put(bound)
	}
}

// lockedNode is a node by its name, nil where there is none.
func (w *world) lockedNode(name string) *corev1.Node {
	node, _ := w.store.get(nodes, client.ObjectKey{Name: name}).(*corev1.Node)
	return node
}
