package show

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

var noticed = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func someNotices() Notices {
	spot := notice.Notice{Source: notice.EC2, Kind: notice.SpotInterruption, Event: "e1", Node: "n1", EffectiveTime: noticed.Add(90 * time.Second), Message: "terminate"}
	of := func(change func(*notice.Standing)) notice.Standing {
		s := notice.Standing{Notice: spot, Maintenance: "notice-n1", Action: notice.Drain, Since: noticed.Add(-30 * time.Second), DeadlineTime: noticed.Add(85 * time.Second), State: notice.Draining}
		change(&s)
		return s
	}
	return Notices{
		Now: noticed,
		Standing: []notice.Standing{
			of(func(s *notice.Standing) { s.PodCount, s.Warnings = 3, someWarnings }),
			of(func(s *notice.Standing) {
				s.State, s.PodCount, s.Message = notice.Blocked, 1, "a budget\x1b[31m allows none"
			}),
			of(func(s *notice.Standing) {
				s.State, s.BeginTime, s.DeadlineTime = notice.Planned, noticed.Add(time.Hour), time.Time{}
			}),
			of(func(s *notice.Standing) {
				s.Action, s.State, s.BeginTime, s.DeadlineTime = notice.Cordon, notice.Planned, noticed.Add(time.Hour), time.Time{}
			}),
			of(func(s *notice.Standing) { s.State, s.EffectiveTime = notice.Drained, noticed.Add(-time.Minute) }),
			of(func(s *notice.Standing) {
				s.State, s.EffectiveTime, s.Kind = notice.GivingBack, time.Time{}, notice.Problem
			}),
		},
		Reported: []notice.OnlyReported{{Node: "n2", Kind: notice.Rebalance, Since: noticed.Add(-time.Minute), Message: "ec2: Rebalance\x1b[0m"}},
	}
}

func TestNotices(t *testing.T) {
	if diff := cmp.Diff([]string{
		"n1  SpotInterruption in 1m30s, by ec2 30s ago",
		"       Draining: 3 pods to leave; it has 1m25s (NodeMaintenance notice-n1)",
		"         WillBeLost, 3 pods",
		"           shop/db-0: it will be lost with the node",
		"             kubectl edit pdb -n shop db",
		"           shop/db-1: it will be lost with the node",
		"           and 1 more pod",
		"         LocalStorage, 40 pods",
		"n1  SpotInterruption in 1m30s, by ec2 30s ago",
		"       Blocked: 1 pod to leave: a budget allows none; it has 1m25s (NodeMaintenance notice-n1)",
		"n1  SpotInterruption in 1m30s, by ec2 30s ago",
		"       Planned: it begins in 1h (NodeMaintenance notice-n1)",
		"n1  SpotInterruption in 1m30s, by ec2 30s ago",
		"       Planned (Cordon): it begins in 1h (NodeMaintenance notice-n1)",
		"n1  SpotInterruption 1m ago, by ec2 30s ago",
		"       Drained (NodeMaintenance notice-n1)",
		"n1  Problem, by ec2 30s ago",
		"       GivingBack (NodeMaintenance notice-n1)",
		"n2  Rebalance, 1m ago",
		"       Reported: ec2: Rebalance",
	}, someNotices().Lines(0, Paint{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"no notice stands"}, Notices{}.Lines(0, Paint{})); diff != "" {
		t.Error(diff)
	}
}

func TestNoticesJSON(t *testing.T) {
	text, err := someNotices().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"reason": "LocalStorage", "count": 40.0}, all[0]["warnings"].([]any)[1]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	delete(all[0], "warnings")
	if diff := cmp.Diff(map[string]any{
		"node": "n1", "kind": "SpotInterruption", "source": "ec2", "event": "e1", "state": "Draining", "since": "2026-11-29T11:59:30Z", "reason": "terminate",
		"maintenance": "notice-n1", "action": "Drain", "pods": 3.0, "effectiveTime": "2026-11-29T12:01:30Z", "secondsLeft": 90.0, "deadlineTime": "2026-11-29T12:01:25Z",
	}, all[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"node": "n2", "kind": "Rebalance", "state": "Reported", "since": "2026-11-29T11:59:00Z", "reason": "ec2: Rebalance\x1b[0m"}, all[6]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := (Notices{}).JSON(); err != nil || string(text) != "[]" {
		t.Errorf("%s, %v", text, err)
	}
}
