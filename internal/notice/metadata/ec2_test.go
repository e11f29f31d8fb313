package metadata

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

// asked is at eight o'clock.
var asked = Asked{Node: "node-1", Now: time.Date(2026, 9, 18, 8, 0, 0, 0, time.UTC)}

func in(d time.Duration) time.Time { return asked.Now.Add(d) }

// read is what is read of an answer.
type read struct {
	name    string
	body    string
	notices []notice.Notice
	unread  string
	wrong   string // the error
}

func check(t *testing.T, reads []read, function func(Asked, []byte) (Answer, error)) {
	t.Helper()
	for _, r := range reads {
		t.Run(r.name, func(t *testing.T) {
			got, err := function(asked, []byte(r.body))
			wrong := ""
			if err != nil {
				wrong = err.Error()
			}
			if diff := cmp.Diff(r.wrong, wrong); diff != "" {
				t.Errorf("the error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Answer{Notices: r.notices, Unread: r.unread}, got); diff != "" {
				t.Errorf("the answer (-want +got):\n%s", diff)
			}
		})
	}
}

func interruption(at time.Time, message string) []notice.Notice {
	return []notice.Notice{{
		Source: notice.EC2, Kind: notice.SpotInterruption, Event: "interruption", Node: "node-1", EffectiveTime: at, Message: message,
	}}
}

func TestEC2SpotAction(t *testing.T) {
	check(t, []read{
		{
			name: "terminate", body: `{"action": "terminate", "time": "2026-09-18T08:02:00Z"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: terminate at 2026-09-18T08:02:00Z"),
		},
		{
			name: "stop", body: `{"action":"stop","time":"2026-09-18T08:01:30Z"}` + "\n",
			notices: interruption(in(90*time.Second), "EC2 takes the spot instance back: stop at 2026-09-18T08:01:30Z"),
		},
		{
			name: "hibernation begins at once, whatever the time", body: `{"action":"hibernate","time":"2026-09-18T08:02:00Z"}`,
			notices: interruption(in(0), "EC2 takes the spot instance back: hibernate at 2026-09-18T08:02:00Z"),
		},
		{
			name: "another time zone", body: `{"action":"terminate","time":"2026-09-18T10:02:00+02:00"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: terminate at 2026-09-18T10:02:00+02:00"),
		},
		{
			name: "a time that has passed", body: `{"action":"terminate","time":"2026-09-18T07:59:00Z"}`,
			notices: interruption(in(-time.Minute), "EC2 takes the spot instance back: terminate at 2026-09-18T07:59:00Z"),
		},
		{
			name: "no time: it goes all the same, after the usual notice", body: `{"action":"terminate"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: terminate at"),
		},
		{
			name: "a time that cannot be read", body: `{"action":"terminate","time":"tomorrow"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: terminate at tomorrow"),
		},
		{
			name: "an action that is not known", body: `{"action":"evaporate","time":"2026-09-18T08:02:00Z"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: evaporate at 2026-09-18T08:02:00Z"),
		},
		{
			name: "what a terminal obeys is not kept", body: `{"action":"terminate\u001b[2J","time":"2026-09-18T08:02:00Z"}`,
			notices: interruption(in(2*time.Minute), "EC2 takes the spot instance back: terminate at 2026-09-18T08:02:00Z"),
		},
		{name: "no action", body: `{"time":"2026-09-18T08:02:00Z"}`, wrong: `"{\"time\":\"2026-09-18T08:02:00Z\"}" names no action`},
		{name: "null", body: `null`, wrong: `"null" names no action`},
		{name: "nothing", body: ``, wrong: `"" is not the JSON that was expected: unexpected end of JSON input`},
		{name: "HTML", body: `<html>`, wrong: `"<html>" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
		{
			name: "another type", body: `{"action":1}`,
			wrong: `"{\"action\":1}" is not the JSON that was expected: json: cannot unmarshal number into Go struct field .Action of type string`,
		},
		{
			name: "cut off", body: `{"action":"terminate","ti`,
			wrong: `"{\"action\":\"terminate\",\"ti" is not the JSON that was expected: unexpected end of JSON input`,
		},
	}, EC2SpotAction)
}

func TestEC2TerminationTime(t *testing.T) {
	const message = "EC2 takes the spot instance back: terminate at 2026-09-18T08:02:00Z"
	check(t, []read{
		{name: "a time", body: "2026-09-18T08:02:00Z", notices: interruption(in(2*time.Minute), message)},
		{name: "a time on a line", body: "2026-09-18T08:02:00Z\n", notices: interruption(in(2*time.Minute), message)},
		{name: "HTML", body: "<!DOCTYPE html>", wrong: `"<!DOCTYPE html>" is not a time`},
		{name: "nothing", body: "", wrong: `"" is not a time`},
	}, EC2TerminationTime)
}

func TestEC2Rebalance(t *testing.T) {
	check(t, []read{
		{
			name: "a recommendation, which has no time at which anything happens", body: `{"noticeTime":"2026-09-18T07:55:00Z"}`,
			notices: []notice.Notice{{
				Source: notice.EC2, Kind: notice.Rebalance, Event: "rebalance", Node: "node-1",
				Message: "EC2 says since 2026-09-18T07:55:00Z that the spot instance is likelier than before to be interrupted",
			}},
		},
		{name: "no time", body: `{}`, wrong: `"{}" has no noticeTime`},
		{name: "HTML", body: `<p>`, wrong: `"<p>" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
	}, EC2Rebalance)
}

func TestEC2Scheduled(t *testing.T) {
	scheduled := func(kind notice.Kind, id, message string) notice.Notice {
		return notice.Notice{
			Source: notice.EC2, Kind: kind, Event: id, Node: "node-1", EffectiveTime: time.Date(2026, 9, 21, 9, 0, 43, 0, time.UTC),
			Message: message,
		}
	}
	const times = `"NotBefore":"21 Sep 2026 09:00:43 GMT","NotAfter":"21 Sep 2026 09:17:23 GMT"`
	ofCode := func(kind notice.Kind, code string) read {
		return read{
			name: code, body: `[{` + times + `,"Code":"` + code + `","Description":"scheduled","EventId":"instance-event-1","State":"active"}]`,
			notices: []notice.Notice{scheduled(kind, "instance-event-1",
				"EC2 has scheduled "+code+", from 21 Sep 2026 09:00:43 GMT to 21 Sep 2026 09:17:23 GMT: scheduled")},
		}
	}
	ofState := func(state string, withdrawn bool) read {
		r := ofCode(notice.Reboot, "system-reboot")
		r.name = "state " + state
		r.body = `[{` + times + `,"Code":"system-reboot","Description":"scheduled","EventId":"instance-event-1","State":"` + state + `"}]`
		r.notices[0].Withdrawn = withdrawn
		return r
	}
	noTime := scheduled(notice.Reboot, "e", "EC2 has scheduled system-reboot, from soon to : ")
	noTime.Message, noTime.EffectiveTime = "EC2 has scheduled system-reboot, from soon to :", time.Time{}
	check(t, []read{
		ofCode(notice.Reboot, "instance-reboot"),
		ofCode(notice.Reboot, "system-reboot"),
		ofCode(notice.Maintenance, "system-maintenance"),
		ofCode(notice.Termination, "instance-retirement"),
		ofCode(notice.Termination, "instance-stop"),
		ofCode(notice.Maintenance, "instance-polish"), // not known
		ofState("active", false),
		ofState("completed", true),
		ofState("canceled", true),
		ofState("postponed", false), // not known: it stands
		{name: "none", body: `[]`},
		{
			name: "the earliest time of an event counts, and that it is over where nothing says that it stands",
			body: `[{"NotBefore":"22 Sep 2026 09:00:43 GMT","EventId":"b","Code":"x","State":"completed"},
				{"NotBefore":"21 Sep 2026 09:00:43 GMT","EventId":"b","Code":"y","State":"active"},
				{"NotBefore":"23 Sep 2026 09:00:43 GMT","EventId":"a","Code":"z","State":"canceled"}]`,
			notices: []notice.Notice{
				{
					Source: notice.EC2, Kind: notice.Maintenance, Event: "a", Node: "node-1", Withdrawn: true,
					EffectiveTime: time.Date(2026, 9, 23, 9, 0, 43, 0, time.UTC), Message: "EC2 has scheduled z, from 23 Sep 2026 09:00:43 GMT to :",
				},
				{
					Source: notice.EC2, Kind: notice.Maintenance, Event: "b", Node: "node-1",
					EffectiveTime: time.Date(2026, 9, 21, 9, 0, 43, 0, time.UTC), Message: "EC2 has scheduled y, from 21 Sep 2026 09:00:43 GMT to :",
				},
			},
		},
		{
			name: "a time that cannot be read is not known", body: `[{"NotBefore":"soon","EventId":"e","Code":"system-reboot","State":"active"}]`,
			notices: []notice.Notice{noTime},
		},
		{
			name: "one without an id hides no other", unread: "an event system-reboot has no usable id",
			body:    `[{"Code":"system-reboot","State":"active"},{"NotBefore":"soon","EventId":"e","Code":"system-reboot","State":"active"}]`,
			notices: []notice.Notice{noTime},
		},
		{name: "an object", body: `{}`, wrong: `"{}" is not the JSON that was expected: json: cannot unmarshal object into Go value of type []metadata.ec2Scheduled`},
		{name: "null", body: `null`, wrong: `"null" is no list of events`},
		{name: "HTML", body: `<html>`, wrong: `"<html>" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
		{name: "too many", body: "[" + repeated(`{"EventId":"e"}`, 101) + "]", wrong: "it has 101 events; at most 100 are of one instance"},
	}, EC2Scheduled)
}

func TestEC2Lifecycle(t *testing.T) {
	out := func(kind notice.Kind, state string) read {
		return read{name: state, body: state, notices: []notice.Notice{{
			Source: notice.EC2, Kind: kind, Event: "lifecycle", Node: "node-1",
			Message: "the Auto Scaling group takes the instance out: its target state is " + state,
		}}}
	}
	check(t, []read{
		out(notice.Termination, "Terminated"),
		out(notice.Termination, "Warmed:Terminated"),
		out(notice.Shutdown, "Warmed:Stopped"),
		out(notice.Shutdown, "Warmed:Hibernated"),
		{name: "InService", body: "InService"},
		{name: "Detached", body: "Detached"},
		{name: "Standby", body: "Standby\n"},
		{name: "Warmed:Running", body: "Warmed:Running"},
		{name: "not known", body: "Levitating", wrong: `"Levitating" is not a known target state`},
		{name: "HTML", body: "<html>", wrong: `"<html>" is not a known target state`},
		{name: "nothing", body: "", wrong: `"" is not a known target state`},
	}, EC2Lifecycle)
}
