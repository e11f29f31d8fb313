package etcd

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
)

// alarms are those of the cluster; known is false if no voter answered the request for them.
type alarms struct {
	known bool
	all   []Alarm
}

// evidence turns a view into facts. Each member is found by its name, if no other has that name, and by its id.
func (v *view) evidence(a alarms, maxLag int64, asked []string) *eviction.Evidence {
	e := &eviction.Evidence{
		System:  v.systemFacts(a, maxLag),
		Members: map[string]expression.Facts{},
		Summary: v.summary(a),
	}
	for _, s := range v.members {
		facts := v.memberFacts(s, a, maxLag)
		if v.unique(s.Name) {
			e.Members[s.Name] = facts
		}
		if id := hexID(s.ID); slices.Contains(asked, id) && e.Members[id] == nil {
			e.Members[id] = facts
		}
	}
	return e
}

func (v *view) unique(name string) bool {
	same := slices.DeleteFunc(slices.Clone(v.members), func(s *memberState) bool { return s.Name != name })
	return name != "" && len(same) == 1
}

func (v *view) systemFacts(a alarms, maxLag int64) expression.Facts {
	voters := v.voters()
	facts := expression.Facts{
		"members":       int64(len(v.members)),
		"learners":      int64(len(v.members) - len(voters)),
		"voters":        int64(len(voters)),
		"healthyVoters": int64(len(voters) - len(unhealthy(voters))),
		"quorum":        int64(v.quorum),
		"agreed":        v.leader != nil,
		"leaders":       list(v.leaders),
		"unhealthy":     unhealthy(voters),
		"maxLag":        maxLag,
	}
	if v.leader != nil {
		facts["leader"] = v.leader.label()
		facts["leaderId"] = hexID(v.leader.ID)
	}
	if a.known {
		facts["alarms"] = a.names(func(Alarm) bool { return true })
		facts["corrupt"] = v.corrupt(a)
	}
	return facts
}

func (v *view) memberFacts(s *memberState, a alarms, maxLag int64) expression.Facts {
	others := v.others(s)
	ready := slices.DeleteFunc(slices.Clone(others), func(o *memberState) bool { return !o.healthy() || !o.caughtUp(maxLag) })
	facts := expression.Facts{
		"name":             s.label(),
		"memberId":         hexID(s.ID),
		"learner":          s.Learner,
		"leader":           v.called[s.ID],
		"healthy":          s.healthy(),
		"unhealthyBecause": s.why,
		"votersWithout":    int64(len(ready)),
		"quorumWithout":    len(ready) >= v.quorum,
		"othersUnhealthy":  unhealthy(others),
		"othersBehind":     behind(others, maxLag),
	}
	if s.answered() {
		facts["isolated"] = s.isolated
		facts["appliedIndex"] = number(s.status.Applied)
		facts["lag"] = number(s.lag)
		facts["version"] = s.status.Version
	}
	if a.known {
		facts["alarms"] = a.names(func(x Alarm) bool { return x.Member == s.ID })
	}
	return facts
}

func (s *memberState) caughtUp(maxLag int64) bool { return number(s.lag) <= maxLag }

func unhealthy(voters []*memberState) []string {
	names := []string{}
	for _, s := range voters {
		if !s.healthy() {
			names = append(names, fmt.Sprintf("%s (%s)", s.label(), s.why))
		}
	}
	return names
}

func behind(voters []*memberState, maxLag int64) []string {
	names := []string{}
	for _, s := range voters {
		if s.answered() && !s.caughtUp(maxLag) {
			names = append(names, fmt.Sprintf("%s (%d entries)", s.label(), s.lag))
		}
	}
	return names
}

func (a alarms) names(of func(Alarm) bool) []string {
	names := []string{}
	for _, x := range a.all {
		if of(x) && !slices.Contains(names, x.Name) {
			names = append(names, x.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (v *view) corrupt(a alarms) []string {
	names := []string{}
	for _, x := range a.all {
		switch {
		case x.Name != Corrupt:
		case x.Member == 0:
			names = append(names, "a member that etcd does not name")
		default:
			names = append(names, v.nameOf(x.Member))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (v *view) summary(a alarms) string {
	voters := v.voters()
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d voters healthy", len(voters)-len(unhealthy(voters)), len(voters))
	if n := len(v.members) - len(voters); n > 0 {
		fmt.Fprintf(&b, ", learners: %d", n)
	}
	switch {
	case v.leader != nil:
		fmt.Fprintf(&b, ", %s leads", v.leader.label())
	case len(v.leaders) > 1:
		fmt.Fprintf(&b, ", no agreement on the leader: %s", strings.Join(v.leaders, ", "))
	default:
		b.WriteString(", no leader")
	}
	if !a.known {
		b.WriteString(", alarms not known")
	}
	for _, name := range a.names(func(Alarm) bool { return true }) {
		b.WriteString(", alarm " + name)
	}
	return b.String()
}

// list is never nil, so that a rule may take its size.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// number fits an index into what rules count with.
func number(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
