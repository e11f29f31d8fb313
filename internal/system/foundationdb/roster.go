package foundationdb

import (
	"fmt"
	"sync"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// roster is what is known of the members beside the status: the IPs of their pods, and since when they have no process in the status. A status does
// not say the latter, so a manager that has just begun counts from then: it waits longer. Its methods may be called by several goroutines at once.
type roster struct {
	mu   sync.Mutex
	ips  map[string]string  // by the member's id
	gone map[string]absence // by the member's id
}

type absence struct {
	role  string
	since time.Time
}

// see takes in the members. A status that is not complete says nothing of their processes, and one whose pod has a process of another id is not missed.
func (r *roster) see(v *view, members []system.Member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ips = map[string]string{}
	for _, m := range members {
		if m.Pod != nil && m.Pod.IP != "" {
			r.ips[m.ID] = m.Pod.IP
		}
	}
	if v.Problem() != "" {
		return
	}
	gone := map[string]absence{}
	for _, m := range members {
		if len(v.processes(m)) > 0 || v.otherInstance(m) != "" {
			continue
		}
		gone[m.ID] = absence{role: m.Role, since: now}
		if known, ok := r.gone[m.ID]; ok && !known.since.After(now) {
			gone[m.ID] = absence{role: m.Role, since: known.since}
		}
	}
	r.gone = gone
}

// member is the one of a step, with the IP of its pod.
func (r *roster) member(ref v1alpha1.MemberRef) system.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return system.Member{MemberRef: ref, Pod: &snapshot.Pod{Name: ref.PodName, IP: r.ips[ref.ID]}}
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

// others counts the other members of a role that have been without a process for the wait, and says which of them may be about to come back; "": none.
func (r *roster) others(id, role string, wait time.Duration, now time.Time) (lost int, returning string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, known := range r.gone {
		switch age := now.Sub(known.since); {
		case other == id || known.role != role:
		case age >= wait:
			lost++
		case returning == "" || other < returning:
			returning = other
		}
	}
	if returning != "" {
		age := now.Sub(r.gone[returning].since)
		returning = fmt.Sprintf("%s of the same role has had no process in the status for %.0f s, and counts as lost after %.0f s", returning, age.Seconds(), wait.Seconds())
	}
	return lost, returning
}
