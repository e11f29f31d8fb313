package histories

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
)

// machine is the node of a member: how often it has booted, and whether it is lost.
type machine struct {
	node  string
	zone  string
	boots int
	lost  bool
	since time.Time // that it is lost
	// cut: it is lost, and what runs on it goes on.
	cut bool
	// off: a fence proves that it is off. It will not answer before it has booted anew. back is when it last did so.
	off  bool
	back time.Time
	// destroyed: it never comes back, and neither does its disk.
	destroyed bool
	// replaced: another stands in for it.
	replaced bool
}

// shared is a site some of whose members are on one machine.
type shared interface {
	// beside is the member whose machine another one is on too, "" where it has its own.
	beside(pod string) string
}

// nodeKey is that of the node on which a member is to be.
func (w *world) nodeKey(pod string) client.ObjectKey {
	return client.ObjectKey{Name: w.machines[pod].node}
}

// join adds the node of a member.
func (w *world) join(pod string) error {
	if s, shares := w.site.(shared); shares && w.machines[s.beside(pod)] != nil {
		w.machines[pod] = w.machines[s.beside(pod)]
		return nil
	}
	w.machines[pod] = &machine{node: "n-" + pod, zone: []string{"a", "b", "c"}[len(w.machines)%3], boots: 1}
	return w.createNode(pod)
}

func (w *world) createNode(pod string) error {
	name := w.machines[pod].node
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: w.zoneOf(pod)}}}
	node.Status = w.nodeStatus(pod, corev1.ConditionTrue)
	return w.store.create(node)
}

// zoneOf is the zone in which a member is: its machines are all in one.
func (w *world) zoneOf(pod string) string { return w.machines[pod].zone }

func (w *world) nodeStatus(pod string, ready corev1.ConditionStatus) corev1.NodeStatus {
	return corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{BootID: fmt.Sprintf("boot-%d", w.machines[pod].boots)},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
}

// report has a node say whether its machine is Ready, or its controller that this is not known.
func (w *world) report(pod string, ready corev1.ConditionStatus) {
	node, ok := w.store.get(nodes, w.nodeKey(pod)).(*corev1.Node)
	if !ok {
		return
	}
	node = duplicate(node)
	node.Status = w.nodeStatus(pod, ready)
	w.store.put(node)
}

// kubeletLease is the Lease that the kubelet of a node has renewed last.
func (w *world) kubeletLease(node string, into *coordinationv1.Lease) error {
	for _, m := range w.machines {
		if m.node == node {
			renewed := time.Now()
			if m.lost {
				renewed = m.since
			}
			into.Spec.RenewTime = new(metav1.NewMicroTime(renewed))
			return nil
		}
	}
	return notFound(leases, node)
}

func (w *world) lost(pod string) bool { return w.machines[pod].lost }

// someMachine draws one of the machines that meet a condition, "" where there is none: mostly one that people drain.
func (w *world) someMachine(meets func(*machine) bool) string {
	all := slices.DeleteFunc(slices.Clone(w.site.members()), func(p planned) bool { return w.machines[p.pod].node == "" || !meets(w.machines[p.pod]) })
	wanted := slices.DeleteFunc(slices.Clone(all), func(p planned) bool { return !w.wanted(p.pod) })
	if len(wanted) > 0 && w.dice.IntN(4) > 0 {
		all = wanted
	}
	if len(all) == 0 {
		return ""
	}
	return all[w.dice.IntN(len(all))].pod
}

// wanted reports whether the eviction of a pod is requested.
func (w *world) wanted(pod string) bool {
	return slices.ContainsFunc(list[*api.EvictionRequest](w.store, requests), func(r *api.EvictionRequest) bool {
		ref, _ := evictionrequest.RequestRef(r)
		return ref.Name == pod && wanted(r)
	})
}

// lose has a machine stop with what runs on it, or cuts it off: then its processes go on. No kubelet ends what terminates there.
func (w *world) lose() {
	pod := w.someMachine(func(m *machine) bool { return !m.lost })
	if pod == "" || w.wouldLose(pod) != "" && w.dice.IntN(4) > 0 {
		return
	}
	w.loseMachine(pod, w.dice.IntN(2) == 0)
}

// loseMachine has the machine of a member stop, or cuts it off.
func (w *world) loseMachine(pod string, stops bool) {
	w.note("machine: %s is lost; it stops: %t", w.nodeKey(pod).Name, stops)
	m := w.machines[pod]
	m.lost, m.since, m.cut = true, time.Now(), !stops
	w.report(pod, corev1.ConditionUnknown)
	for _, on := range w.sharing(pod) {
		w.probe(on)
	}
	if w.goesByNode(pod) {
		w.safety.crashes[w.roleOf(pod)] = m.since
		w.safety.changed(w, accident, m.node+" is lost")
	}
	if stops {
		w.powerOff(pod)
	}
}

// goesByNode reports whether a member does its work only while its machine is reached: a router that has a floor, a plain pod, or one of OpenStack's.
func (w *world) goesByNode(pod string) bool {
	switch site := w.site.(type) {
	case *httpSite:
		return site.floor && w.roleOf(pod) == "router"
	case *setSite:
		return site.isPlain()
	case *openStackSite:
		return true
	}
	return false
}

// powerOff ends all that runs on a machine.
func (w *world) powerOff(pod string) {
	w.machines[pod].cut = false
	for _, on := range w.sharing(pod) {
		if _, haunted := w.ghosts[on]; haunted {
			delete(w.ghosts, on)
			w.site.stop(on)
			w.safety.changed(w, natural, "what was left of "+on+" has ended")
		}
		w.halt(on)
	}
}

// fence proves that a lost machine is off: at once, or of a fence that was begun before.
func (w *world) fence() {
	pod := w.someMachine(func(m *machine) bool { return m.lost && !m.off })
	if pod == "" {
		return
	}
	switch fence, begun := w.fenceOf(pod); {
	case fence == nil:
	case !begun && w.dice.IntN(2) == 0:
		w.note("fence: of %s is begun", fence.Spec.NodeName)
	default:
		w.prove(pod, fence)
	}
}

// fenceOf returns the fence of a member's machine, which it begins where there is none; nil: its Node is gone.
func (w *world) fenceOf(pod string) (fence *v1alpha1.NodeFence, begun bool) {
	node, ok := w.store.get(nodes, w.nodeKey(pod)).(*corev1.Node)
	if !ok {
		return nil, false
	}
	facts := observe.LostNodeFacts(node)
	fence, begun = w.store.get(fences, client.ObjectKey{Name: lostnode.FenceName(&facts)}).(*v1alpha1.NodeFence)
	if !begun {
		fence = lostnode.NewFence(&facts, "machines")
		fence.Finalizers = nil
		if err := w.store.create(fence); err != nil {
			w.fail("SIMULATOR", "creating a fence: %v", err)
		}
	}
	return fence, begun
}

// prove has a fence prove that the machine of a member is off.
func (w *world) prove(pod string, fence *v1alpha1.NodeFence) {
	w.note("fence: %s is proven off", fence.Spec.NodeName)
	w.powerOff(pod)
	fence = duplicate(fence)
	fence.Status = v1alpha1.NodeFenceStatus{Step: v1alpha1.FenceWaitingForPods, ProvenTime: new(metav1.Now()), Taint: v1alpha1.TaintByUsher}
	w.store.put(fence)
	w.machines[pod].off = true
}

// boot has a lost machine come back: one that was off has booted anew, another may answer again as if nothing had been.
func (w *world) boot() {
	if pod := w.someMachine(func(m *machine) bool { return m.lost && !m.destroyed }); pod != "" {
		w.answers(pod)
	}
}

func (w *world) answers(pod string) {
	m := w.machines[pod]
	if m.off || w.dice.IntN(2) == 0 {
		m.boots++
		w.powerOff(pod)
	}
	w.note("machine: %s answers again, in its boot %d", w.nodeKey(pod).Name, m.boots)
	if m.off {
		m.back = time.Now()
	}
	m.lost, m.off, m.cut = false, false, false
	w.report(pod, corev1.ConditionTrue)
	for _, on := range w.sharing(pod) {
		w.probe(on)
	}
	if w.goesByNode(pod) {
		w.safety.changed(w, accident, m.node+" answers again")
	}
	for _, fence := range list[*v1alpha1.NodeFence](w.store, fences) {
		if fence.Spec.NodeName != w.nodeKey(pod).Name || fence.Status.Over() {
			continue
		}
		fence = duplicate(fence)
		if fence.Status.Step = v1alpha1.FenceEnded; fence.Status.ProvenTime == nil {
			fence.Status.Step = v1alpha1.FenceCancelled
		}
		fence.Status.EndTime = new(metav1.Now())
		w.store.put(fence)
	}
	for _, on := range w.sharing(pod) {
		w.revive(on)
	}
}

// collectLost is the pod garbage collector, which takes away what terminates on a node that is tainted as one that is off.
func (w *world) collectLost(pod *corev1.Pod) func() {
	if pod == nil || pod.DeletionTimestamp == nil || !w.machines[pod.Name].off {
		return nil
	}
	return func() {
		w.note("podgc: pod %s (%s) is gone", pod.Name, pod.UID)
		w.store.drop(pods, keyOf(pod))
		w.podLives[pod.Name] = missing
	}
}
