package histories

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// repairController is the name of the controller that replaces members which are unhealthy.
const repairController = "repair"

// drawRepair draws what a policy says of the repair of its members: mostly that it begins in seconds, so that a history shows it.
func drawRepair(dice *rand.Rand) *v1alpha1.Repair {
	drawn := func(seconds ...int) *metav1.Duration {
		return &metav1.Duration{Duration: time.Duration(seconds[dice.IntN(len(seconds))]) * time.Second}
	}
	repair := &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic, UnhealthyAfter: drawn(0, 5, 15, 30, 60, 240), TaintedAfter: drawn(0, 5, 20, 120)}
	most := new(int32(1 + dice.IntN(2)))
	repair.MaxInFlight = []*v1alpha1.MaxInFlight{nil, {Members: most}, {Members: most}, {Zones: most}}[dice.IntN(4)]
	if above := []intstr.IntOrString{{}, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"), intstr.FromString("100%")}[dice.IntN(5)]; above != (intstr.IntOrString{}) {
		repair.StopAbove = &v1alpha1.RepairStop{Zones: above}
	}
	if dice.IntN(4) > 0 {
		repair.Taints = []v1alpha1.RepairTaint{{Key: "*", After: drawn(0, 5, 30)}, {Key: taintsOfNodes[0], After: drawn(10, 60)}, {Key: taintsOfNodes[1], Action: v1alpha1.TaintIgnore}}
	}
	switch dice.IntN(6) {
	case 0:
		repair.UnhealthyConditions = []v1alpha1.MemberConditionType{"NodeTainted"}
	case 1:
		repair.UnhealthyConditions = []v1alpha1.MemberConditionType{"PodPending", "PodMissing", "NotReporting"}
	}
	return repair
}

// taintsOfNodes are the keys of taints that nodes have now and then: a policy names the first, ignores the second, and takes all others alike.
var taintsOfNodes = []string{"example.com/slow", "example.com/ignored", "example.com/other"}

// amendRepair is an owner who has nothing begun for a while, or no member repaired.
func (w *world) amendRepair() {
	if w.policy(firstPolicy) == nil || w.repairing == nil {
		return
	}
	mode := v1alpha1.RepairAutomatic
	suspended := w.dice.IntN(3) == 0
	if w.dice.IntN(4) == 0 {
		mode = v1alpha1.RepairDisabled
	}
	w.setRepair(mode, suspended)
}

func (w *world) setRepair(mode v1alpha1.RepairMode, suspended bool) {
	w.note("owner: repair is %s, suspended: %t", mode, suspended)
	w.repairing = w.repairing.DeepCopy()
	w.repairing.Mode = mode
	w.editPolicy(func(spec *v1alpha1.EvictionPolicySpec) { spec.Repair, spec.Suspend = w.repairing.DeepCopy(), suspended })
}

// window is how long a condition must have stood, with the schema's defaults.
func window(repair *v1alpha1.Repair, kind replacement.ConditionType) time.Duration {
	switch {
	case kind == replacement.NodeTainted && repair.TaintedAfter != nil:
		return repair.TaintedAfter.Duration
	case kind == replacement.NodeTainted:
		return 30 * time.Minute
	case repair.UnhealthyAfter != nil:
		return repair.UnhealthyAfter.Duration
	}
	return 2 * time.Hour
}

func counts(repair *v1alpha1.Repair, kind replacement.ConditionType) bool {
	return len(repair.UnhealthyConditions) == 0 || slices.Contains(repair.UnhealthyConditions, v1alpha1.MemberConditionType(kind))
}

// repairsWithin is the longest until what is due is written down, in peace: the controller looks once a minute.
const repairsWithin = 90 * time.Second

// checkRepairs: of each member with which something is wrong for long enough a request stands, or the policy's status says what it waits for. Who
// waits for others does so only as long as there are some.
func (w *world) checkRepairs() {
	if w.repairing == nil {
		return
	}
	for try := range 2 {
		missed := w.unrepaired()
		if len(missed) == 0 {
			return
		}
		if try > 0 {
			w.fail("LIVENESS", "%s", strings.Join(missed, "; "))
			return
		}
		w.settle(repairsWithin)
	}
}

func (w *world) unrepaired() (missed []string) {
	policy := w.policy(firstPolicy)
	if policy == nil || policy.Spec.Repair == nil || policy.DeletionTimestamp != nil || policy.Spec.Audited() || w.regime.without != "" || w.regime.staging {
		return nil
	}
	w.endedRepairs()
	standing := w.inFlight()
	for _, p := range w.site.members() {
		h := w.health[p.pod]
		if h == nil || standing[p.pod] {
			continue
		}
		var waits []v1alpha1.ReplacementBlocker
		if at := slices.IndexFunc(policy.Status.Unhealthy, func(u v1alpha1.UnhealthyMember) bool { return u.ID == p.pod }); at >= 0 {
			waits = policy.Status.Unhealthy[at].Blockers
		}
		if len(waits) == 0 && overdue(h, policy.Spec.Repair) {
			missed = append(missed, fmt.Sprintf("%s has neither a request nor a blocker: %s", p.pod, w.since(h)))
		}
		if len(waits) == 1 && waits[0].Reason == string(replacement.TooManyInFlight) && len(standing) == 0 {
			missed = append(missed, p.pod+" waits for others in flight, and there are none")
		}
	}
	return missed
}

// inFlight are the members for which requests stand.
func (w *world) inFlight() map[string]bool {
	members := map[string]bool{}
	for _, q := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		if !q.Status.Over() {
			members[q.Spec.Member.ID] = true
		}
	}
	return members
}

// overdue reports whether something that is wrong with a member must have been seen for long enough, and have been written down.
func overdue(h *health, repair *v1alpha1.Repair) bool {
	for kind, s := range h.all() {
		if !s.must.IsZero() && counts(repair, kind) && time.Since(s.must) >= window(repair, kind)+repairsWithin {
			return true
		}
	}
	return false
}
