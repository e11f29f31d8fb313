package foundationdb

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

// processes are those of a member; none where its pod's process has another id.
func (v *view) processes(m system.Member) []*status.Process {
	if v.otherInstance(m) != "" {
		return nil
	}
	return v.Of(m.ID, podIP(m))
}

// otherInstance is the instance_id by which the process of the member's pod contradicts the member's id; "": it does not.
func (v *view) otherInstance(m system.Member) string { return v.OtherInstance(m.ID, podIP(m)) }

// contradiction says that the process of the member's pod has another id, and what to do about it; "": it has not.
func (v *view) contradiction(m system.Member) string {
	other := v.otherInstance(m)
	if other == "" {
		return ""
	}
	return fmt.Sprintf("the process at the IP of its pod has the instance_id %s, and the member's id is %s: set id in the policy's members to the instance_id of the pod",
		text.Name(other), text.Name(m.ID))
}

// podIP is where the processes of a member are, as far as its set and its pod say.
func podIP(m system.Member) string {
	if m.Address != "" {
		return m.Address
	}
	if m.Pod == nil {
		return ""
	}
	return m.Pod.IP
}

// anyExcluded reports whether anything is excluded, also of which no process is in the status.
func (v *view) anyExcluded() bool {
	return len(v.Exclusions()) > 0 || slices.ContainsFunc(v.Processes(), (*status.Process).IsExcluded)
}

// coversAll reports whether exclusions that stand cover all of the processes, whether they are in the status or not.
func (v *view) coversAll(processes []*status.Process) bool {
	return !slices.ContainsFunc(processes, func(p *status.Process) bool { return len(v.ExclusionsOf(p)) == 0 })
}

// isDraining reports whether the process is excluded and still has data.
func (v *view) isDraining(p *status.Process) bool { return slices.Contains(v.draining, p.HostPort()) }

// empty reports whether all processes of a member are excluded and have no data; without a process it is not. The cluster's own list says so, and
// the roles do not say otherwise.
func (v *view) empty(m system.Member, processes []*status.Process) bool {
	draining, known := v.inProgress(m, processes)
	return known && !draining && len(processes) > 0 && !slices.ContainsFunc(processes, func(p *status.Process) bool { return !p.IsExcluded() || p.HasData() })
}

// inProgress reports whether an exclusion of a member is in progress, also of a process that has left the status: the list names an address at its IPs.
// It is not known while a process there has no locality, or any process of which the status does not say yet whose it is, where no address of the member is known;
// of a member whose pod's IP is not known, while the list names an address of no process; and of one that is excluded by locality alone, where a process in the
// status is of a version whose list leaves that out.
func (v *view) inProgress(m system.Member, processes []*status.Process) (draining, known bool) {
	ips := ipsOf(m, processes)
	draining = slices.ContainsFunc(v.draining, func(address string) bool { return slices.Contains(ips, (&status.Process{Address: address}).IP()) })
	known = v.Problem() == "" && v.unlisted == "" && !slices.ContainsFunc(v.Processes(), func(p *status.Process) bool {
		return len(p.Locality) == 0 && (len(ips) == 0 || slices.Contains(ips, p.IP()))
	})
	return draining, known && (podIP(m) != "" || !v.listsUnseen()) && (v.byLocality() || !slices.ContainsFunc(processes, func(p *status.Process) bool {
		return p.IsExcluded() && !v.hasAddress(p)
	}))
}

// ipsOf are the IPs of a member's pod and its processes.
func ipsOf(m system.Member, processes []*status.Process) []string {
	var ips []string
	if ip := podIP(m); ip != "" {
		ips = append(ips, ip)
	}
	for _, p := range processes {
		ips = append(ips, p.IP())
	}
	return ips
}

// listsUnseen reports whether the list of exclusions in progress names an address that no process in the status has.
func (v *view) listsUnseen() bool {
	return slices.ContainsFunc(v.draining, func(address string) bool {
		return !slices.ContainsFunc(v.Processes(), func(p *status.Process) bool { return p.HostPort() == address })
	})
}

func excluded(processes []*status.Process) bool {
	return len(processes) > 0 && !slices.ContainsFunc(processes, func(p *status.Process) bool { return !p.IsExcluded() })
}

// unexcludable says why a member is not excluded now; "": it is. FoundationDB itself refuses hardly anything.
func (c *cluster) unexcludable(v *view, id, role string, processes []*status.Process, now time.Time) string {
	if why := v.Unsettled(c.waits.exclude.Seconds()); why != "" {
		return why
	}
	if unfamiliar := v.Unfamiliar(); unfamiliar != "" {
		return unfamiliar
	}
	need, _ := v.Copies()
	if v.unlisted != "" {
		return "which exclusions are in progress is not known: " + v.unlisted
	}
	if !c.roster.known() {
		return "which members are missing is not known yet: they were not observed"
	}
	lost, returning := c.roster.others(id, role, c.waits.missing, now)
	draining := v.drainingBeside(processes)
	switch {
	case len(processes) == 0:
		return "it has no process in the status"
	case slices.ContainsFunc(processes, func(p *status.Process) bool { return len(p.Locality) == 0 }):
		return "a process of it has just begun, and the status does not say yet which id and zone it has"
	case returning != "":
		return returning
	case len(draining)+len(lost) >= int(max(1, need-1)):
		return fmt.Sprintf("others are on their way out, as many as %s redundancy allows at once: zones with exclusions in progress: %s; lost members of the role: %s",
			v.Cluster.Configuration.Redundancy, orNone(draining), orNone(lost))
	}
	return v.zonesLack(processes, need)
}

// zonesLack says that without processes fewer zones than there are copies may hold what they do; "": as many may.
func (v *view) zonesLack(processes []*status.Process, need int64) string {
	if v.InHalls() {
		return v.hallsLack(processes)
	}
	if n := len(v.Zones(processes)); int64(n) < need && slices.ContainsFunc(processes, func(p *status.Process) bool { return !p.OnlyLogs() }) {
		return fmt.Sprintf("without it %d zones may hold data, and %d are needed", n, need)
	}
	if n := len(v.LogZones(processes)); int64(n) < need && slices.ContainsFunc(processes, (*status.Process).Logs) {
		return fmt.Sprintf("without it %d zones may hold log servers, and %d are needed", n, need)
	}
	return ""
}

// hallsLack says that without processes too few data halls may hold what they do; "": enough may.
func (v *view) hallsLack(processes []*status.Process) string {
	if halls := v.Halls(processes); len(halls) < 3 && slices.ContainsFunc(processes, func(p *status.Process) bool { return !p.OnlyLogs() }) {
		return fmt.Sprintf("without it %d data halls may hold data, and 3 are needed: %s", len(halls), orNone(halls))
	}
	if halls := v.LogHalls(processes); len(halls) < 2 && slices.ContainsFunc(processes, (*status.Process).Logs) {
		return fmt.Sprintf("without it %d data halls may hold log servers in two zones, and 2 are needed: %s", len(halls), orNone(halls))
	}
	return ""
}

// drainingBeside are the zones of other processes that are excluded and still have data.
func (v *view) drainingBeside(own []*status.Process) []string {
	var zones []string
	for _, p := range v.Processes() {
		if !slices.Contains(own, p) && p.IsExcluded() && (v.isDraining(p) || p.HasData()) {
			zones = append(zones, p.Zone())
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return text.List(names, 5)
}

// plain is what may stand in a command: fdbcli takes blanks, semicolons, quotes and backslashes for its own.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}$`)

// commandWord is an IP, an IP:PORT, or a locality of which the value is plain.
var commandWord = regexp.MustCompile(`^[A-Za-z0-9_.:[\]][A-Za-z0-9_.:[\]-]{0,299}$`)

// commandOf writes a command of words; an error names the word that fdbcli would take for something else.
func commandOf(command string, words []string) (string, error) {
	for _, word := range words {
		if !commandWord.MatchString(word) {
			return "", fmt.Errorf("%w: fdbcli takes %q for more than a word", system.ErrTerminal, text.Cut(word, 64))
		}
	}
	return command + " " + strings.Join(words, " "), nil
}

// entries are what fdbcli is to exclude so that the processes are excluded: their instance_id, where the version can exclude by it, or else their
// addresses IP:PORT. An id goes on to hold where the process comes back at another IP. An IP is none of them: to include one includes all that another
// client has excluded there by IP:PORT.
func (v *view) entries(processes []*status.Process) ([]string, error) {
	if id := processes[0].Instance(); id != "" && v.byLocality() {
		if !plain.MatchString(id) {
			return nil, fmt.Errorf("its instance_id %q has characters that fdbcli takes for its own", text.Cut(id, 64))
		}
		return []string{"locality_instance_id:" + id}, nil
	}
	var all []string
	for _, p := range processes {
		address, err := netip.ParseAddrPort(p.HostPort())
		if err != nil || address.Addr().Zone() != "" {
			return nil, fmt.Errorf("its address %q is none", text.Cut(p.Address, 64))
		}
		all = append(all, address.String())
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// byLocality reports whether all processes in the status are of versions that exclude by locality without a fault: any of them may be the one that is asked.
func (v *view) byLocality() bool {
	return !slices.ContainsFunc(v.Processes(), func(p *status.Process) bool { return !byLocality(p.Version) })
}

// hasAddress reports whether the process is excluded by an address, and not by a locality alone.
func (v *view) hasAddress(p *status.Process) bool {
	return slices.ContainsFunc(v.Cluster.Configuration.Excluded, func(e status.Exclusion) bool { return e.Locality == "" && e.Covers(p) })
}
