package memberset

import (
	"fmt"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

func maintenanceBegins(zone string) Blocker {
	return Blocker{Reason: ZoneMaintained, Message: fmt.Sprintf("the system is asked for the maintenance of zone %s, in which pods are made anew", zone), Remedy: "wait"}
}

func maintenanceEnds(zone string) Blocker {
	return Blocker{Reason: ZoneMaintained, Message: fmt.Sprintf("the pods of zone %s are made anew, and the system is asked to end its maintenance", zone), Remedy: "wait"}
}

func zoneMaintained(m *v1alpha1.ZoneMaintenance) Blocker {
	var ids []string
	for i := range m.Members[:min(len(m.Members), 3)] {
		ids = append(ids, m.Members[i].ID)
	}
	return Blocker{
		Reason:  ZoneMaintained,
		Message: fmt.Sprintf("zone %s is under maintenance until another pod does the work of each of %d members: %s", m.Zone, len(m.Members), strings.Join(ids, ", ")),
		Remedy:  "wait; it ends by itself after spec.updateStrategy.recreate.maintenanceTimeout",
	}
}

func otherMaintenance(zone, id string) Blocker {
	return Blocker{
		Reason: ZoneMaintained, Message: fmt.Sprintf("zone %s is under maintenance, which this set has not begun, and pod %s goes under that of its own zone", zone, id),
		Remedy: "wait until that maintenance has ended, or end it (fdbcli --exec 'maintenance off')",
	}
}
