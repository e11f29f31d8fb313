package histories

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

const lockedBy = lockPrefix + "/other"

// lockedDeparture is the removal of an agent whose node says that it leaves and has no locks. Its router and keeper are gone.
func lockedDeparture(t *testing.T) *departure {
	t.Helper()
	w := newWorld(t.Context(), 1)
	s := &lockSite{httpSite: storeOf(w, 3, 2)}
	s.plan = append(s.plan, planned{"agent-0", agentRole, false})
	w.site, w.locks = s, newLocks()
	for _, p := range s.plan {
		if err := w.join(p.pod); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	d := &departure{world: w, removal: &removal{user: "alice", pod: "agent-0", looked: now, began: now}}
	d.createPolicy(firstPolicy)
	d.regime = newRegime() // the policy has always been there
	d.pod = d.comes(t, "agent-0", -time.Hour)
	d.removal.judged = d.pod.UID
	d.mark(func(n *corev1.Node) { n.Labels[stateLabel] = v1alpha1.NodeLockLeaves })
	return d
}

// comes has a member's pod come to the agent's node so long after the removal was sent.
func (d *departure) comes(t *testing.T, name string, after time.Duration) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: d.nodeKey(name).Name}}
	if err := d.store.create(pod); err != nil {
		t.Fatal(err)
	}
	d.locks.bound[pod.UID] = d.removal.began.Add(after)
	return pod
}

// mark changes the agent's node.
func (d *departure) mark(change func(*corev1.Node)) (before, after *corev1.Node) {
	before = d.lockedNode("n-keeper-0")
	after = duplicate(before)
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	change(after)
	d.store.put(after)
	return before, after
}

// isLocked has another operator lock the node so long after the removal was sent, and find there that the agent serves, or that it leaves.
func (d *departure) isLocked(after time.Duration, serves bool) {
	d.mark(func(n *corev1.Node) { n.Annotations[lockedBy] = "" })
	at := nodeLock{"n-keeper-0", lockedBy}
	d.locks.set[at], d.locks.serves[at] = d.removal.began.Add(after), serves
}

// restarts has the removal be a DELETE of a DaemonSet's agent.
func (d *departure) restarts() {
	d.lockSite().daemon, d.removal.delete = true, true
	d.pod.OwnerReferences = d.owners(planned{pod: d.pod.Name, role: agentRole})
}

// leavesDaemonSet has the agent have no owner any more from so long after the removal was sent.
func (d *departure) leavesDaemonSet(after time.Duration) {
	d.pod.OwnerReferences = nil
	d.locks.disowned[d.pod.UID] = d.removal.began.Add(after)
}

// TestLockExcuses checks what a departure from a locked node is excused by, and that what is beside it is not.
func TestLockExcuses(t *testing.T) {
	const before, after = -time.Millisecond, time.Millisecond
	own := lockOf(firstPolicy, "router")
	serves := func(d *departure) {
		d.mark(func(n *corev1.Node) { n.Labels[stateLabel] = v1alpha1.NodeLockServes })
	}
	meddled := func(d *departure) { d.locks.meddled["n-keeper-0"] = d.removal.began }
	for _, c := range []struct {
		name  string
		with  func(t *testing.T, d *departure)
		fails bool
	}{
		{"nothing holds it", func(*testing.T, *departure) {}, false},
		{"another's lock that was there", func(_ *testing.T, d *departure) { d.isLocked(before, false) }, true},
		{"one that has come, and goes again since the agent leaves", func(_ *testing.T, d *departure) { d.isLocked(after, false) }, false},
		{"one that has come and stays", func(_ *testing.T, d *departure) { d.isLocked(after, true) }, true},
		{"one that stays since the label was set back meanwhile", func(_ *testing.T, d *departure) {
			d.isLocked(after, true)
			d.locks.left["n-keeper-0"] = d.removal.began
		}, false},
		{"one that stays since another client has set the label back", func(_ *testing.T, d *departure) { d.isLocked(after, true); meddled(d) }, false},
		{"one that was there before that", func(_ *testing.T, d *departure) { d.isLocked(before, true); meddled(d) }, true},
		{"a lock of Usher's", func(_ *testing.T, d *departure) { d.mark(func(n *corev1.Node) { n.Annotations[own] = "" }) }, true},
		{"an annotation that is none", func(_ *testing.T, d *departure) {
			d.mark(func(n *corev1.Node) { n.Annotations["example.com/a"] = "" })
		}, false},
		{"a holder", func(t *testing.T, d *departure) { t.Helper(); d.comes(t, "router-0", before) }, true},
		{"a pod that no policy claims", func(t *testing.T, d *departure) {
			t.Helper()
			d.comes(t, "keeper-0", before)
			d.regime.without = "keeper-0"
		}, false},
		{"a holder that comes where it will, too late to be seen", func(t *testing.T, d *departure) { t.Helper(); d.comes(t, "router-0", after) }, false},
		{"one whose machine is off", func(t *testing.T, d *departure) {
			t.Helper()
			d.comes(t, "router-0", before)
			d.machines["agent-0"].off = true
		}, false},
		{"was off until a moment ago", func(t *testing.T, d *departure) {
			t.Helper()
			d.comes(t, "router-0", before)
			d.machines["agent-0"].back = d.removal.began
		}, false},
		{"was off before", func(t *testing.T, d *departure) {
			t.Helper()
			d.comes(t, "router-0", before)
			d.machines["agent-0"].back = d.removal.began.Add(-maxAge + before)
		}, true},
		{"the label says that it serves", func(_ *testing.T, d *departure) { serves(d) }, true},
		{"since a moment ago", func(_ *testing.T, d *departure) { serves(d); d.locks.left["n-keeper-0"] = d.removal.began }, false},
		{"and it only restarts", func(_ *testing.T, d *departure) { serves(d); d.restarts() }, false},
		{"and it restarts on a locked node", func(_ *testing.T, d *departure) { d.isLocked(before, true); d.restarts() }, true},
		{"and its DaemonSet was deleted without it", func(_ *testing.T, d *departure) {
			serves(d)
			d.restarts()
			d.leavesDaemonSet(before)
		}, true},
		{"which was deleted a moment ago", func(_ *testing.T, d *departure) {
			serves(d)
			d.restarts()
			d.leavesDaemonSet(after)
		}, false},
		{"admission was not asked", func(_ *testing.T, d *departure) {
			d.isLocked(before, true)
			d.removal.excuse = "admission is not asked"
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := lockedDeparture(t)
			c.with(t, d)
			d.checkLocks(d.removal, d.pod)
			d.check(t, c.fails, "LOCKED", c.name)
		})
	}
}

// TestNodeWrites checks what may be written on a node for a policy.
func TestNodeWrites(t *testing.T) {
	own := lockOf(firstPolicy, "router")
	set := func(n *corev1.Node) { n.Annotations[own] = "" }
	takeOff := func(n *corev1.Node) { delete(n.Annotations, own) }
	for _, c := range []struct {
		name  string
		with  func(t *testing.T, d *departure)
		write func(*corev1.Node)
		fails bool
	}{
		{"the label", nil, func(n *corev1.Node) { n.Labels[stateLabel] = v1alpha1.NodeLockServes }, false},
		{"another value", nil, func(n *corev1.Node) { n.Labels[stateLabel] = "maybe" }, true},
		{"another label", nil, func(n *corev1.Node) { n.Labels["a"] = "b" }, true},
		{"the label of another operator's agents", func(_ *testing.T, d *departure) { d.lockSite().theirs = true }, func(n *corev1.Node) { n.Labels[stateLabel] = v1alpha1.NodeLockServes }, true},
		{"a lock", nil, set, false},
		{"another's lock", func(_ *testing.T, d *departure) { d.isLocked(0, true) }, func(n *corev1.Node) { delete(n.Annotations, lockedBy) }, true},
		{"another policy's", nil, func(n *corev1.Node) { n.Annotations[lockOf(secondPolicy, "router")] = "" }, true},
		{"a taint", nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, true},
		{"a lock that goes", func(_ *testing.T, d *departure) { d.mark(set) }, takeOff, false},
		{"while its holder is there", func(t *testing.T, d *departure) {
			t.Helper()
			d.mark(set)
			d.comes(t, "router-0", -time.Second)
		}, takeOff, true},
		{"which has come since", func(t *testing.T, d *departure) {
			t.Helper()
			d.mark(set)
			d.comes(t, "router-0", time.Second)
		}, takeOff, false},
		{"while another role's holder is there", func(t *testing.T, d *departure) {
			t.Helper()
			d.mark(set)
			d.comes(t, "keeper-0", -time.Second)
		}, takeOff, false},
		{"by a policy that was another then", func(t *testing.T, d *departure) {
			t.Helper()
			d.mark(set)
			d.comes(t, "router-0", -time.Second)
			d.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Suspend = false })
		}, takeOff, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := lockedDeparture(t)
			policy := d.policy(firstPolicy)
			look := &nodeLook{policy: keyOf(policy), by: policy, began: d.removal.looked}
			if c.with != nil {
				c.with(t, d)
			}
			before, after := d.mark(c.write)
			d.checkNodeWrite(look, before, after)
			d.check(t, c.fails, "LOCKED", c.name)
		})
	}
}

// TestSilentEvictions checks what the eviction of an agent has to say whose node is locked.
func TestSilentEvictions(t *testing.T) {
	const (
		ofLocks  = "node n-keeper-0 has locks of what needs it there: " + lockedBy
		ofDaemon = "a pod of a DaemonSet cannot be evicted: agent would start it again on the same node at once"
	)
	locked := func(d *departure) { d.isLocked(0, true) }
	left := func(d *departure) {
		locked(d)
		d.disownPod(planned{pod: "agent-0", role: agentRole})
	}
	for _, c := range []struct {
		name   string
		with   func(d *departure)
		daemon bool
		asked  time.Duration
		says   string
		fails  bool
	}{
		{"the locks", locked, false, time.Hour, ofLocks, false},
		{"something else", locked, false, time.Hour, "the system does not answer", true},
		{"nothing yet", locked, false, 0, "", false},
		{"something else of a node that has none", nil, false, time.Hour, "the system does not answer", false},
		{"of one that no DaemonSet has, that one does", locked, false, time.Hour, ofDaemon, true},
		{"of a DaemonSet's, that", locked, true, time.Hour, ofDaemon, false},
		{"of a DaemonSet's, that and the locks", locked, true, time.Hour, ofDaemon + " " + ofLocks, false},
		{"of a DaemonSet's, the locks alone", locked, true, time.Hour, ofLocks, true},
		{"of a DaemonSet's, nothing", locked, true, time.Hour, "", true},
		{"of one that was left by its DaemonSet, the locks", left, true, time.Hour, ofLocks, false},
		{"of one that was left by its DaemonSet, that one has it", left, true, time.Hour, ofDaemon, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := lockedDeparture(t)
			d.lockSite().daemon = c.daemon
			d.pod.OwnerReferences = d.owners(planned{pod: "agent-0", role: agentRole})
			d.store.put(d.pod)
			if c.with != nil {
				c.with(d)
			}
			ref := evictionrequest.Ref{Namespace: namespace, Name: d.pod.Name, UID: d.pod.UID}
			request := evictionrequest.NewRequest(ref, "alice.example.com/x")
			request.CreationTimestamp = metav1.NewTime(time.Now().Add(-c.asked))
			d.store.put(request)
			if c.says != "" {
				e := &api.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-1-agent-0"}}
				e.Spec.Target.Pod = &api.EvictionPodReference{Name: ref.Name, UID: ref.UID}
				e.Status.Responders = []api.ResponderStatus{{Message: &c.says}}
				d.store.put(e)
			}
			for _, what := range d.silent() {
				d.fail("LOCKED", "%s", what)
			}
			d.check(t, c.fails, "LOCKED", c.name)
		})
	}
}
