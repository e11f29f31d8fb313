package status

import (
	"maps"
	"slices"
	"strings"
)

// The roles that have data.
const (
	Storage = "storage"
	Log     = "log"
)

// coordinator is what the document calls a coordinator among the roles of a process.
const coordinatorRole = "coordinator"

// Processes are all processes, in the order of their keys.
func (s *Status) Processes() []*Process {
	all := make([]*Process, 0, len(s.Cluster.Processes))
	for _, id := range slices.Sorted(maps.Keys(s.Cluster.Processes)) {
		all = append(all, s.Cluster.Processes[id])
	}
	return all
}

// Of are the processes of a member: those that give its id as their instance_id; where none does, those with the IP of its pod.
func (s *Status) Of(id, ip string) []*Process {
	all := s.Processes()
	found := slices.DeleteFunc(slices.Clone(all), func(p *Process) bool { return id == "" || p.Instance() != id })
	if len(found) == 0 && ip != "" {
		found = slices.DeleteFunc(all, func(p *Process) bool { return p.IP() != ip || p.Instance() != "" })
	}
	return found
}

// OtherInstance is the instance_id of a process at the IP of a member's pod that is not the member's id, where no process there has that id; "": there is
// none. The one or the other is wrong then, and which processes are the member's is not known.
func (s *Status) OtherInstance(id, ip string) string {
	if ip == "" {
		return ""
	}
	other := ""
	for _, p := range s.Processes() {
		switch instance := p.Instance(); {
		case p.IP() != ip || instance == "":
		case instance == id:
			return ""
		default:
			other = instance
		}
	}
	return other
}

// Has reports whether the process has a role.
func (p *Process) Has(role string) bool {
	return slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Name == role })
}

// HasData reports whether the process has the role of a storage or log server.
func (p *Process) HasData() bool { return p.Has(Storage) || p.Has(Log) }

// MayHoldData reports whether the process has data, or is of a class that may get some.
func (p *Process) MayHoldData() bool {
	return p.HasData() || p.mayStore() || p.mayLog()
}

// RoleNames are the names of its roles, each once.
func (p *Process) RoleNames() []string {
	var all []string
	for _, r := range p.Roles {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Instance is the id that the process was started with; "": none is known.
func (p *Process) Instance() string { return p.Locality["instance_id"] }

// Zone is its fault domain; "": it is not known.
func (p *Process) Zone() string { return p.Locality["zoneid"] }

// DataHall is the data hall that it is in, DataCenter its data centre; "": it is not known.
func (p *Process) DataHall() string { return p.Locality["data_hall"] }

// DataCenter is described with DataHall.
func (p *Process) DataCenter() string { return p.Locality["dcid"] }

// IP is the IP of its address, HostPort its address without :tls.
func (p *Process) IP() string {
	host, _ := split(p.Address)
	return host
}

// HostPort is its address, IP:PORT.
func (p *Process) HostPort() string {
	_, plain := split(p.Address)
	return plain
}

// TLS reports whether its address is one for TLS.
func (p *Process) TLS() bool { return strings.HasSuffix(p.Address, ":tls") }

// IsExcluded reports whether the process is excluded; where that is not known it is not.
func (p *Process) IsExcluded() bool { return p.Excluded != nil && *p.Excluded }

// Entry writes an exclusion as fdbcli does.
func (e Exclusion) Entry() string { return e.Address + e.Locality }

// Covers reports whether the exclusion is of the process.
func (e Exclusion) Covers(p *Process) bool {
	if e.Locality == "" {
		return e.Address != "" && (e.Address == p.IP() || e.Address == p.HostPort())
	}
	key, value, ok := strings.Cut(strings.TrimPrefix(e.Locality, "locality_"), ":")
	return ok && value != "" && p.Locality[key] == value
}

// Exclusions are all entries of the list.
func (s *Status) Exclusions() []string {
	var all []string
	for _, e := range s.Cluster.Configuration.Excluded {
		all = append(all, e.Entry())
	}
	return all
}

// ExclusionsOf are the entries that cover the process.
func (s *Status) ExclusionsOf(p *Process) []string {
	var all []string
	for _, e := range s.Cluster.Configuration.Excluded {
		if e.Covers(p) {
			all = append(all, e.Entry())
		}
	}
	return all
}

// IsCoordinator reports whether a coordinator listens at the process' address, whatever its roles say.
func (s *Status) IsCoordinator(p *Process) bool {
	return p.Has(coordinatorRole) || slices.ContainsFunc(s.Client.Coordinators.Coordinators, func(c Coordinator) bool {
		_, plain := split(c.Address)
		return plain == p.HostPort()
	})
}

// Zones are the fault domains of processes that may hold data and are not excluded, without those of some processes. The class of a process says
// what it may hold; one that holds data may, whatever its class. Processes of another data centre than theirs do not count.
func (s *Status) Zones(without []*Process) []string {
	return zones(s.places(without, (*Process).mayStore))
}

// LogZones are the fault domains of processes whose class is for log servers and that are not excluded, without those of some processes, and of their
// data centre.
func (s *Status) LogZones(without []*Process) []string {
	return zones(s.places(without, (*Process).mayLog))
}

// Halls are the data halls in which Zones are, LogHalls those in which two or more LogZones are. A process of which the data hall is not known is in none.
func (s *Status) Halls(without []*Process) []string {
	return halls(s.places(without, (*Process).mayStore), 1)
}

// LogHalls is described with Halls.
func (s *Status) LogHalls(without []*Process) []string {
	return halls(s.places(without, (*Process).mayLog), 2)
}

func (p *Process) mayStore() bool { return p.Has(Storage) || slices.Contains(storageClasses, p.Class) }

func (p *Process) mayLog() bool { return slices.Contains(logClasses, p.Class) }

// place is a zone, and the data hall that it is in.
type place struct{ zone, hall string }

func (s *Status) places(without []*Process, may func(*Process) bool) map[place]bool {
	all := map[place]bool{}
	for _, p := range s.Processes() {
		elsewhere := len(without) > 0 && p.DataCenter() != without[0].DataCenter()
		if p.Zone() != "" && !elsewhere && !p.IsExcluded() && !slices.Contains(without, p) && may(p) {
			all[place{p.Zone(), p.DataHall()}] = true
		}
	}
	return all
}

func zones(places map[place]bool) []string {
	var all []string
	for p := range places {
		all = append(all, p.zone)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// halls are those with so many zones.
func halls(places map[place]bool, least int) []string {
	count := map[string]int{}
	for p := range places {
		count[p.hall]++
	}
	maps.DeleteFunc(count, func(hall string, n int) bool { return hall == "" || n < least })
	return slices.Sorted(maps.Keys(count))
}

var (
	storageClasses = []string{"storage", "unset"}
	logClasses     = []string{"log", "transaction", "unset"}
)

// Logs reports whether the process is a log server, or of a class for them.
func (p *Process) Logs() bool { return p.Has(Log) || p.mayLog() }

// OnlyLogs reports whether the process is of a class for log servers alone, and no storage server.
func (p *Process) OnlyLogs() bool {
	return !p.Has(Storage) && (p.Class == "log" || p.Class == "transaction")
}
