package eviction

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// Roster is what pods say of all members of a policy. It is made once for all verdicts of one look, since an id is an expression.
type Roster struct {
	members map[types.UID]rosterMember // by their pods
}

type rosterMember struct {
	id, role string // id "": not known
	pod      string
	node     string // "" where nothing of it runs any more
	ready    bool   // and it stays
	fixed    bool   // it cannot be evicted: its controller or its kubelet would have it back at once
}

// NewRoster lists the members that a policy has among the pods, which must be all of its namespace.
func NewRoster(policy Declared, pods []*snapshot.Pod) *Roster {
	roster := &Roster{members: map[types.UID]rosterMember{}}
	for _, pod := range pods {
		roster.Add(policy, pod)
	}
	return roster
}

// Add lists the member that a policy has in a pod, if it has one. A pod that is listed already is as it was added last. The roster shares
// no memory with the pod, which may be of megabytes.
func (r *Roster) Add(policy Declared, pod *snapshot.Pod) {
	if pod.Namespace != policy.Key.Namespace {
		return
	}
	claim, ok := policy.Policy.Claim(pod)
	if !ok || claim.Role == nil {
		return
	}
	listed := rosterMember{
		id: strings.Clone(claim.Member), role: claim.Role.Name, pod: strings.Clone(pod.Name),
		ready: pod.Ready && !pod.Terminating() && !pod.Finished(), fixed: !claim.Load && (pod.Mirror || pod.Owner.DaemonSet()),
	}
	if !pod.Finished() {
		listed.node = strings.Clone(pod.Node)
	}
	r.members[pod.UID] = listed
}

// leastSettle is how long a member counts at least after it was seen gone where a role's verdict rests on which pods are Ready:
// until then the cache of a replica may show its pod Ready, and the permit alone says that it is not.
const leastSettle = 10 * time.Second

// settleReady sets leastSettle, for the members of all roles, since a rule may ask for all.
func (p *Policy) settleReady() {
	if !slices.ContainsFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.roster }) {
		return
	}
	for _, entry := range p.entries {
		if entry.role != nil {
			entry.role.settle = max(entry.role.settle, leastSettle)
		}
	}
}

// roster returns the one of the policy that claims the judged pod, nil if it was not made.
func (j *judgement) roster() *Roster {
	if j.in.Rosters == nil {
		return nil
	}
	return j.in.Rosters[j.policy.Key]
}

// staying are the ids of other members, of one role or of all (""), that have a Ready pod without a permit.
func (j *judgement) staying(role string) []string {
	var ids []string
	for uid, m := range j.roster().members {
		leaves := uid == j.uid() || m.id == j.verdict.Member || slices.Contains(j.leaving, m.id)
		if m.id != "" && m.ready && !leaves && (role == "" || m.role == role) {
			ids = append(ids, m.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unready are the ids of the policy's other members without a Ready pod that stays. nil: not known.
func (j *judgement) unready() []string {
	if j.roster() == nil {
		return nil
	}
	staying, ids := j.staying(""), slices.Clone(j.leaving)
	for _, m := range j.roster().members {
		if m.id != "" && m.id != j.verdict.Member && !slices.Contains(staying, m.id) {
			ids = append(ids, m.id)
		}
	}
	slices.Sort(ids)
	return append([]string{}, slices.Compact(ids)...)
}

// here are the policy's other members on the judged one's node. nil: not known.
func (j *judgement) here() []expression.Here {
	if j.roster() == nil || j.in.Pod == nil || j.in.Pod.Node == "" {
		return nil
	}
	all := []expression.Here{}
	for uid, m := range j.roster().members {
		if m.id != "" && m.node == j.in.Pod.Node && uid != j.in.Pod.UID {
			all = append(all, expression.Here{ID: m.id, Role: m.role})
		}
	}
	slices.SortFunc(all, func(a, b expression.Here) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID)) })
	return all
}

// keepFloor blocks a Ready member without which too few of its role would be Ready. One that is not Ready is missed already, also when the members were listed, which may be
// later than its pod was read.
func (j *judgement) keepFloor() {
	if listed := j.roster() != nil && j.roster().members[j.uid()].ready; j.role.minReady == 0 || !j.in.Pod.Ready && !listed {
		return
	}
	if j.roster() == nil {
		j.block(readyUnknown(j.role))
		return
	}
	if staying := j.staying(j.role.declared.Name); len(staying) < j.role.minReady {
		j.block(tooFewReady(staying, j.role))
	}
}
