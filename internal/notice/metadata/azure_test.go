package metadata

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

func repeated(what string, times int) string {
	return strings.TrimSuffix(strings.Repeat(what+",", times), ",")
}

// azure is a document of one event, changed.
func azure(change ...string) string {
	event := `{"EventId":"e1","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["vm1"],"EventStatus":"Scheduled","NotBefore":"Fri, 18 Sep 2026 08:15:00 GMT","Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":-1}`
	return `{"DocumentIncarnation":7,"Events":[` + strings.NewReplacer(change...).Replace(event) + `]}`
}

// inner is the event of such a document.
func inner(document string) string {
	return strings.TrimSuffix(strings.TrimPrefix(document, `{"DocumentIncarnation":7,"Events":[`), `]}`)
}

func rebooted(change func(*notice.Notice)) []notice.Notice {
	n := notice.Notice{
		Source: notice.Azure, Kind: notice.Reboot, Event: "e1", Node: "node-1", EffectiveTime: in(15 * time.Minute),
		Message: "Azure: Reboot, by the platform: Host server is undergoing maintenance.",
	}
	if change != nil {
		change(&n)
	}
	return []notice.Notice{n}
}

func TestAzureEvents(t *testing.T) {
	approvable := []string{"e1"}
	tests := []struct {
		name  string
		body  string
		want  AzureDocument
		wrong string
	}{
		{name: "none", body: `{"DocumentIncarnation":1,"Events":[]}`, want: AzureDocument{Incarnation: 1}},
		{name: "a reboot", body: azure(), want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, approvable}},
		{
			name: "a machine's name in another case", body: azure("vm1", "VM1"),
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, approvable},
		},
		{name: "another machine's", body: azure("vm1", "vm2"), want: AzureDocument{Incarnation: 7}},
		{name: "another machine's with a name that begins with this one's", body: azure("vm1", "vm11"), want: AzureDocument{Incarnation: 7}},
		{name: "of what is no machine", body: azure("VirtualMachine", "Disk"), want: AzureDocument{Incarnation: 7}},
		{
			name: "of several machines: it cannot be approved for one", body: azure(`"vm1"`, `"vm2","vm1"`),
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, nil},
		},
		{
			name: "begun", body: azure("Scheduled", "Started", "Fri, 18 Sep 2026 08:15:00 GMT", ""),
			want: AzureDocument{Answer{Notices: rebooted(func(n *notice.Notice) { n.EffectiveTime = in(0) })}, 7, nil},
		},
		{
			name: "begun before its time", body: azure("Scheduled", "Started"),
			want: AzureDocument{Answer{Notices: rebooted(func(n *notice.Notice) { n.EffectiveTime = in(0) })}, 7, nil},
		},
		{
			name: "no time is now", body: azure("Fri, 18 Sep 2026 08:15:00 GMT", ""),
			want: AzureDocument{Answer{Notices: rebooted(func(n *notice.Notice) { n.EffectiveTime = in(0) })}, 7, approvable},
		},
		{
			name: "a time that cannot be read: the least notice", body: azure("Fri, 18 Sep 2026 08:15:00 GMT", "soon"),
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, approvable},
		},
		{
			name: "a user's, of known length", body: azure("Platform", "User", "-1", "9"),
			want: AzureDocument{Answer{Notices: rebooted(func(n *notice.Notice) {
				n.Message = "Azure: Reboot, asked for by a user, for 9 s: Host server is undergoing maintenance."
			})}, 7, approvable},
		},
		{
			name: "fields that later versions do not have", body: azure(`,"Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":-1`, ""),
			want: AzureDocument{Answer{Notices: rebooted(func(n *notice.Notice) { n.Message = "Azure: Reboot" })}, 7, approvable},
		},
		{
			name: "a status that is not known: it stands, and is not approved", body: azure("Scheduled", "Postponed"),
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, nil},
		},
		{
			name: "no id", body: azure(`"EventId":"e1"`, `"EventId":""`),
			want: AzureDocument{Answer{Unread: "an event Reboot of this machine has no usable id"}, 7, nil},
		},
		{
			name: "an id that a terminal obeys", body: azure(`e1`, `\u001b[2J`),
			want: AzureDocument{Answer{Unread: "an event Reboot of this machine has no usable id"}, 7, nil},
		},
		{
			name: "no machines", body: azure(`"vm1"`, ``),
			want: AzureDocument{Answer{Unread: "an event Reboot names no machine"}, 7, nil},
		},
		{
			name: "an event twice", body: `{"DocumentIncarnation":7,"Events":[` + repeated(inner(azure()), 2) + `]}`,
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, approvable},
		},
		{
			name: "an event twice, once of several machines",
			body: `{"DocumentIncarnation":7,"Events":[` + inner(azure()) + `,` + inner(azure(`"vm1"`, `"vm1","vm2"`)) + `]}`,
			want: AzureDocument{Answer{Notices: rebooted(nil)}, 7, nil},
		},
		{name: "nothing of it", body: `{}`, wrong: `"{}" is no list of scheduled events: DocumentIncarnation or Events is missing`},
		{name: "no events", body: `{"DocumentIncarnation":1}`, wrong: `"{\"DocumentIncarnation\":1}" is no list of scheduled events: DocumentIncarnation or Events is missing`},
		{name: "events that are null", body: `{"DocumentIncarnation":1,"Events":null}`, wrong: `"{\"DocumentIncarnation\":1,\"Events\":null}" is no list of scheduled events: DocumentIncarnation or Events is missing`},
		{name: "HTML", body: `<html>`, wrong: `"<html>" is not the JSON that was expected: invalid character '<' looking for beginning of value`},
		{name: "too many", body: `{"DocumentIncarnation":1,"Events":[` + repeated("{}", 1001) + `]}`, wrong: "it has 1001 events; at most 1000 are read"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := AzureEvents(asked, "vm1", []byte(test.body))
			wrong := ""
			if err != nil {
				wrong = err.Error()
			}
			if diff := cmp.Diff(test.wrong, wrong); diff != "" {
				t.Errorf("the error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAzureTypes(t *testing.T) {
	for kind, want := range map[string]struct {
		kind  notice.Kind
		least time.Duration
	}{
		"Freeze":    {notice.Maintenance, 15 * time.Minute},
		"Reboot":    {notice.Reboot, 15 * time.Minute},
		"Redeploy":  {notice.Redeploy, 10 * time.Minute},
		"Preempt":   {notice.SpotInterruption, 30 * time.Second},
		"Terminate": {notice.Termination, 5 * time.Minute},
		"Reshape":   {notice.Maintenance, 30 * time.Second}, // not known
	} {
		got, err := AzureEvents(asked, "vm1", []byte(azure(`"Reboot"`, fmt.Sprintf("%q", kind), "Fri, 18 Sep 2026 08:15:00 GMT", "?")))
		if err != nil {
			t.Fatal(err)
		}
		if n := got.Notices[0]; n.Kind != want.kind || !n.EffectiveTime.Equal(in(want.least)) {
			t.Errorf("%s is %s at %v, want %s at %v", kind, n.Kind, n.EffectiveTime, want.kind, in(want.least))
		}
	}
}

func TestAzureMachine(t *testing.T) {
	for body, want := range map[string]string{
		"vm1": "vm1", "vmss_3\n": "vmss_3", "": "", "<html>": "", "two words": "", `{"error":"Bad request"}`: "", strings.Repeat("a", 129): "",
	} {
		if got, err := AzureMachine([]byte(body)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", body, got, err, want)
		}
	}
}

func TestAzureApproval(t *testing.T) {
	got, err := AzureApproval(`e"1`)
	if want := `{"StartRequests":[{"EventId":"e\"1"}]}`; string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
