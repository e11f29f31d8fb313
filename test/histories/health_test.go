package histories

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// TestHealth checks since when a condition stands, after looks that are ten seconds apart: by all that may have seen it, and by those alone that must have.
func TestHealth(t *testing.T) {
	ready := func(status corev1.ConditionStatus) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		return pod
	}
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		change(n)
		return n
	}
	type state struct {
		pod  *corev1.Pod
		node *corev1.Node
	}
	plain := node(func(*corev1.Node) {})
	tainted := func(key string) *corev1.Node {
		return node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	well, bad := state{ready(corev1.ConditionTrue), plain}, state{ready(corev1.ConditionFalse), plain}
	worked := state{bad.pod, node(func(n *corev1.Node) { n.Spec.Unschedulable = true })}
	added := func(at int64) state {
		return state{ready(corev1.ConditionTrue), node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Unix(at, 0)}}}
		})}
	}
	slow, ignored := state{well.pod, tainted("slow")}, state{well.pod, tainted("ignored")}
	elsewhere := state{ready(corev1.ConditionTrue), node(func(n *corev1.Node) { n.UID = "m" })}
	elsewhere.pod.Spec.NodeName = "m"
	pending := state{&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}, plain}
	gone := state{nil, plain}
	type look struct {
		states []state
		lost   bool // what it has seen is not written down
		ended  bool // a request for the member is over before it
		ago    time.Duration
	}
	seen := func(states ...state) look { return look{states: states} }
	const never = -1
	for name, c := range map[string]struct {
		kind      replacement.ConditionType
		looks     []look
		may, must int // of the looks: the one since which it stands; never: it does not
	}{
		"it stands":                      {replacement.PodFailing, []look{seen(well), seen(bad), seen(bad)}, 1, 1},
		"it has ended":                   {replacement.PodFailing, []look{seen(bad), seen(well)}, never, never},
		"it may have ended":              {replacement.PodFailing, []look{seen(bad), seen(bad, well)}, 0, never},
		"it may have begun":              {replacement.PodFailing, []look{seen(well, bad), seen(bad)}, 0, 1},
		"its end was not written down":   {replacement.PodFailing, []look{seen(bad), {states: []state{well}, lost: true}, seen(bad)}, 0, 2},
		"its begin was not written down": {replacement.PodFailing, []look{{states: []state{bad}, lost: true}, seen(bad)}, 0, 1},
		"it is not started meanwhile":    {replacement.PodFailing, []look{seen(bad), seen(pending), seen(bad)}, 0, 0},
		"it has no pod":                  {replacement.PodMissing, []look{seen(well), seen(gone)}, 1, 1},
		"maintenance":                    {replacement.PodFailing, []look{seen(bad), seen(worked), seen(bad)}, 2, 2},
		"maintenance that is over, by a look that may not be written down": {replacement.PodFailing, []look{seen(bad), seen(worked), {states: []state{bad}, lost: true}, seen(bad)}, 2, 3},
		"maintenance that goes on after one":                               {replacement.PodFailing, []look{seen(bad), seen(worked), {states: []state{bad}, lost: true}, seen(worked)}, 0, never},
		"perhaps maintenance":                                              {replacement.PodFailing, []look{seen(bad), seen(bad, worked), seen(bad)}, 0, 2},
		"a request is over":                                                {replacement.PodFailing, []look{seen(bad), {states: []state{bad}, ended: true}}, 1, 1},
		"a taint for long enough":                                          {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(slow), seen(slow)}, 2, 2},
		"a taint that was there for long":                                  {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(slow), seen(slow), seen(well)}, 2, 2},
		"another node":                                                     {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(slow), seen(slow), seen(elsewhere)}, never, never},
		"a taint that comes and goes":                                      {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(well), seen(slow), seen(slow)}, never, never},
		"a taint that is put on again during a look":                       {replacement.NodeTainted, []look{seen(well), seen(added(990), added(1009))}, 1, never},
		"a taint that was seen since a request is over":                    {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(slow), {states: []state{slow}, ended: true, ago: 15 * time.Second}}, 2, never},
		"a taint that was seen before a request is over":                   {replacement.NodeTainted, []look{seen(slow), seen(slow), seen(slow), {states: []state{slow}, ended: true}}, never, never},
		"a taint that does not count":                                      {replacement.NodeTainted, []look{seen(ignored), seen(ignored), seen(ignored), seen(ignored)}, never, never},
	} {
		t.Run(name, func(t *testing.T) {
			repair := &v1alpha1.Repair{Taints: []v1alpha1.RepairTaint{
				{Key: "*"}, {Key: "ignored", Action: v1alpha1.TaintIgnore}, {Key: "slow", After: &metav1.Duration{Duration: 20 * time.Second}},
			}}
			h, begun := newHealth(), time.Unix(1000, 0)
			at := func(n int) time.Time {
				if n == never {
					return time.Time{}
				}
				return begun.Add(time.Duration(n) * 10 * time.Second)
			}
			for n, l := range c.looks {
				if l.ended {
					h.ended(at(n).Add(-l.ago), true)
				}
				g := newGlance()
				for _, s := range l.states {
					g.see(s.pod, s.node, repair, at(n))
				}
				h.after(g, repair, at(n), at(n), !l.lost)
			}
			if got, want := h.all()[c.kind], (stand{at(c.may), at(c.must)}); got != want {
				t.Errorf("stands since %v, want %v", got, want)
			}
		})
	}
}
