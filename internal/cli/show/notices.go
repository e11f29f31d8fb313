package show

import (
	"encoding/json"
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// Notices lists the notices that nodes will go.
type Notices struct {
	Standing []notice.Standing
	Reported []notice.OnlyReported
	Now      time.Time
}

// Lines is the list for people.
func (n Notices) Lines(width int, paint Paint) []string {
	if len(n.Standing)+len(n.Reported) == 0 {
		return []string{"no notice stands"}
	}
	var lines []string
	for i := range n.Standing {
		s := &n.Standing[i]
		head := paint.strong(clean(s.Node)) + "  " + string(s.Kind)
		if left, known := s.Left(n.Now); known {
			head += leftWords(left)
		}
		lines = append(lines, head+", by "+string(s.Source)+" "+Span(max(0, n.Now.Sub(s.Since)))+" ago")
		lines = append(lines, indented(n.words(s), "       ", width)...)
		lines = append(lines, WarningLines(s.Warnings, "         ", width)...)
	}
	for i := range n.Reported {
		r := &n.Reported[i]
		lines = append(lines, paint.strong(clean(r.Node))+"  "+clean(string(r.Kind))+", "+Span(max(0, n.Now.Sub(r.Since)))+" ago")
		lines = append(lines, indented("Reported: "+clean(r.Message), "       ", width)...)
	}
	return lines
}

func leftWords(left time.Duration) string {
	if left <= 0 {
		return " " + Span(-left) + " ago"
	}
	return " in " + Span(left)
}

// words say what came of a notice.
func (n Notices) words(s *notice.Standing) string {
	words := string(s.State)
	if s.Action != notice.Drain && s.State == notice.Planned {
		words += " (" + string(s.Action) + ")"
	}
	if s.PodCount > 0 {
		words += ": " + text.Count(s.PodCount, "pod") + " to leave"
	}
	switch {
	case s.State == notice.Planned && s.BeginTime.After(n.Now):
		words += ": it begins in " + Span(s.BeginTime.Sub(n.Now))
	case s.Message != "":
		words += ": " + clean(s.Message)
	}
	if s.Action == notice.Drain && s.State != notice.Drained && s.State != notice.GivingBack && s.DeadlineTime.After(n.Now) {
		words += "; it has " + Span(s.DeadlineTime.Sub(n.Now))
	}
	return words + " (NodeMaintenance " + s.Maintenance + ")"
}

// JSON is the list for programs.
func (n Notices) JSON() ([]byte, error) {
	all := []noticeJSON{}
	for i := range n.Standing {
		s := &n.Standing[i]
		j := noticeJSON{
			Node: s.Node, Kind: string(s.Kind), Source: string(s.Source), Event: s.Event, State: string(s.State), Since: s.Since.UTC(), Reason: s.Notice.Message, Message: s.Message,
			Maintenance: s.Maintenance, Action: string(s.Action), Warnings: s.Warnings, Pods: s.PodCount, EffectiveTime: timeJSON(s.EffectiveTime), EndTime: timeJSON(s.EndTime), BeginTime: timeJSON(s.BeginTime), DeadlineTime: timeJSON(s.DeadlineTime),
		}
		if left, known := s.Left(n.Now); known {
			j.SecondsLeft = new(left.Seconds())
		}
		all = append(all, j)
	}
	for i := range n.Reported {
		r := &n.Reported[i]
		all = append(all, noticeJSON{Node: r.Node, Kind: string(r.Kind), State: "Reported", Since: r.Since.UTC(), Reason: r.Message})
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("listing notices: %w", err)
	}
	return text, nil
}

// timeJSON is a time that is left out where it is zero.
func timeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

type noticeJSON struct {
	Node          string     `json:"node"`
	Kind          string     `json:"kind"`
	Source        string     `json:"source,omitempty"`
	Event         string     `json:"event,omitempty"`
	State         string     `json:"state"`
	Since         time.Time  `json:"since"`
	Reason        string     `json:"reason,omitempty"`
	Message       string     `json:"message,omitempty"`
	Maintenance   string     `json:"maintenance,omitempty"`
	Action        string     `json:"action,omitempty"`
	Pods          int        `json:"pods,omitempty"`
	EffectiveTime *time.Time `json:"effectiveTime,omitempty"`
	SecondsLeft   *float64   `json:"secondsLeft,omitempty"`
	EndTime       *time.Time `json:"endTime,omitempty"`
	BeginTime     *time.Time `json:"beginTime,omitempty"`
	DeadlineTime  *time.Time `json:"deadlineTime,omitempty"`

	Warnings []v1alpha1.MaintenanceWarning `json:"warnings,omitempty"`
}
