package eviction

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/expression"
)

// mostID is how long a member's id may be, in bytes. An id is made of what the pod's author has written, and is kept of every member.
const mostID = 1 << 10

// Claim says that an entry of a policy claims a pod.
type Claim struct {
	Policy snapshot.Key
	Entry  int            // index in spec.members
	Role   *v1alpha1.Role // nil where no role has the entry's name
	Member string         // id, "" if Error is set
	Error  string         // why the id is not known
	Load   bool           // the pod stays, and what it carries leaves
	Roster bool           // the member cannot be judged without Input.Rosters
	Locked bool           // it waits for locks of its node
	// StateLabel is the label of nodes that a new pod of the member asks for, "" for none.
	StateLabel string
	// Tolerations says whether the role's tolerations apply where the pod's author has set some.
	Tolerations v1alpha1.TolerationMode
}

// Ref names the member, whose pod it is that was claimed. The claim must have a role.
func (c *Claim) Ref(pod *snapshot.Pod) v1alpha1.MemberRef {
	return v1alpha1.MemberRef{Role: c.Role.Name, ID: c.Member, PodName: pod.Name, PodUID: pod.UID, Node: pod.Node}
}

// role is the name of the claimed member's role, "" where no role has the entry's name.
func (c *Claim) role() string {
	if c.Role == nil {
		return ""
	}
	return c.Role.Name
}

// Claims returns the claims of every policy in the pod's namespace on it, in the order of policies and entries.
func Claims(policies []Declared, pod *snapshot.Pod) []Claim {
	var claims []Claim
	for _, found := range claimants(policies, pod) {
		claims = append(claims, found.claim(pod))
	}
	return claims
}

// ClaimOf returns the claim of the first entry whose members have the role on a member that has no pod. Policy is left empty in it.
func (p *Policy) ClaimOf(role, id string) (Claim, bool) {
	found := p.entryOf(role)
	if found == nil {
		return Claim{}, false
	}
	return Claim{Entry: found.index, Role: found.role.declared, Member: id, Load: found.load, Roster: found.roster()}, true
}

// GuardedBy returns the name of the policy whose label the pod carries, "" for none. Admission sees the DELETE of labelled
// pods only, so that those of a role that asks nothing, which would be let through anyway, do not depend on an answer.
// Where anything but that one role decides, because several policies claim the pod, or its policy is suspended or has
// problems, the pod is guarded.
func GuardedBy(policies []Declared, pod *snapshot.Pod) string {
	found := claimants(policies, pod)
	if unguarded(found) {
		return ""
	}
	return found[0].policy.Key.Name
}

func unguarded(found []claimant) bool {
	if len(found) != 1 {
		return len(found) == 0
	}
	policy, entry := found[0].policy.Policy, found[0].entry
	return len(policy.problems) == 0 && !policy.suspended && entry.role != nil && !entry.counted()
}

// Claim returns the policy's first claim on the pod. Policy is left empty in it.
func (p *Policy) Claim(pod *snapshot.Pod) (Claim, bool) {
	for i := range p.entries {
		if p.entries[i].selects(pod) {
			return p.entries[i].claim(pod), true
		}
	}
	return Claim{}, false
}

// Governs reports whether the pod is the policy's, by its label too: a policy that cannot be read claims none.
func (d *Declared) Governs(pod *snapshot.Pod) bool {
	claims := slices.ContainsFunc(d.Policy.entries, func(e entry) bool { return e.selects(pod) })
	return claims || pod.Labels[v1alpha1.PolicyLabel] == LabelValue(d.Key.Name)
}

// Names reports whether the policy's status speaks of a pod of the name.
func (d *Declared) Names(pod string) bool {
	if d.Status == nil {
		return false
	}
	leaving := func(l v1alpha1.Leaving) bool { return l.PodName == pod }
	prepared := func(p v1alpha1.PreparationStatus) bool { return p.PodName == pod }
	emptied := func(e v1alpha1.Emptied) bool { return e.PodName == pod }
	return slices.ContainsFunc(d.Status.Leaving, leaving) || slices.ContainsFunc(d.Status.Preparations, prepared) || slices.ContainsFunc(d.Status.Emptied, emptied)
}

// claimant is an entry that claims a pod, and its policy.
type claimant struct {
	policy *Declared
	entry  *entry
}

func (c claimant) claim(pod *snapshot.Pod) Claim {
	claim := c.entry.claim(pod)
	claim.Policy = c.policy.Key
	if len(c.policy.Policy.problems) > 0 { // nothing maintains it
		claim.StateLabel = ""
	}
	return claim
}

func claimants(policies []Declared, pod *snapshot.Pod) []claimant {
	var found []claimant
	for i := range policies {
		policy := &policies[i]
		if policy.Key.Namespace != pod.Namespace {
			continue
		}
		for j := range policy.Policy.entries {
			if policy.Policy.entries[j].selects(pod) {
				found = append(found, claimant{policy: policy, entry: &policy.Policy.entries[j]})
			}
		}
	}
	return found
}

func (e *entry) selects(pod *snapshot.Pod) bool { return e.selector.Matches(labels.Set(pod.Labels)) }

func (e *entry) claim(pod *snapshot.Pod) Claim {
	claim := Claim{Entry: e.index, Load: e.load, Tolerations: e.tolerations, Locked: e.nodeLock.waits()}
	if e.nodeLock.holds {
		claim.StateLabel = e.nodeLock.label
	}
	if e.role != nil {
		claim.Role, claim.Roster = e.role.declared, e.roster()
	}
	claim.Member, claim.Error = e.member(pod)
	return claim
}

// member returns the id, or why it is not known.
func (e *entry) member(pod *snapshot.Pod) (id, problem string) {
	if e.id == nil {
		return "", "the policy's expression for the id cannot be used"
	}
	value, err := e.id.Eval(&expression.Scope{Pod: pod})
	if err != nil {
		return "", "the expression for its id (" + e.id.Text + ") gives none: " + err.Error()
	}
	id, _ = value.(string)
	switch {
	case id == "":
		return "", "the expression for its id (" + e.id.Text + ") gives an empty one"
	case len(id) > mostID:
		return "", fmt.Sprintf("the expression for its id (%s) gives one of %d bytes, and the most is %d", e.id.Text, len(id), mostID)
	case !text.Printable(id):
		return "", "the expression for its id (" + e.id.Text + ") gives one with characters that cannot be printed"
	}
	return id, ""
}
