package memberset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// rehearsal is a set in a cluster where all that it waits for happens.
type rehearsal struct {
	in      Input
	storage map[string]*corev1.PersistentVolumeClaimSpec
	serial  int

	contents    contents
	today, most corev1.ResourceList
	going       map[string]departure // by id
	made        []string
	relabelled  []string
	recreating  []string // their pods go for an update, and are there yet
	batches     []Batch
	blockers    []Blocker
	complete    bool
}

type departure struct {
	group, why string
	surplus    bool // without a successor
}

// mostRounds is how many decisions a rehearsal takes at most for each member, which is more than any needs.
const mostRounds = 40

// rehearse has a set do what follows until nothing does. What lets members go happens last, so that there are as many at once as there can be.
func rehearse(p *Prospect) *rehearsal {
	r := &rehearsal{in: p.Input, storage: maps.Clone(p.Storage), going: map[string]departure{}}
	if r.storage == nil {
		r.storage = map[string]*corev1.PersistentVolumeClaimSpec{}
	}
	r.in.Set = p.Set.DeepCopy()
	r.in.Pods, r.in.Claims = slices.Clone(p.Pods), slices.Clone(p.Claims)
	r.in.Services, r.in.Requests = slices.Clone(p.Services), slices.Clone(p.Requests)
	if p.Policy != nil {
		policy := *p.Policy
		policy.Permits = r.permits()
		r.in.Policy = &policy
	}
	for i := range r.in.Pods {
		r.in.Pods[i].Created = time.Time{} // what has ended is made anew some time
	}
	r.underWay()
	r.assumeList()
	r.assumeContents()
	r.today = r.amounts()
	r.most = r.today.DeepCopy()
	rounds := mostRounds
	for round := 0; round < rounds; round++ {
		r.report()
		result := Decide(r.in)
		r.note(&result)
		r.in.Set.Status = result.Status
		rounds = max(rounds, mostRounds*len(result.Status.Members))
		if result.Progress {
			continue
		}
		r.blockers, r.complete = result.decided.blockers, meta.IsStatusConditionTrue(result.Status.Conditions, v1alpha1.ConditionReady)
		changed := r.carryOut(result.Actions)
		r.most = largest(r.most, r.amounts())
		if !changed && !r.leave() && !r.permit() && !r.wait() {
			break
		}
	}
	return r
}

// underWay notes the members that requests stand for already.
func (r *rehearsal) underWay() {
	for i := range r.in.Set.Status.Members {
		m := &r.in.Set.Status.Members[i]
		for j := range r.in.Requests {
			if q := &r.in.Requests[j]; q.Member == m.ID && !q.Over && !q.Deleted {
				r.going[m.ID] = departure{group: m.Group, why: "ReplacementRequest " + q.Name + " stands for it already", surplus: q.Name == surplusRequest(m.ID)}
			}
		}
	}
}

// note takes over what a decision says of members, before its actions change them.
func (r *rehearsal) note(result *Result) {
	for i := range result.Status.Members {
		id := result.Status.Members[i].ID
		if r.in.member(id) == nil && !slices.Contains(r.made, id) {
			r.made = append(r.made, id)
		}
	}
	for i := range result.Actions {
		if m := result.decided.member(result.Actions[i].Member); m != nil {
			r.noteAction(result.decided, m, &result.Actions[i])
		}
	}
}

func (r *rehearsal) noteAction(d *decision, m *v1alpha1.SetMember, a *Action) {
	p := d.pod(m.ID)
	switch a.Kind {
	case Mark:
		r.going[m.ID] = departure{group: m.Group, why: d.reasonOf(m, p, a.Request.Name), surplus: a.Request.Name == surplusRequest(m.ID)}
	case Unmark:
		delete(r.going, m.ID)
	case RelabelPod:
		if a.Labels != nil && !slices.Contains(r.relabelled, m.ID) {
			r.relabelled = append(r.relabelled, m.ID)
		}
	case EvictPod, DeletePod:
		if g := d.group(m.Group); g != nil && !leaving(m) && p != nil && d.outdated(g, m, p) {
			r.recreating = append(r.recreating, m.ID)
		}
	case KeepPod:
		r.recreating = slices.DeleteFunc(r.recreating, func(id string) bool { return id == m.ID })
	default:
	}
}

// reasonOf is why a set makes a request of the name for a member.
func (d *decision) reasonOf(m *v1alpha1.SetMember, p *Pod, request string) string {
	g := d.group(m.Group)
	switch {
	case g == nil:
		return ""
	case request == outdatedRequest(m.ID):
		return d.replaced(g, m, p)
	case request == evictedRequest(m.ID):
		return "the eviction of its pod is asked for"
	case g.PerNode != nil:
		return fmt.Sprintf("its node %s is none of its group", m.ForNode)
	}
	return "it is one too many"
}

func (in *Input) member(id string) *v1alpha1.SetMember {
	at := slices.IndexFunc(in.Set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return &in.Set.Status.Members[at]
}

// leave has the pods go that are asked to, all at once, and the requests that were taken back; and reports whether there were any.
func (r *rehearsal) leave() bool {
	var gone, zones []string
	before := len(r.in.Pods)
	r.in.Pods = slices.DeleteFunc(r.in.Pods, func(p Pod) bool {
		goes := p.Ours && (p.Terminating || p.Asked && r.maintained(&p))
		if goes && slices.Contains(r.recreating, p.Name) {
			gone, zones = append(gone, p.Name), append(zones, p.Zone)
		}
		return goes
	})
	r.recreating = slices.DeleteFunc(r.recreating, func(id string) bool { return slices.Contains(gone, id) }) // others' zones are not under maintenance yet
	if len(gone) > 0 {
		slices.SortFunc(gone, byNumber)
		slices.Sort(zones)
		zones = slices.DeleteFunc(slices.Compact(zones), func(z string) bool { return z == "" })
		r.batches = append(r.batches, Batch{Zones: zones, Members: gone})
	}
	requests := len(r.in.Requests)
	r.in.Requests = slices.DeleteFunc(r.in.Requests, func(q Request) bool { return q.Deleted && !q.Removing || r.in.member(q.Member) == nil })
	return len(r.in.Pods) < before || len(r.in.Requests) < requests
}

// permit has each request let its member go whose set has enough without it, and reports whether there was one.
func (r *rehearsal) permit() bool {
	permitted := false
	for i := range r.in.Requests {
		q := &r.in.Requests[i]
		m := r.in.member(q.Member)
		if m == nil || q.Removing || q.Over || m.Removal == nil || m.Removal.RequestUID != q.UID || m.Removal.Step != v1alpha1.RemovalReplaced {
			continue
		}
		q.Removing, permitted = true, true
	}
	if permitted && r.in.Policy != nil {
		r.in.Policy.Permits = r.permits()
	}
	return permitted
}

// wait lets the time pass until members may be removed again, and reports whether it had to.
func (r *rehearsal) wait() bool {
	d := decision{Input: &r.in, status: r.in.Set.Status}
	next := d.nextRemoval()
	if !r.in.Now.Before(next) {
		return false
	}
	r.in.Now = next
	return true
}

// uid is one that no object has.
func (r *rehearsal) uid() types.UID {
	r.serial++
	return types.UID(fmt.Sprintf("plan-%d", r.serial))
}

// byNumber sorts ids of a group as they were made.
func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }
