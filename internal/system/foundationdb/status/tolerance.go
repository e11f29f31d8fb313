package status

import (
	"cmp"
	"fmt"
	"slices"

	"usher.sh/usher/internal/text"
)

// threeDataHall is the redundancy mode in which each copy of the data is in another data hall, and log servers in two zones of each of two data halls.
const threeDataHall = "three_data_hall"

// copies is how many copies of everything a redundancy mode keeps, each in another zone.
var copies = map[string]int64{"single": 1, "double": 2, "triple": 3, threeDataHall: 3}

// Copies is how many copies the database keeps, each in another zone; false: Unfamiliar says why that is not known.
func (s *Status) Copies() (int64, bool) {
	n, known := copies[s.Cluster.Configuration.Redundancy]
	return n, known
}

// InHalls reports whether each copy is to be in another data hall.
func (s *Status) InHalls() bool { return s.Cluster.Configuration.Redundancy == threeDataHall }

// Unfamiliar says why it is not known where the database keeps its copies, and what is left without a process; "": it is known.
func (s *Status) Unfamiliar() string {
	c := &s.Cluster.Configuration
	switch _, known := s.Copies(); {
	case !known:
		return fmt.Sprintf("the redundancy mode %s is none of single, double, triple and three_data_hall", text.Name(c.Redundancy))
	case c.Usable == nil:
		return "the status does not say how many regions the database uses"
	case *c.Usable != 1 || len(c.Regions) > 0:
		return fmt.Sprintf("the database is configured for regions (%d usable), and Usher does not know what each of their data centres may lose", *c.Usable)
	}
	return ""
}

// NotTolerant says why the cluster does not stand the loss of as many zones as its redundancy promises; "": it does. least is the mode that the
// database must have at least; "": any. What the document does not say is not there. It is about copies of the data, log servers, and
// coordinators, and beside them about the cluster's own count of zones, which is one less while a zone is under maintenance.
func (s *Status) NotTolerant(least string) string { return s.NotTolerantBeside(least, "") }

// NotTolerantBeside is NotTolerant for what is in a zone: while that is under maintenance it does not lack.
func (s *Status) NotTolerantBeside(least, zone string) string {
	if problem := s.Problem(); problem != "" {
		return problem
	}
	if unfamiliar := s.Unfamiliar(); unfamiliar != "" {
		return unfamiliar
	}
	need, _ := s.Copies()
	if mode := s.Cluster.Configuration.Redundancy; copies[least] > need || least == threeDataHall && mode != threeDataHall {
		return fmt.Sprintf("the redundancy mode is %s, and the policy asks for %s", mode, least)
	}
	return cmp.Or(s.dataLacks(need), s.logsLack(), s.coordinatorsLack(), s.zonesLack(need, zone))
}

// CopiesKnown reports whether the status says how many copies of the data there are.
func (s *Status) CopiesKnown() bool {
	return len(s.Cluster.Data.Trackers) > 0 && !slices.ContainsFunc(s.Cluster.Data.Trackers, func(t Tracker) bool { return t.State.MinReplicas == nil })
}

// dataLacks says which copies of the data are missing or not known.
func (s *Status) dataLacks(need int64) string {
	if len(s.Cluster.Data.Trackers) == 0 {
		return fmt.Sprintf("how many copies of the data there are is not known yet (state of the data: %s)", text.Name(cmp.Or(s.Cluster.Data.State.Name, "none")))
	}
	for _, t := range s.Cluster.Data.Trackers {
		switch have := t.State.MinReplicas; {
		case have == nil:
			return "how many copies of the data there are is not known yet (state of the data: " + text.Name(t.State.Name) + ")"
		case *have < need:
			return fmt.Sprintf("some data has %d copies left, and %d are needed (state of the data: %s)", *have, need, text.Name(t.State.Name))
		}
	}
	return ""
}

// logsLack says which log servers are missing, of any generation.
func (s *Status) logsLack() string {
	if len(s.Cluster.Logs) == 0 {
		return "which log servers there are is not known"
	}
	for _, l := range s.Cluster.Logs {
		for _, set := range []struct {
			kind                   string
			tolerance, replication *int64
		}{{"", l.Tolerance, l.Replication}, {"remote ", l.RemoteTolerance, l.RemoteReplication}, {"satellite ", l.SatelliteTolerance, l.SatelliteReplication}} {
			switch {
			case set.kind == "" && set.replication == nil:
				return "how many log servers keep each commit is not known"
			case set.replication == nil || *set.replication == 0:
			case set.tolerance == nil:
				return fmt.Sprintf("how many %slog servers may fail is not known", set.kind)
			case *set.tolerance+1 != *set.replication:
				return fmt.Sprintf("%d %slog servers may fail, and %d must be able to", *set.tolerance, set.kind, *set.replication-1)
			}
		}
	}
	return ""
}

func (s *Status) coordinatorsLack() string {
	all, unreachable := s.Coordinators()
	switch {
	case len(all) == 0 || s.Client.Coordinators.Reachable == nil:
		return "which coordinators there are is not known"
	case len(unreachable) > 0:
		return "coordinators that cannot be reached: " + text.List(unreachable, 5)
	}
	return ""
}

// zonesLack compares the cluster's own count with what the redundancy and the number of coordinators allow for, and the maintenance of the zone.
func (s *Status) zonesLack(need int64, zone string) string {
	all, _ := s.Coordinators()
	promised := min(need-1, int64(len(all)-1)/2)
	if zone != "" && zone == s.Cluster.MaintenanceZone {
		promised--
	}
	switch have := s.Cluster.FaultTolerance.Data; {
	case have == nil:
		return "how many zones may fail is not known"
	case *have < promised:
		return fmt.Sprintf("%d zones may fail without a loss of data, and %d must be able to", *have, promised)
	}
	return ""
}
