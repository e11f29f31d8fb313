package metadata

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/notice"
)

// Ids of events to which EC2 gives none. An instance has one of each at most.
const (
	EventInterruption = "interruption"
	EventRebalance    = "rebalance"
	EventLifecycle    = "lifecycle"
)

// ec2SpotNotice is how long before an interruption EC2 says so.
const ec2SpotNotice = 2 * time.Minute

// EC2SpotAction reads /latest/meta-data/spot/instance-action.
func EC2SpotAction(asked Asked, body []byte) (Answer, error) {
	var said struct{ Action, Time string }
	if err := decode(body, &said); err != nil {
		return Answer{}, err
	}
	if said.Action == "" {
		return Answer{}, fmt.Errorf("%s names no action", quote(body))
	}
	n := notice.Notice{
		Source: notice.EC2, Kind: notice.SpotInterruption, Event: EventInterruption, Node: asked.Node,
		Message: line(fmt.Sprintf("EC2 takes the spot instance back: %s at %s", said.Action, said.Time)),
	}
	at, err := time.Parse(time.RFC3339, said.Time)
	if err != nil { // that it goes is certain
		at = asked.Now.Add(ec2SpotNotice)
	}
	if said.Action == "hibernate" { // begins with the notice
		at = earliest(at, asked.Now)
	}
	n.EffectiveTime = at.UTC()
	return Answer{Notices: []notice.Notice{n}}, nil
}

// EC2TerminationTime reads /latest/meta-data/spot/termination-time, which is older than EC2SpotAction's and names the same event.
func EC2TerminationTime(asked Asked, body []byte) (Answer, error) {
	at, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(body)))
	if err != nil {
		return Answer{}, fmt.Errorf("%s is not a time", quote(body))
	}
	return Answer{Notices: []notice.Notice{{
		Source: notice.EC2, Kind: notice.SpotInterruption, Event: EventInterruption, Node: asked.Node, EffectiveTime: at.UTC(),
		Message: line(fmt.Sprintf("EC2 takes the spot instance back: terminate at %s", at.UTC().Format(time.RFC3339))),
	}}}, nil
}

// EC2Rebalance reads /latest/meta-data/events/recommendations/rebalance. It does not say when an interruption would come, or that one will.
func EC2Rebalance(asked Asked, body []byte) (Answer, error) {
	var said struct{ NoticeTime string }
	if err := decode(body, &said); err != nil {
		return Answer{}, err
	}
	if said.NoticeTime == "" {
		return Answer{}, fmt.Errorf("%s has no noticeTime", quote(body))
	}
	return Answer{Notices: []notice.Notice{{
		Source: notice.EC2, Kind: notice.Rebalance, Event: EventRebalance, Node: asked.Node,
		Message: line(fmt.Sprintf("EC2 says since %s that the spot instance is likelier than before to be interrupted", said.NoticeTime)),
	}}}, nil
}

// ec2Codes are the codes of scheduled events. A stopped instance does not come up again by itself.
var ec2Codes = map[string]notice.Kind{
	"instance-reboot":     notice.Reboot,
	"system-reboot":       notice.Reboot,
	"system-maintenance":  notice.Maintenance,
	"instance-retirement": notice.Termination,
	"instance-stop":       notice.Termination,
}

// ec2ScheduledTime is how scheduled events have their times.
const ec2ScheduledTime = "2 Jan 2006 15:04:05 GMT"

// ec2Scheduled is one of them.
type ec2Scheduled struct{ NotBefore, NotAfter, Code, Description, EventID, State string }

// EC2Scheduled reads /latest/meta-data/events/maintenance/scheduled.
func EC2Scheduled(asked Asked, body []byte) (Answer, error) {
	var said []ec2Scheduled
	if err := decode(body, &said); err != nil {
		return Answer{}, err
	}
	switch {
	case said == nil:
		return Answer{}, fmt.Errorf("%s is no list of events", quote(body))
	case len(said) > mostEvents:
		return Answer{}, fmt.Errorf("it has %d events; at most %d are of one instance", len(said), mostEvents)
	}
	var answer Answer
	for i := range said {
		n, unread := said[i].notice(asked)
		if unread != "" {
			answer.Unread = unread
			continue
		}
		answer.Notices = append(answer.Notices, n)
	}
	answer.Notices = once(answer.Notices)
	return answer, nil
}

// notice is what the event says, or why it cannot be read. A time that cannot be read is not known: these events are announced days before,
// and none says how many.
func (e *ec2Scheduled) notice(asked Asked) (n notice.Notice, unread string) {
	if !usableID(e.EventID) {
		return n, line(fmt.Sprintf("an event %s has no usable id", e.Code))
	}
	kind, known := ec2Codes[e.Code]
	if !known {
		kind = notice.Maintenance
	}
	n = notice.Notice{
		Source: notice.EC2, Kind: kind, Event: e.EventID, Node: asked.Node,
		Withdrawn: e.State == "completed" || e.State == "canceled",
		Message:   line(fmt.Sprintf("EC2 has scheduled %s, from %s to %s: %s", e.Code, e.NotBefore, e.NotAfter, e.Description)),
	}
	if at, err := time.Parse(ec2ScheduledTime, e.NotBefore); err == nil {
		n.EffectiveTime = at
	}
	return n, ""
}

// What the states of an instance in an Auto Scaling group mean for it. A warmed instance returns to the pool.
var (
	ec2Ends  = []string{"Terminated", "Warmed:Terminated"}
	ec2Stops = []string{"Warmed:Stopped", "Warmed:Hibernated"}
	ec2Stays = []string{"InService", "Detached", "Standby", "Warmed:Running"}
)

// EC2Lifecycle reads /latest/meta-data/autoscaling/target-lifecycle-state. How long the group waits is not said there.
func EC2Lifecycle(asked Asked, body []byte) (Answer, error) {
	state := string(bytes.TrimSpace(body))
	n := notice.Notice{
		Source: notice.EC2, Kind: notice.Termination, Event: EventLifecycle, Node: asked.Node,
		Message: line(fmt.Sprintf("the Auto Scaling group takes the instance out: its target state is %s", state)),
	}
	switch {
	case slices.Contains(ec2Stays, state):
		return None(), nil
	case slices.Contains(ec2Stops, state):
		n.Kind = notice.Shutdown
	case !slices.Contains(ec2Ends, state):
		return Answer{}, fmt.Errorf("%s is not a known target state", quote(body))
	}
	return Answer{Notices: []notice.Notice{n}}, nil
}
