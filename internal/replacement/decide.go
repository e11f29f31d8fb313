package replacement

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Input is everything that a decision looks at.
type Input struct {
	Now   time.Time
	Terms Terms
	// Namespace and Policy are those of the members, for what a person is advised to type.
	Namespace, Policy string
	// Members are all of the policy: those that have a pod, those that its system lists, and those for which a ReplacementRequest stands.
	// What the last decision has marked is marked in the next one's.
	Members []Member
	// Available: the system does its work. Nothing is marked unless that is known.
	Available Tristate
	// Suspended: nothing is begun for the policy.
	Suspended bool
}

// Decision is what follows.
type Decision struct {
	// Records are to be remembered, in the order of the input's members.
	Records []Record
	// Mark are the members that get a successor now.
	Mark []Due
	// Blocked are members whose condition has stood for long enough, and that get none now.
	Blocked []Blocked
	// NextLook is when a condition or a taint will have stood for long enough; zero: none does, unless something changes.
	NextLook time.Time
}

// Due is a member with a condition that has stood for long enough.
type Due struct {
	Member    v1alpha1.MemberRef
	Condition Condition
}

// Blocked is a member that is due and gets no successor yet, and all that it waits for.
type Blocked struct {
	Due

	Blockers []Blocker
}

// Decide says which members get a successor now. Those that have been unhealthy for longest come first.
func Decide(in Input) Decision {
	d := decider{Input: &in, busy: map[string]bool{}}
	due := d.look()
	slices.SortStableFunc(due, func(a, b candidate) int {
		return cmp.Or(a.condition.StartTime.Compare(b.condition.StartTime), cmp.Compare(a.member.Role, b.member.Role), cmp.Compare(a.member.ID, b.member.ID))
	})
	for i := range due {
		c := &due[i]
		is := Due{Member: c.member.MemberRef, Condition: c.condition}
		if blockers := d.blockers(c); len(blockers) > 0 {
			d.out.Blocked = append(d.out.Blocked, Blocked{Due: is, Blockers: blockers})
			continue
		}
		d.out.Mark = append(d.out.Mark, is)
		d.begin(c.zone)
	}
	return d.out
}

type decider struct {
	*Input

	out      Decision
	inFlight int
	busy     map[string]bool // zones with members in flight
	affected []string        // zones with unhealthy members
	unzoned  int             // unhealthy members whose zone is not known
	zones    int
}

// candidate is a member that is due.
type candidate struct {
	member    *Member
	zone      string
	condition Condition
	seen      bool // by this look
}

// look observes all members, counts what is in flight, and returns those that are due.
func (d *decider) look() []candidate {
	var due []candidate
	zones := map[string]bool{}
	for i := range d.Members {
		m := &d.Members[i]
		record, seen := Observe(m, &d.Terms, d.Now)
		d.out.Records = append(d.out.Records, record)
		if record.Zone != "" {
			zones[record.Zone] = true
		}
		if m.Marked && !m.Held && m.Facts.Emptied != Yes {
			d.begin(record.Zone)
		}
		if m.Paused == "" {
			d.affect(&record)
		}
		if c, is := d.due(m, &record, seen); is {
			due = append(due, c)
		}
	}
	d.zones = len(zones)
	slices.Sort(d.affected)
	return due
}

// begin counts a member as in flight. Those whose zone is not known count as one zone (source 002).
func (d *decider) begin(zone string) {
	d.inFlight++
	d.busy[zone] = true
}

// affect counts the zone of a member with a condition that would lead to a replacement in time. A zone that is not known may be any.
func (d *decider) affect(record *Record) {
	switch {
	case !slices.ContainsFunc(record.Conditions, func(c Condition) bool { return d.Terms.counts(c.Type) }):
	case record.Zone == "":
		d.unzoned++
	case !slices.Contains(d.affected, record.Zone):
		d.affected = append(d.affected, record.Zone)
	}
}

// due returns the oldest of the conditions that have stood for long enough, of those that this look has seen before others.
func (d *decider) due(m *Member, record *Record, seen []ConditionType) (oldest candidate, is bool) {
	if m.Marked {
		return candidate{}, false
	}
	d.lookLater(m, record)
	for _, c := range record.Conditions {
		if !d.Terms.counts(c.Type) || c.StartTime.Add(d.Terms.window(c.Type)).After(d.Now) {
			continue
		}
		next := candidate{member: m, zone: record.Zone, condition: c, seen: slices.Contains(seen, c.Type)}
		if !is || next.seen && !oldest.seen || next.seen == oldest.seen && c.StartTime.Before(oldest.condition.StartTime) {
			oldest, is = next, true
		}
	}
	return oldest, is
}

// lookLater notes when a condition of a member will have stood for long enough, or is set, if nothing changes.
func (d *decider) lookLater(m *Member, record *Record) {
	tainted := false
	for _, c := range record.Conditions {
		tainted = tainted || c.Type == NodeTainted
		if d.Terms.counts(c.Type) {
			d.lookAt(c.StartTime.Add(d.Terms.window(c.Type)))
		}
	}
	if m.Paused != "" {
		return
	}
	for _, clock := range record.Taints {
		if rule := d.Terms.ruleFor(clock.Key); rule != nil && !tainted && d.Terms.counts(NodeTainted) {
			d.lookAt(clock.StartTime.Add(rule.After))
		}
	}
	if pod := &m.Facts.Pod; m.Facts.HasPod == Yes && pod.Healthy && !pod.Pending && !pod.DeletionTime.IsZero() && d.Terms.counts(PodFailing) {
		d.lookAt(pod.DeletionTime.Add(slowDeletion))
	}
}

// lookAt notes a time in the future at which to look again.
func (d *decider) lookAt(at time.Time) {
	if at.After(d.Now) && (d.out.NextLook.IsZero() || at.Before(d.out.NextLook)) {
		d.out.NextLook = at
	}
}

// blockers are all that keep a member that is due from being marked.
func (d *decider) blockers(c *candidate) []Blocker {
	var all []Blocker
	command := replaceCommand(c.member.MemberRef, d.Namespace, d.Policy)
	if !d.Terms.Automatic {
		all = append(all, repairDisabled(command))
	}
	if d.Suspended {
		all = append(all, suspended())
	}
	if c.member.Paused != "" {
		all = append(all, memberPaused(c.member.Paused, command))
	} else if !c.seen {
		all = append(all, notSeen(c.condition.Type))
	}
	if c.member.Unfit != nil {
		all = append(all, *c.member.Unfit)
	}
	if d.Available != Yes {
		all = append(all, systemUnavailable(d.Available == No))
	}
	if most, err := d.Terms.mostUnhealthyZones(d.zones); err != nil {
		all = append(all, badStopAbove(err))
	} else if len(d.affected)+d.unzoned > most {
		all = append(all, tooManyZones(d.affected, d.unzoned, d.zones, most))
	}
	if held := d.limited(c.zone); held != "" {
		all = append(all, inFlight(held))
	}
	return all
}

// limited names what is in flight where it is as much as may be. In a zone that has some any number of members may be, as long as no more
// zones have some than may (source 002, maxConcurrentReplacements).
func (d *decider) limited(zone string) string {
	switch t := &d.Terms; {
	case t.MaxMembers == 0 && t.MaxZones == 0:
		return text.Count(0, "member")
	case t.MaxMembers > 0 && d.inFlight >= t.MaxMembers:
		return text.Count(d.inFlight, "member")
	case t.MaxMembers == 0 && (len(d.busy) > t.MaxZones || len(d.busy) == t.MaxZones && !d.busy[zone]):
		return "members of " + text.Count(len(d.busy), "zone")
	}
	return ""
}
