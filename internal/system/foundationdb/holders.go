package foundationdb

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

// countedAfter is how long a process has to be gone until FoundationDB is sure to count its copies as lost: it takes a minute, in which the status says
// that all copies are there and as many zones may fail as ever.
const countedAfter = 2 * time.Minute

// concealedFor is how long a process has to be gone until FoundationDB was always seen to count its copies as lost.
const concealedFor = 90 * time.Second

// longestBlind is how long no look may have shown how the data is. In more a maintenance may have begun and ended, or a process come back and gone again, and
// either conceals anew what was counted as lost.
const longestBlind = 10 * time.Second

// holders are the processes that may hold data, in the status or gone from it a moment ago, by the key that the status has for them; and the members of which
// no process was ever seen. The zero value has none.
type holders struct {
	processes map[string]holder
	emptied   map[string]*status.Process // those in the status that are excluded and have no data
	unseen    map[string]holder          // by the member's id
	seen      map[string]bool            // the members of which a process was seen
	looked    time.Time                  // when a status said last how the data is
	unsure    bool                       // whether something was missing then, or a status since has not said it
}

type holder struct {
	name, zone string
	gone       time.Time // since when it is not in the status; zero: it is
	maintained string    // the zone that was under maintenance last and may be its own
	until      time.Time // when that was seen
}

// goneSince is since when FoundationDB may find out that a process is gone. Beside a zone that is under maintenance: if it is of another one, of which that conceals nothing.
func (h holder) goneSince(zone string) time.Time {
	if zone != "" && h.maintained == zone || h.until.Before(h.gone) {
		return h.gone
	}
	return h.until
}

// conceal has a zone be under maintenance, which may be the holder's own. What the one before has concealed is so until its end, whichever of them it is.
func (h holder) conceal(zone string, now time.Time) holder {
	if h.maintained != zone {
		h.gone, h.maintained = h.goneSince(""), zone
	}
	h.until = now
	return h
}

// restart has all that is gone be gone no earlier than at a time.
func (h *holders) restart(at time.Time) {
	for _, of := range []map[string]holder{h.processes, h.unseen} {
		for key, one := range of {
			if !one.gone.IsZero() && one.gone.Before(at) {
				one.gone = at
				of[key] = one
			}
		}
	}
}

// conceal has all that is gone of a zone be concealed by the maintenance of it, also where its zone is not known.
func (h *holders) conceal(zone string, now time.Time) {
	for _, of := range []map[string]holder{h.processes, h.unseen} {
		for key, one := range of {
			if !one.gone.IsZero() && (one.zone == "" || one.zone == zone) {
				of[key] = one.conceal(zone, now)
			}
		}
	}
}

// look takes in a complete status. While a zone is under maintenance FoundationDB counts what is gone there as there, so the time begins at its end; what is gone
// of other zones it counts as ever. What is gone is known until its copies were made anew elsewhere: until then a maintenance that begins conceals it again. Where
// nothing is missing any more, and no look has shown for a while how the data was, it may be concealed only since now.
func (h *holders) look(v *view, members []system.Member, now time.Time) {
	lacking := v.NotTolerant("") != ""
	if zone := v.Cluster.MaintenanceZone; zone != "" {
		h.conceal(zone, now)
	}
	if h.unsure && !lacking && now.Sub(h.looked) > longestBlind {
		h.restart(now.Add(concealedFor - countedAfter))
	}
	if h.unsure = lacking; v.CopiesKnown() {
		h.looked = now
	}
	processes := h.present(v, now)
	for key, one := range h.processes {
		if v.Cluster.Processes[key] != nil {
			continue
		}
		if one.gone.IsZero() {
			one.gone = now
		}
		if now.Sub(one.goneSince("")) < countedAfter || lacking {
			processes[key] = one
		}
	}
	h.processes = processes
	h.lookForMembers(v, members, now)
}

// present are the processes that may hold data, of those in the status. One that was empty at the look before counts as well where it has gone and nothing
// excludes it any more: it may have been given data again.
func (h *holders) present(v *view, now time.Time) map[string]holder {
	processes, emptied := map[string]holder{}, map[string]*status.Process{}
	for key, p := range v.Cluster.Processes {
		switch _, known := h.processes[key]; {
		case v.emptied(p):
			emptied[key] = p
		case known || p.MayHoldData():
			processes[key] = holder{name: nameOf(p), zone: cmp.Or(p.Zone(), h.processes[key].zone)}
		}
	}
	for key, p := range h.emptied {
		if v.Cluster.Processes[key] == nil && len(v.ExclusionsOf(p)) == 0 {
			processes[key] = holder{name: nameOf(p), zone: p.Zone(), gone: now}
		}
	}
	h.emptied = emptied
	return processes
}

func nameOf(p *status.Process) string { return cmp.Or(p.Instance(), p.HostPort()) }

// fresh reports whether a member has not begun: its MemberSet has not seen it do its work, and no process of it was seen here.
func (h *holders) fresh(m system.Member) bool { return m.Joining && !h.seen[m.ID] }

// ran reports whether processes of a member may have run: its pod has been on a node. Of several one may have data before its MemberSet has seen all.
func ran(m system.Member) bool { return m.Pod != nil && m.Pod.IP != "" }

// lookForMembers takes in members without a process, of which it is not known what they had.
func (h *holders) lookForMembers(v *view, members []system.Member, now time.Time) {
	unseen, seen := map[string]holder{}, map[string]bool{}
	for _, m := range members {
		known, missed := h.unseen[m.ID]
		switch {
		case h.seen[m.ID] || len(v.processes(m)) > 0 || v.otherInstance(m) != "":
			seen[m.ID] = true
		case h.fresh(m) && !ran(m): // it had nothing
		case missed:
			unseen[m.ID] = known
		default:
			unseen[m.ID] = holder{name: m.ID, gone: now}
		}
	}
	h.unseen, h.seen = unseen, seen
}

// uncounted says what has gone and may be counted as there; "": nothing. What is in a zone, which is under maintenance, is left out, and what may be in it
// counts as long as it would in another; "": nothing is.
func (h *holders) uncounted(zone string, now time.Time) string {
	var names []string
	for _, of := range []map[string]holder{h.processes, h.unseen} {
		for _, one := range of {
			if age := now.Sub(one.goneSince(zone)); !one.gone.IsZero() && age < countedAfter && (zone == "" || one.zone != zone) {
				names = append(names, text.Name(one.name))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("no processes in the status any more: %s; FoundationDB may count what they have as there for %.0f s, and while their zone is under maintenance",
		text.List(slices.Compact(names), 5), countedAfter.Seconds())
}

// emptied reports whether the process is excluded and has no data, by the cluster's list and by its roles.
func (v *view) emptied(p *status.Process) bool {
	return p.IsExcluded() && !p.HasData() && v.unlisted == "" && !v.isDraining(p) && (v.byLocality() || v.hasAddress(p))
}
