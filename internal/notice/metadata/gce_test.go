package metadata

import (
	"testing"
	"time"

	"usher.sh/usher/internal/notice"
)

func TestGCEMaintenance(t *testing.T) {
	announced := func(kind notice.Kind, value, message string) read {
		return read{name: value, body: value + "\n", notices: []notice.Notice{{
			Source: notice.GCE, Kind: kind, Event: value, Node: "node-1", EffectiveTime: in(time.Minute), Message: message,
		}}}
	}
	check(t, []read{
		{name: "none", body: "NONE"},
		announced(notice.Maintenance, "MIGRATE_ON_HOST_MAINTENANCE", "Google Cloud moves the machine to another host while it runs"),
		announced(notice.Termination, "TERMINATE_ON_HOST_MAINTENANCE", "Google Cloud stops the machine for maintenance of its host"),
		{name: "not known", body: "DANCE", wrong: `"DANCE" is not a known maintenance event`},
		{name: "nothing", body: "", wrong: `"" is not a known maintenance event`},
		{name: "HTML", body: "<html>", wrong: `"<html>" is not a known maintenance event`},
	}, GCEMaintenance)
}

func TestGCEPreempted(t *testing.T) {
	check(t, []read{
		{name: "no", body: "FALSE"},
		{name: "yes", body: "TRUE", notices: []notice.Notice{{
			Source: notice.GCE, Kind: notice.SpotInterruption, Event: "preempted", Node: "node-1", EffectiveTime: in(30 * time.Second),
			Message: "Google Cloud preempts the machine",
		}}},
		{name: "in lower case", body: "true", wrong: `"true" is neither TRUE nor FALSE`},
		{name: "nothing", body: "", wrong: `"" is neither TRUE nor FALSE`},
		{name: "HTML", body: "<html>", wrong: `"<html>" is neither TRUE nor FALSE`},
	}, GCEPreempted)
}
