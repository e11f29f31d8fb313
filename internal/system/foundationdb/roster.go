package foundationdb

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
)

// roster is what is known of the members and of processes beside the status: the IPs of the members' pods, and since when what there was is not in the
// status any more. A status does not say the latter, so a manager that has just begun counts from then: it waits longer. Its methods may be called by
// several goroutines at once.
type roster struct {
	mu      sync.Mutex
	members []system.Member              // as they were last observed; nil: they never were
	gone    map[string]absence           // by the member's id
	emptied map[string][]*status.Process // by the member's id: those that were excluded and empty when they were last in a status, and are excluded still
	holders holders
	looked  time.Time // when a status was complete last
}

type absence struct {
	role    string
	since   time.Time
	removed bool // by its MemberSet
	fresh   bool // it has not done its work yet, and was never seen
}

// longestGap is how long no status may have been looked at, or none complete, while what is not in it counts as missing all the time.
const longestGap = 2 * time.Minute

// know takes over the members.
func (r *roster) know(members []system.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = append([]system.Member{}, members...)
}

// known reports whether the members were observed.
func (r *roster) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members != nil
}

// look takes in a status. One that is not complete says nothing of processes, and a member whose pod has a process of another id is not missed.
func (r *roster) look(v *view, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.Problem() != "" {
		r.holders.unsure = true
		return
	}
	if gap := now.Sub(r.looked); gap < 0 || gap > longestGap {
		r.gone, r.emptied = nil, nil
		r.holders.restart(now)
	}
	r.looked = now
	gone, emptied := map[string]absence{}, map[string][]*status.Process{}
	for _, m := range r.members {
		processes := v.processes(m)
		if were := r.emptied[m.ID]; v.empty(m, processes) {
			emptied[m.ID] = processes
		} else if len(processes) == 0 && len(were) > 0 && v.coversAll(were) {
			emptied[m.ID] = were
		}
		if len(processes) > 0 || v.otherInstance(m) != "" {
			continue
		}
		since := now
		if known, ok := r.gone[m.ID]; ok {
			since = known.since
		}
		gone[m.ID] = absence{role: m.Role, since: since, removed: m.Removed, fresh: r.holders.fresh(m)}
	}
	r.gone, r.emptied = gone, emptied
	r.holders.look(v, r.members, now)
}

// uncounted says what has gone of which FoundationDB may not have found out yet; "": nothing. What is in a zone is left out; "": nothing is.
func (r *roster) uncounted(zone string, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holders.uncounted(zone, now)
}

// member is the one of a step, with the IP of its pod.
func (r *roster) member(ref v1alpha1.MemberRef) system.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.members, func(m system.Member) bool { return m.ID == ref.ID && m.Pod != nil })
	if at < 0 {
		return system.Member{MemberRef: ref, Pod: &snapshot.Pod{Name: ref.PodName}}
	}
	return system.Member{MemberRef: ref, Pod: &snapshot.Pod{Name: ref.PodName, IP: r.members[at].Pod.IP}, Address: r.members[at].Address}
}

// empties reports whether a member is emptied by its MemberSet.
func (r *roster) empties(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.members, func(m system.Member) bool { return m.ID == id && m.Emptied })
}

// leaving are the processes of members that are about to leave: their pods go, or they are to be replaced.
func (r *roster) leaving(v *view) []*status.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*status.Process
	for _, m := range r.members {
		if m.Leaves || m.Pod != nil && !m.Pod.Deletion.IsZero() {
			all = append(all, v.processes(m)...)
		}
	}
	return all
}

// missing is how long a member has been without a process; 0 where it has one.
func (r *roster) missing(id string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.gone[id]
	if !ok {
		return 0
	}
	return max(0, now.Sub(known.since))
}

// others are the other members of a role that have been without a process for the wait, and which of them may be about to come back; "": none. One that
// went once it was emptied, or that its MemberSet has removed, is not missed: its data is elsewhere. Neither is one
// that has not begun: others are none the fewer for it.
func (r *roster) others(id, role string, wait time.Duration, now time.Time) (lost []string, returning string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, known := range r.gone {
		switch age := now.Sub(known.since); {
		case other == id || known.role != role || known.removed || known.fresh || len(r.emptied[other]) > 0:
		case age >= wait:
			lost = append(lost, other)
		case returning == "" || other < returning:
			returning = other
		}
	}
	if returning != "" {
		age := now.Sub(r.gone[returning].since)
		returning = fmt.Sprintf("%s of the same role has had no process in the status for %.0f s, and counts as lost after %.0f s", returning, age.Seconds(), wait.Seconds())
	}
	slices.Sort(lost)
	return lost, returning
}
