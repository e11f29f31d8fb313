package replacement

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// RepairRequester is the requester of ReplacementRequests that Repair makes.
const RepairRequester = "usher.sh/repair"

// RepairInput is what is known of the members of a policy.
type RepairInput struct {
	Now    time.Time
	Policy *v1alpha1.EvictionPolicy
	// Members are those that have a pod, and those that a StatefulSet or a MemberSet is to have one for.
	Members []Seen
	// Nodes are by name; nil: it is not there. What is not in it was not read.
	Nodes map[string]*snapshot.Node
	// Asked: the system says which members do their work. Answered: it has, recently enough, and Reported is what it has said of those that it
	// knows, by their ids.
	Asked, Answered bool
	Reported        map[string]Tristate
	// Requests are all of the policy.
	Requests []v1alpha1.ReplacementRequest
}

// Seen is a member as the API has it.
type Seen struct {
	v1alpha1.MemberRef

	Pod *snapshot.Pod // nil: there is none
	// Judged: its role asks its system about it, which therefore knows it.
	Judged bool
	// Operated: an operator replaces it, whether it runs or not.
	Operated bool
	// Maintained is the zone under maintenance in which its MemberSet makes its pod anew; "": none.
	Maintained string
	// InZone is the zone under maintenance that it is in, where another client has begun that; "": none.
	InZone string
	// Stopped is the annotation of its MemberSet, or of the pod that it had, that keeps it from starting. Those of the pod that it has count in any case.
	Stopped Stopped
	// Claims, Service, Excluded, Emptied and ExclusionWanted are of a member of a MemberSet, as Facts has them.
	Claims, Service   Tristate
	Excluded, Emptied Tristate
	ExclusionWanted   bool
	// Unfit is why no request for it could be carried out, whatever is waited for; nil: one could.
	Unfit *Blocker
}

// Stopped is an annotation that keeps a member from starting (source 002, Buggify). Zero: none does.
type Stopped struct {
	Annotation string
	// On is the object that has it, with its kind.
	On string
}

// RepairResult is what follows.
type RepairResult struct {
	// Requests are to be made, before Unhealthy is written. Those that are there already are the same.
	Requests []v1alpha1.ReplacementRequest
	// Unhealthy is for the policy's status.
	Unhealthy []v1alpha1.UnhealthyMember
	NextLook  time.Time
}

// mostUnhealthy is how many entries the status has, as its schema says.
const mostUnhealthy = 100

// Repair says which members of a policy are unhealthy, and which of them get a successor now.
func Repair(in RepairInput) RepairResult {
	r := repairing{RepairInput: &in, standing: map[memberKey]*v1alpha1.ReplacementRequest{}, before: map[memberKey]*v1alpha1.UnhealthyMember{}}
	for i := range in.Policy.Status.Unhealthy {
		u := &in.Policy.Status.Unhealthy[i]
		r.before[memberKey{u.Role, u.ID}] = u
	}
	for i := range in.Requests {
		if q := &in.Requests[i]; !q.Status.Over() {
			r.standing[memberKey{q.Spec.Member.Role, q.Spec.Member.ID}] = q
		}
	}
	members := r.members()
	decision := Decide(Input{
		Now: in.Now, Terms: TermsOf(in.Policy.Spec.Repair), Namespace: in.Policy.Namespace, Policy: in.Policy.Name,
		Members: members, Available: r.available(), Suspended: in.Policy.Spec.Suspend,
	})
	result := RepairResult{NextLook: decision.NextLook}
	for i := range decision.Mark {
		result.Requests = append(result.Requests, r.request(&decision.Mark[i]))
	}
	result.Unhealthy = r.unhealthy(members, &decision, result.Requests)
	return result
}

type memberKey struct{ role, id string }

func keyOf(m *v1alpha1.MemberRef) memberKey { return memberKey{m.Role, m.ID} }

type repairing struct {
	*RepairInput

	standing map[memberKey]*v1alpha1.ReplacementRequest
	before   map[memberKey]*v1alpha1.UnhealthyMember
}

func (r *repairing) available() Tristate {
	if r.Asked && !r.Answered {
		return Unknown
	}
	return Yes
}

// members are those that are seen, and those for which a request stands, each once and in the order of their roles and ids.
func (r *repairing) members() []Member {
	seen := map[memberKey]*Seen{}
	for i := range r.Members {
		m := &r.Members[i]
		if other := seen[keyOf(&m.MemberRef)]; other == nil || other.Pod == nil || m.Pod != nil && other.Pod.Terminating() {
			seen[keyOf(&m.MemberRef)] = m
		}
	}
	var all []Member
	for key, m := range seen {
		all = append(all, r.member(key, m))
	}
	for key := range r.standing {
		if seen[key] == nil {
			all = append(all, r.member(key, &Seen{MemberRef: v1alpha1.MemberRef{Role: key.role, ID: key.id}}))
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID)) })
	return all
}

func (r *repairing) member(key memberKey, seen *Seen) Member {
	m := Member{MemberRef: seen.MemberRef, Marked: r.standing[key] != nil, Held: r.held(r.standing[key]), Unfit: r.unfit(seen)}
	last := r.before[key]
	if last != nil {
		m.Record, m.CancelTime = recordOf(last), r.ended(last, m.Marked)
	}
	if seen.Pod != nil {
		m.Node, m.PodName = seen.Pod.Node, seen.Pod.Name
	}
	m.Facts = r.facts(seen)
	m.Paused = cmp.Or(maintained(seen), pausedBy(seen.Pod), seen.Stopped.String())
	on := cmp.Or(m.Node, m.Record.Node)
	if node := r.Nodes[on]; node != nil {
		m.Paused = cmp.Or(m.Paused, pausedOn(node))
		if m.Node != "" {
			m.Zone = cmp.Or(node.Zone, node.Name)
		}
		if m.Node != "" && m.Paused != "" { // it is known from then on where it was
			m.Record.Node, m.Record.NodeUID = m.Node, node.UID
		}
	}
	return m
}

// heldFor is how long a request that nothing was done for counts as in flight.
const heldFor = 10 * time.Minute

// held reports whether a request waits for something that may never come, and so keeps no other from being made. That not more go than may
// at once, permits see to.
func (r *repairing) held(q *v1alpha1.ReplacementRequest) bool {
	if q == nil || q.Status.Step != v1alpha1.ReplacementWaiting || r.permitted(q) {
		return false
	}
	return meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionStalled) || r.Now.Sub(q.CreationTimestamp.Time) >= heldFor
}

// permitted reports whether the policy's status says that a member is being replaced for a request.
func (r *repairing) permitted(q *v1alpha1.ReplacementRequest) bool {
	return slices.ContainsFunc(r.Policy.Status.Replacing, func(p v1alpha1.Replacing) bool { return p.RequestUID == q.UID })
}

// unfit is why no request for a member would be carried out; nil: one may be.
func (r *repairing) unfit(seen *Seen) *Blocker {
	if seen.Unfit != nil || seen.Pod == nil || seen.Operated {
		return seen.Unfit
	}
	if node := r.Nodes[seen.Pod.Node]; node != nil && node.Ready {
		b := runs(seen.MemberRef, node.Name, r.Policy.Namespace)
		b.Remedy = fmt.Sprintf("mend it there; or have it leave its node, where it finds another: usher evict %s -n %s", seen.PodName, r.Policy.Namespace)
		return &b
	}
	return nil
}

// ended is when the request that was written down was complete, or is not there any more; zero: it stands, or there was none.
func (r *repairing) ended(last *v1alpha1.UnhealthyMember, marked bool) time.Time {
	at := slices.IndexFunc(r.Requests, func(q v1alpha1.ReplacementRequest) bool {
		return q.Name == last.Request && q.Status.Step == v1alpha1.ReplacementComplete
	})
	switch {
	case last.Request != "" && at >= 0 && r.Requests[at].Status.StepTime != nil:
		return r.Requests[at].Status.StepTime.Time
	case last.Request != "" && !marked:
		return r.Now
	case last.RequestEndTime != nil:
		return last.RequestEndTime.Time
	}
	return time.Time{}
}

// maintained is why the health of a member is not looked at while its pod is made anew, or while its system waits for what is missing in its zone: the maintenance
// of a zone ends by itself.
func maintained(seen *Seen) string {
	switch {
	case seen.Maintained != "":
		return fmt.Sprintf("its MemberSet makes its pod anew while zone %s is under maintenance", seen.Maintained)
	case seen.InZone != "":
		return fmt.Sprintf("zone %s, in which it is, is under maintenance, which another client has begun", seen.InZone)
	}
	return ""
}

// pausedBy is why the health of a member is not looked at, as its pod says (source 002, Buggify).
func pausedBy(pod *snapshot.Pod) string {
	if pod == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(key, v1alpha1.CrashLoopPrefix) || key == v1alpha1.EmptyConfigurationAnnotation {
			return Stopped{Annotation: key, On: "pod " + pod.Name}.String()
		}
	}
	return ""
}

// String is why the health of the member is not looked at; "": it is.
func (s Stopped) String() string {
	if s.Annotation == "" {
		return ""
	}
	if container, is := strings.CutPrefix(s.Annotation, v1alpha1.CrashLoopPrefix); is {
		return fmt.Sprintf("annotation %s of %s has container %s crash", s.Annotation, s.On, container)
	}
	return fmt.Sprintf("annotation %s of %s has its processes not start", s.Annotation, s.On)
}

// pausedOn says why the health of members on a node is not looked at: a node that is cordoned is worked on, or about to be. One that does not
// report that it is ready may be lost, and what is done for its members waits for a proof in any case.
func pausedOn(node *snapshot.Node) string {
	lost := slices.ContainsFunc(node.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	if !node.Unschedulable || !node.Ready || lost {
		return ""
	}
	return fmt.Sprintf("node %s is cordoned, and what happens on it may be its maintenance", node.Name)
}

func (r *repairing) facts(seen *Seen) Facts {
	f := Facts{
		Reported: r.reported(seen), Claims: seen.Claims, Service: seen.Service,
		Excluded: seen.Excluded, Emptied: seen.Emptied, ExclusionWanted: seen.ExclusionWanted || seen.Excluded == Yes && r.prepared(seen),
	}
	pod := seen.Pod
	switch {
	case pod == nil && seen.PodName == "": // a request stands for it, and what it is to have is not known
		return f
	case pod == nil:
		f.HasPod = No
		return f
	}
	f.HasPod = Yes
	f.Pod = Pod{Pending: pod.Phase == corev1.PodPending, Healthy: pod.Ready && !pod.Finished(), DeletionTime: pod.Deletion}
	if node := r.Nodes[pod.Node]; node != nil {
		f.NodeKnown, f.NodeUID, f.Taints = true, node.UID, node.Taints
	}
	return f
}

// prepared reports whether a preparation of the member stands: an exclusion may be that, also while it is taken back.
func (r *repairing) prepared(seen *Seen) bool {
	return slices.ContainsFunc(r.Policy.Status.Preparations, func(p v1alpha1.PreparationStatus) bool { return p.Role == seen.Role && p.ID == seen.ID })
}

func (r *repairing) reported(seen *Seen) Tristate {
	if !r.Asked || !r.Answered || !seen.Judged {
		return Unknown
	}
	reported, known := r.Reported[seen.ID]
	if !known {
		return No
	}
	return reported
}

// request is the one for a member that is due. Its name is by the condition that led to it, so that it is made once.
func (r *repairing) request(due *Due) v1alpha1.ReplacementRequest {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s/%s/%d", due.Member.Role, due.Member.ID, due.Condition.Type, due.Condition.StartTime.Unix())
	q := v1alpha1.ReplacementRequest{Spec: v1alpha1.ReplacementRequestSpec{
		Requester: RepairRequester,
		Source:    v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: r.Policy.Name},
		Member:    v1alpha1.ReplacementMember{Role: due.Member.Role, ID: due.Member.ID},
	}}
	q.Namespace, q.Name = r.Policy.Namespace, fmt.Sprintf("%.200s-%s", r.Policy.Name, hex.EncodeToString(hash.Sum(nil)))
	return q
}

// TermsOf returns what a policy says of the repair of its members, with the defaults of the schema.
func TermsOf(r *v1alpha1.Repair) Terms {
	t := Terms{
		Automatic: r.Mode == v1alpha1.RepairAutomatic, UnhealthyAfter: DefaultUnhealthyAfter, TaintedAfter: DefaultTaintedAfter,
		MaxMembers: DefaultMaxMembers, StopAbove: intstr.FromString(DefaultStopAbove),
	}
	if r.UnhealthyAfter != nil {
		t.UnhealthyAfter = r.UnhealthyAfter.Duration
	}
	if r.TaintedAfter != nil {
		t.TaintedAfter = r.TaintedAfter.Duration
	}
	for _, c := range r.UnhealthyConditions {
		t.Conditions = append(t.Conditions, ConditionType(c))
	}
	if most := r.MaxInFlight; most != nil {
		t.MaxMembers, t.MaxZones = numberOf(most.Members), numberOf(most.Zones)
	}
	if r.StopAbove != nil {
		t.StopAbove = r.StopAbove.Zones
	}
	for _, taint := range r.Taints {
		rule := TaintRule{Key: taint.Key, Ignore: taint.Action == v1alpha1.TaintIgnore}
		if taint.After != nil {
			rule.After = taint.After.Duration
		}
		t.Taints = append(t.Taints, rule)
	}
	return t
}

func numberOf(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
