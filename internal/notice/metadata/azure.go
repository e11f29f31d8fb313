package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// azureType is what a type of event means, and how long before it Azure says so at least.
type azureType struct {
	kind   notice.Kind
	notice time.Duration
}

var azureTypes = map[string]azureType{
	"Freeze":    {notice.Maintenance, 15 * time.Minute},
	"Reboot":    {notice.Reboot, 15 * time.Minute},
	"Redeploy":  {notice.Redeploy, 10 * time.Minute},
	"Preempt":   {notice.SpotInterruption, 30 * time.Second},
	"Terminate": {notice.Termination, 5 * time.Minute},
}

// azureUnknown is a type that is not among them: it may be any.
var azureUnknown = azureType{notice.Maintenance, 30 * time.Second}

// azureTime is how Azure has times.
const azureTime = "Mon, 02 Jan 2006 15:04:05 GMT"

// AzureDocument is what the scheduled events of Azure say of one machine.
type AzureDocument struct {
	Answer

	// Incarnation grows with each change of the events.
	Incarnation int64
	// Approvable are the ids of events that begin at once when they are approved, and then concern this machine alone. An event of several
	// machines would begin on all of them.
	Approvable []string
}

type azureEvent struct {
	EventID           string `json:"EventId"`
	EventType         string
	ResourceType      string
	Resources         []string
	EventStatus       string
	NotBefore         string
	Description       string
	EventSource       string
	DurationInSeconds *int64
}

// AzureEvents reads the answer of /metadata/scheduledevents. It has the events of all machines of a set; machine is the name of
// this one.
func AzureEvents(asked Asked, machine string, body []byte) (AzureDocument, error) {
	var said struct {
		DocumentIncarnation *int64
		Events              []azureEvent
	}
	if err := decode(body, &said); err != nil {
		return AzureDocument{}, err
	}
	switch {
	case said.DocumentIncarnation == nil || said.Events == nil:
		return AzureDocument{}, fmt.Errorf("%s is no list of scheduled events: DocumentIncarnation or Events is missing", quote(body))
	case len(said.Events) > mostAzureEvents:
		return AzureDocument{}, fmt.Errorf("it has %d events; at most %d are read", len(said.Events), mostAzureEvents)
	}
	document := AzureDocument{Incarnation: *said.DocumentIncarnation}
	for i := range said.Events {
		document.add(asked, machine, &said.Events[i])
	}
	document.Notices = once(document.Notices)
	document.Approvable = approvable(said.Events, machine)
	return document, nil
}

// approvable are the ids of events that have not begun and are of this machine alone, by all that is said of them.
func approvable(events []azureEvent, machine string) []string {
	var ids, others []string
	for i := range events {
		e := &events[i]
		if e.EventStatus == "Scheduled" && len(e.Resources) == 1 && e.own(machine) && usableID(e.EventID) {
			ids = append(ids, e.EventID)
		} else {
			others = append(others, e.EventID)
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(others, id) })
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// own reports whether it is this machine's, alone or with others.
func (e *azureEvent) own(machine string) bool {
	return (e.ResourceType == "VirtualMachine" || e.ResourceType == "") &&
		slices.ContainsFunc(e.Resources, func(name string) bool { return strings.EqualFold(name, machine) })
}

// mostAzureEvents is how many events one answer may have: those of a whole set are in it.
const mostAzureEvents = 1000

// add takes in one event, where it is this machine's.
func (d *AzureDocument) add(asked Asked, machine string, e *azureEvent) {
	switch {
	case e.ResourceType != "VirtualMachine" && e.ResourceType != "", !e.own(machine) && len(e.Resources) > 0:
		return
	case !e.own(machine):
		d.Unread = line(fmt.Sprintf("an event %s names no machine", e.EventType))
		return
	case !usableID(e.EventID):
		d.Unread = line(fmt.Sprintf("an event %s of this machine has no usable id", e.EventType))
		return
	}
	d.Notices = append(d.Notices, e.notice(asked))
}

func (e *azureEvent) notice(asked Asked) notice.Notice {
	what, known := azureTypes[e.EventType]
	if !known {
		what = azureUnknown
	}
	n := notice.Notice{
		Source: notice.Azure, Kind: what.kind, Event: e.EventID, Node: asked.Node, EffectiveTime: e.at(asked.Now, what.notice),
		Message: line(fmt.Sprintf("Azure: %s%s%s%s", e.EventType, e.by(), e.lasts(), e.described())),
	}
	return n
}

// at is when it begins: what has begun, and what has no time, begins now. Where the time cannot be read, the least that Azure promises counts.
func (e *azureEvent) at(now time.Time, least time.Duration) time.Time {
	at, err := time.Parse(azureTime, e.NotBefore)
	switch {
	case e.NotBefore == "":
		return now
	case err != nil:
		at = now.Add(least)
	}
	if e.EventStatus == "Started" {
		return earliest(at, now)
	}
	return at
}

func (e *azureEvent) by() string {
	switch e.EventSource {
	case "User":
		return ", asked for by a user"
	case "Platform":
		return ", by the platform"
	}
	return ""
}

func (e *azureEvent) lasts() string {
	if e.DurationInSeconds == nil || *e.DurationInSeconds < 0 {
		return ""
	}
	return fmt.Sprintf(", for %d s", *e.DurationInSeconds)
}

func (e *azureEvent) described() string {
	if e.Description == "" {
		return ""
	}
	return ": " + e.Description
}

// AzureMachine reads /metadata/instance/compute/name: by which name events are of this machine.
func AzureMachine(body []byte) (string, error) {
	name := string(bytes.TrimSpace(body))
	if name == "" || len(name) > mostID || !text.Printable(name) || strings.ContainsAny(name, "<>{}\"' ") {
		return "", fmt.Errorf("%s is not the name of a machine", quote(body))
	}
	return name, nil
}

// AzureApproval is what is sent so that an event begins before its time.
func AzureApproval(event string) ([]byte, error) {
	type request struct {
		EventID string `json:"EventId"`
	}
	return json.Marshal(struct{ StartRequests []request }{[]request{{event}}})
}
