package metadata

import (
	"bytes"
	"fmt"
	"time"

	"usher.sh/usher/internal/notice"
)

// How long before the event Google Cloud says so at least. For machines with accelerators
// it says so earlier, and not when.
const (
	gceMaintenanceNotice = 60 * time.Second
	gcePreemptionNotice  = 30 * time.Second
)

// EventPreempted is the id of a preemption; that of maintenance is the value by which it is announced.
const EventPreempted = "preempted"

// GCEMaintenance reads instance/maintenance-event.
func GCEMaintenance(asked Asked, body []byte) (Answer, error) {
	n := notice.Notice{Source: notice.GCE, Node: asked.Node, EffectiveTime: asked.Now.Add(gceMaintenanceNotice)}
	switch said := string(bytes.TrimSpace(body)); said {
	case "NONE":
		return None(), nil
	case "MIGRATE_ON_HOST_MAINTENANCE":
		n.Kind, n.Event, n.Message = notice.Maintenance, said, "Google Cloud moves the machine to another host while it runs"
	case "TERMINATE_ON_HOST_MAINTENANCE":
		n.Kind, n.Event, n.Message = notice.Termination, said, "Google Cloud stops the machine for maintenance of its host"
	default:
		return Answer{}, fmt.Errorf("%s is not a known maintenance event", quote(body))
	}
	return Answer{Notices: []notice.Notice{n}}, nil
}

// GCEPreempted reads instance/preempted.
func GCEPreempted(asked Asked, body []byte) (Answer, error) {
	switch string(bytes.TrimSpace(body)) {
	case "FALSE":
		return None(), nil
	case "TRUE":
		return Answer{Notices: []notice.Notice{{
			Source: notice.GCE, Kind: notice.SpotInterruption, Event: EventPreempted, Node: asked.Node,
			EffectiveTime: asked.Now.Add(gcePreemptionNotice), Message: "Google Cloud preempts the machine",
		}}}, nil
	}
	return Answer{}, fmt.Errorf("%s is neither TRUE nor FALSE", quote(body))
}
