package histories

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// stand is since when something stands at every look of repair. Zero: it does not.
type stand struct {
	may  time.Time // at the earliest: by every look that can have seen it
	must time.Time // at the latest: by looks that must have seen it, and whose result was written down
}

// sight is what a look can have seen of something.
type sight struct{ yes, no, unknown bool }

func (s *sight) see(is replacement.Tristate) {
	s.yes, s.no, s.unknown = s.yes || is == replacement.Yes, s.no || is == replacement.No, s.unknown || is == replacement.Unknown
}

// surely reports whether a look must have seen it.
func (s sight) surely() bool { return s.yes && !s.no && !s.unknown }

// known is what is known of a question whose answer is.
func known(answer bool) replacement.Tristate {
	if answer {
		return replacement.Yes
	}
	return replacement.No
}

// after takes a look into account; written: so is its result.
func (s *stand) after(seen sight, begun, ended time.Time, written bool) {
	if seen.no {
		s.must = time.Time{}
	}
	if seen.no && !seen.yes && !seen.unknown && written {
		s.may = time.Time{}
	}
	if seen.yes && s.may.IsZero() {
		s.may = begun
	}
	if seen.surely() && written && s.must.IsZero() {
		s.must = ended
	}
}

// taintKey distinguishes the taints of a node, each of which has a clock of its own.
type taintKey struct {
	key    string
	effect corev1.TaintEffect
}

// health is what is true of a member, by the history's own account: since when looks see what is wrong with it.
type health struct {
	conditions map[replacement.ConditionType]stand // all but NodeTainted
	taints     map[taintKey]stand
	tainted    stand
	latched    time.Time // when the last look began that can have seen a taint for long enough
	node       place     // the last on which a look must have seen it; zero: not known
	last       string    // the node on which its pod was seen last
	paused     bool      // the last look must have seen that its node is under maintenance
	// resumes is when a look has seen that this is over whose result may not have been written down; zero: none since.
	resumes time.Time
}

func newHealth() *health {
	return &health{conditions: map[replacement.ConditionType]stand{}, taints: map[taintKey]stand{}}
}

func (h *health) clone() *health {
	same := *h
	same.conditions, same.taints = maps.Clone(h.conditions), maps.Clone(h.taints)
	return &same
}

// each changes all that stands.
func (h *health) each(change func(*stand)) {
	for kind, s := range h.conditions {
		change(&s)
		h.conditions[kind] = s
	}
	for key, s := range h.taints {
		change(&s)
		h.taints[key] = s
	}
	change(&h.tainted)
}

// unsure has nothing count as surely seen.
func unsure(s *stand) { s.must = time.Time{} }

// since has what stands count from a time on.
func since(at time.Time) func(*stand) {
	return func(s *stand) {
		if !s.may.IsZero() && s.may.Before(at) {
			s.may = at
		}
		s.must = time.Time{}
	}
}

// ended takes into account that a request of repair is complete, or was cancelled; known: the policy's status names it.
func (h *health) ended(at time.Time, known bool) {
	if !known {
		h.each(unsure)
		return
	}
	h.each(since(at))
	if h.tainted = (stand{}); h.latched.After(at) { // it was seen since
		h.tainted.may = h.latched
	}
}

// all are the conditions that stand.
func (h *health) all() map[replacement.ConditionType]stand {
	all := maps.Clone(h.conditions)
	all[replacement.NodeTainted] = h.tainted
	maps.DeleteFunc(all, func(_ replacement.ConditionType, s stand) bool { return s == stand{} })
	return all
}

// glance is what one look can have seen of a member.
type glance struct {
	count      int // of the states that were there meanwhile
	conditions map[replacement.ConditionType]*sight
	paused     sight
	absent     sight   // it has no pod, and no StatefulSet says that it is to have one: nothing is known of it
	nodes      []place // on which its pod was; zero: on none
	taints     map[taintKey]int
	untold     int                      // states in which nothing was known of taints
	added      map[taintKey][]time.Time // that the taints give themselves: one may be taken off and put on again meanwhile
}

func newGlance() *glance {
	return &glance{conditions: map[replacement.ConditionType]*sight{}, taints: map[taintKey]int{}, added: map[taintKey][]time.Time{}}
}

// see adds a state of a member: its pod, and the node on which that is or was last; nil: there is none.
func (g *glance) see(pod *corev1.Pod, node *corev1.Node, repair *v1alpha1.Repair, now time.Time) {
	g.count++
	bound := pod != nil && pod.Spec.NodeName != ""
	switch {
	case node == nil || !maintained(node):
		g.paused.see(replacement.No)
	case bound:
		g.paused.see(replacement.Yes)
	default: // where it was may not be known
		g.paused.see(replacement.Unknown)
	}
	pending := pod != nil && pod.Status.Phase == corev1.PodPending
	g.condition(replacement.PodMissing, known(pod == nil))
	if pod != nil {
		g.condition(replacement.PodPending, known(pending))
	} else {
		g.condition(replacement.PodPending, replacement.Unknown)
	}
	if pod == nil || pending {
		g.condition(replacement.PodFailing, replacement.Unknown)
	} else {
		g.condition(replacement.PodFailing, known(fails(pod, now)))
	}
	var on place
	if bound {
		on.name = pod.Spec.NodeName
		if node != nil {
			on.uid = node.UID
		}
	}
	if !slices.Contains(g.nodes, on) {
		g.nodes = append(g.nodes, on)
	}
	switch {
	case pod == nil:
	case pending || !bound || node == nil:
		g.untold++
	default:
		g.tainted(node, repair)
	}
}

// doubt has what was seen count only as what may have been.
func (g *glance) doubt() {
	for _, s := range g.conditions {
		s.unknown = true
	}
	g.untold++
	g.count++
}

func (g *glance) condition(kind replacement.ConditionType, is replacement.Tristate) {
	s := g.conditions[kind]
	if s == nil {
		s = &sight{}
		g.conditions[kind] = s
	}
	s.see(is)
}

func (g *glance) tainted(node *corev1.Node, repair *v1alpha1.Repair) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if ruleFor(repair, taint.Key) == nil {
			continue
		}
		key := taintKey{taint.Key, taint.Effect}
		g.taints[key]++
		if taint.TimeAdded != nil {
			g.added[key] = append(g.added[key], taint.TimeAdded.Time)
		}
	}
}

// ruleFor is what a policy says of a taint: what it says of its key before what it says of all; nil: that it does not count.
func ruleFor(repair *v1alpha1.Repair, key string) *v1alpha1.RepairTaint {
	for _, of := range []string{key, "*"} {
		at := slices.IndexFunc(repair.Taints, func(t v1alpha1.RepairTaint) bool { return t.Key == of })
		switch {
		case at >= 0 && repair.Taints[at].Action == v1alpha1.TaintIgnore:
			return nil
		case at >= 0:
			return &repair.Taints[at]
		}
	}
	return nil
}

// maintained reports whether a node is cordoned and Ready.
func maintained(node *corev1.Node) bool {
	return node.Spec.Unschedulable && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// fails reports whether a pod that has started is not Ready, has ended, or is there 5 minutes after its grace.
func fails(pod *corev1.Pod, now time.Time) bool {
	late := pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) >= 5*time.Minute
	return !isReady(pod) || late || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// after takes a look into account. What is seen of a member on a node under maintenance does not count, and what was wrong before counts anew.
func (h *health) after(g *glance, repair *v1alpha1.Repair, begun, ended time.Time, written bool) {
	switch {
	case g.absent.surely() && written:
		*h = *newHealth()
		return
	case g.absent.yes:
		h.each(unsure)
		g.doubt()
	case g.paused.surely():
		h.each(unsure)
		h.paused, h.resumes = h.paused || written, time.Time{}
		return
	case g.paused.yes || g.paused.unknown:
		h.each(unsure)
		g.doubt()
		h.paused, h.resumes = false, time.Time{}
	case h.paused && !written: // by this look, or by the next one
		h.each(unsure)
		h.paused, h.resumes = false, begun
	case h.paused:
		h.each(since(begun))
		h.paused = false
	case written && !h.resumes.IsZero():
		h.each(since(h.resumes))
		h.resumes = time.Time{}
	}
	for kind, seen := range g.conditions {
		s := h.conditions[kind]
		s.after(*seen, begun, ended, written)
		h.conditions[kind] = s
	}
	h.moved(g, written)
	h.taint(g, repair, begun, ended, written)
}

// moved forgets the taints of another node than the one on which it is.
func (h *health) moved(g *glance, written bool) {
	sure := len(g.nodes) == 1 && g.nodes[0].name != "" && written && !g.paused.yes && !g.paused.unknown
	if slices.ContainsFunc(g.nodes, func(on place) bool { return on.another(h.node) }) {
		for key, s := range h.taints {
			unsure(&s)
			h.taints[key] = s
		}
		unsure(&h.tainted)
		if sure && h.node.name != "" {
			clear(h.taints)
			h.tainted = stand{}
		}
		h.node = place{}
	}
	if sure {
		h.node = place{g.nodes[0].name, cmp.Or(g.nodes[0].uid, h.node.uid)}
	}
}

// place is a node: one that was made anew under a name is another.
type place struct {
	name string
	uid  types.UID
}

// another reports whether a pod that is bound to it was on another node before.
func (p place) another(before place) bool {
	return p.name != "" && (p.name != before.name || p.uid != "" && before.uid != "" && p.uid != before.uid)
}

// taint takes into account which taints a look has seen, and whether one of them has been there for long enough.
func (h *health) taint(g *glance, repair *v1alpha1.Repair, begun, ended time.Time, written bool) {
	for key := range g.taints {
		if _, known := h.taints[key]; !known {
			h.taints[key] = stand{}
		}
	}
	for key, s := range h.taints {
		seen := sight{yes: g.taints[key] > 0, unknown: g.untold > 0, no: g.taints[key]+g.untold < g.count}
		s.after(seen, begun, ended, written)
		for _, added := range g.added[key] {
			s.begins(added)
		}
		h.taints[key] = s
		if rule := ruleFor(repair, key.key); rule != nil {
			h.latch(s, seen, longEnough(rule), begun, ended, written)
		}
	}
}

// begins has a taint count from the time that it gives itself, where that is earlier at the earliest, or later at the latest.
func (s *stand) begins(at time.Time) {
	if at.Before(s.may) {
		s.may = at
	}
	if !s.must.IsZero() && at.After(s.must) {
		s.must = at
	}
}

func longEnough(rule *v1alpha1.RepairTaint) time.Duration {
	if rule.After == nil {
		return 0
	}
	return rule.After.Duration
}

// latch has NodeTainted stand from the look on that has seen a taint for long enough.
func (h *health) latch(s stand, seen sight, long time.Duration, begun, ended time.Time, written bool) {
	if seen.yes && ended.Sub(s.may) >= long-second {
		h.latched = begun
		if h.tainted.may.IsZero() {
			h.tainted.may = begun
		}
	}
	if seen.surely() && written && !s.must.IsZero() && begun.Sub(s.must) >= long && h.tainted.must.IsZero() {
		h.tainted.must = ended
	}
}

// second is what is lost of times in the API, which keeps whole ones.
const second = time.Second
