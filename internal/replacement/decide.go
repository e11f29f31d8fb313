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
	// Members are all of the policy.
	Members []Member
	// Available: the system does its work. Nothing is marked unless that is known.
	Available Answer
	// Suspended: nothing is begun for the policy.
	Suspended bool
}

// Decision is what follows.
type Decision struct {
	// Records are to be remembered, in the order of the input's members.
	Records []Record
	// Mark are the members that get a successor now.
	Mark []Marked
	// Blocked are members whose condition has stood for long enough, and that get none now.
	Blocked []Blocked
	// NextLook is when a condition or a taint will have stood for long enough; zero: none does, unless something changes.
	NextLook time.Time
}

// Marked is a member that gets a successor, and why.
type Marked struct {
	Member    v1alpha1.MemberRef
	Condition Condition
}

// Blocked is a member that gets no successor yet, and what that waits for.
type Blocked struct {
	Marked
	Blocker
}

// Decide says which members get a successor now. Those that have been unhealthy for longest come first.
func Decide(in Input) Decision {
	d := decider{Input: &in, busy: map[string]bool{}}
	due := d.look()
	slices.SortStableFunc(due, func(a, b candidate) int {
		return cmp.Or(a.condition.StartTime.Compare(b.condition.StartTime), cmp.Compare(a.member.Role, b.member.Role), cmp.Compare(a.member.ID, b.member.ID))
	})
	for _, c := range due {
		marked := Marked{Member: c.member.MemberRef, Condition: c.condition}
		if blocker := d.blocker(c.member); blocker.Reason != "" {
			d.out.Blocked = append(d.out.Blocked, Blocked{Marked: marked, Blocker: blocker})
			continue
		}
		d.out.Mark = append(d.out.Mark, marked)
		d.begin(c.member)
	}
	return d.out
}

type decider struct {
	*Input

	out      Decision
	inFlight int
	busy     map[string]bool // zones with members in flight
	affected []string        // zones with unhealthy members
	zones    int
}

// candidate is a member whose condition has stood for long enough.
type candidate struct {
	member    *Member
	condition Condition
}

// look observes all members, counts what is in flight, and returns those that are due.
func (d *decider) look() []candidate {
	var due []candidate
	zones := map[string]bool{}
	for i := range d.Members {
		m := &d.Members[i]
		record := Observe(m, &d.Terms, d.Now)
		d.out.Records = append(d.out.Records, record)
		zones[m.Zone] = true
		if m.Marked && m.Facts.Excluded != Yes {
			d.begin(m)
		}
		if d.unhealthy(&record) && !slices.Contains(d.affected, m.Zone) {
			d.affected = append(d.affected, m.Zone)
		}
		if condition, is := d.due(m, &record); is {
			due = append(due, candidate{member: m, condition: condition})
		}
	}
	d.zones = len(zones)
	slices.Sort(d.affected)
	return due
}

// begin counts a member as in flight.
func (d *decider) begin(m *Member) {
	d.inFlight++
	d.busy[m.Zone] = true
}

// unhealthy reports whether a condition stands that would lead to a replacement in time.
func (d *decider) unhealthy(record *Record) bool {
	return slices.ContainsFunc(record.Conditions, func(c Condition) bool { return d.Terms.counts(c.Type) })
}

// due returns the oldest of the conditions that have stood for long enough. Those that have not are looked at again when they will have.
func (d *decider) due(m *Member, record *Record) (oldest Condition, is bool) {
	if m.Marked {
		return Condition{}, false
	}
	for _, c := range record.Conditions {
		at := c.StartTime.Add(d.Terms.window(c.Type))
		switch {
		case !d.Terms.counts(c.Type):
		case at.After(d.Now):
			d.lookAt(at)
		case !is || c.StartTime.Before(oldest.StartTime):
			oldest, is = c, true
		}
	}
	if m.Paused == "" && !slices.ContainsFunc(record.Conditions, func(c Condition) bool { return c.Type == NodeTainted }) {
		for _, clock := range record.Taints {
			if rule := d.Terms.ruleFor(clock.Key); rule != nil && d.Terms.counts(NodeTainted) {
				d.lookAt(clock.StartTime.Add(rule.After))
			}
		}
	}
	if m.Facts.HasPod == Yes && !m.Facts.Pod.DeletionTime.IsZero() && m.Facts.Pod.Healthy && m.Paused == "" {
		d.lookAt(m.Facts.Pod.DeletionTime.Add(slowDeletion))
	}
	return oldest, is
}

// lookAt notes a time in the future at which to look again.
func (d *decider) lookAt(at time.Time) {
	if at.After(d.Now) && (d.out.NextLook.IsZero() || at.Before(d.out.NextLook)) {
		d.out.NextLook = at
	}
}

// blocker says why a member that is due is not marked; without a reason it is.
func (d *decider) blocker(m *Member) Blocker {
	switch {
	case !d.Terms.Automatic:
		return repairDisabled(m.ID)
	case d.Suspended:
		return suspended()
	case m.Paused != "":
		return memberPaused(m.Paused)
	case d.Available != Yes:
		return systemUnavailable()
	}
	if most := d.Terms.mostUnhealthyZones(d.zones); len(d.affected) > most {
		return tooManyZones(named(d.affected), d.zones, most)
	}
	return d.limited(m)
}

// limited blocks where as many members, or members of as many zones, are in flight as may be. In a zone that has some any number may be, as
// long as no more zones have some than may (source 002, maxConcurrentReplacements).
func (d *decider) limited(m *Member) Blocker {
	switch {
	case d.Terms.MaxMembers > 0:
		if d.inFlight < d.Terms.MaxMembers {
			return Blocker{}
		}
		return inFlight(text.Count(d.inFlight, "member"))
	case d.Terms.MaxZones == 0 || len(d.busy) > d.Terms.MaxZones || len(d.busy) == d.Terms.MaxZones && !d.busy[m.Zone]:
		return inFlight("members of " + text.Count(len(d.busy), "zone"))
	}
	return Blocker{}
}

// named are zones as they are shown.
func named(zones []string) []string {
	all := slices.Clone(zones)
	for i := range all {
		all[i] = cmp.Or(all[i], "unknown")
	}
	return all
}
