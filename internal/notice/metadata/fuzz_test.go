package metadata

import (
	"strings"
	"testing"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// FuzzAnswers has every function read what none of these services would say.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", "<html>", "NONE", "TRUE", "FALSE", "Terminated", "2026-09-18T08:02:00Z", "MIGRATE_ON_HOST_MAINTENANCE",
		`{"action":"terminate","time":"2026-09-18T08:02:00Z"}`, `{"noticeTime":"2026-09-18T08:02:00Z"}`,
		`[{"NotBefore":"21 Sep 2026 09:00:43 GMT","Code":"system-reboot","EventId":"e","State":"active"}]`, azure(), azure("Scheduled", "Started"),
	} {
		f.Add([]byte(seed))
	}
	functions := map[string]func(Asked, []byte) (Answer, error){
		"EC2SpotAction": EC2SpotAction, "EC2TerminationTime": EC2TerminationTime, "EC2Rebalance": EC2Rebalance, "EC2Scheduled": EC2Scheduled,
		"EC2Lifecycle": EC2Lifecycle, "GCEMaintenance": GCEMaintenance, "GCEPreempted": GCEPreempted,
		"AzureEvents": func(asked Asked, body []byte) (Answer, error) {
			document, err := AzureEvents(asked, "vm1", body)
			return document.Answer, err
		},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, function := range functions {
			answer, err := function(asked, body)
			if err != nil {
				if len(answer.Notices) > 0 || answer.Unread != "" {
					t.Errorf("%s: an error, and an answer %+v", name, answer)
				}
				if !text.Printable(err.Error()) || len(err.Error()) > 1000 {
					t.Errorf("%s: the error %q", name, err)
				}
				continue
			}
			wellFormed(t, name, answer)
		}
		if machine, err := AzureMachine(body); err == nil && strings.ContainsAny(machine, " \n<") {
			t.Errorf("a machine called %q", machine)
		}
	})
}

// wellFormed fails where an answer could not be kept or shown, or names an event twice.
func wellFormed(t *testing.T, name string, answer Answer) {
	t.Helper()
	events := map[string]bool{}
	for _, n := range answer.Notices {
		switch {
		case n.Node != asked.Node, n.Source != notice.EC2 && n.Source != notice.GCE && n.Source != notice.Azure, n.Kind == "", !usableID(n.Event):
			t.Errorf("%s: %+v", name, n)
		case events[n.Event]:
			t.Errorf("%s: %s twice", name, n.Event)
		case n.Message == "" || len(n.Message) > mostMessage || text.Line(n.Message) != n.Message:
			t.Errorf("%s: the message %q", name, n.Message)
		}
		events[n.Event] = true
	}
	if len(answer.Unread) > mostMessage || text.Line(answer.Unread) != answer.Unread {
		t.Errorf("%s: unread %q", name, answer.Unread)
	}
}
