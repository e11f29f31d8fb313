package status

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/text"
)

// incomplete are the messages of client and cluster with a document that does not have everything that is used of it. That layers do not report, backup
// agents for one, is none of them.
var incomplete = []string{
	"status_incomplete", "status_incomplete_client", "status_incomplete_cluster", "status_incomplete_coordinators", "status_incomplete_error",
	"status_incomplete_timeout", "unreadable_configuration", "full_replication_timeout", "storage_servers_error", "log_servers_error",
	"database_availability_timeout", "unreachable_cluster_controller", "unreachable_cluster_controller_worker", "unreachable_dataDistributor_worker",
	"unreachable_master_worker", "unreachable_ratekeeper_worker",
}

// Available reports whether the database takes transactions; where that is not known it does not.
func (s *Status) Available() bool {
	return s.Client.Database.Available != nil && *s.Client.Database.Available
}

// Problem says why nothing can be built on the document; "": it is complete. The roles of processes are a fact only then.
func (s *Status) Problem() string {
	incomplete := s.messages(incomplete)
	switch c := &s.Cluster; {
	case s.Client.Coordinators.Reachable != nil && !*s.Client.Coordinators.Reachable:
		return "a quorum of the coordinators cannot be reached; reachable: " + text.List(s.coordinators(true), 5)
	case !s.Available():
		return "the database is not available, or is not known to be: " + text.Join(s.names(), ", ")
	case len(incomplete) > 0:
		return "the status is not complete, as for some seconds after each recovery: " + text.Join(incomplete, ", ")
	case len(c.Processes) == 0:
		return "the status names no processes"
	case c.Recovery.Generations == nil || c.Recovery.Since == nil:
		return "the status does not say where the last recovery stands"
	case s.anyStorage() == nil:
		return "no process has the role storage, as for some seconds while the database recovers"
	}
	return ""
}

// messages are the names of those messages that are among these.
func (s *Status) messages(among []string) []string {
	return slices.DeleteFunc(s.Messages(), func(name string) bool { return !slices.Contains(among, name) })
}

// names are the names of all messages.
func (s *Status) names() []string {
	var all []string
	for _, name := range s.Messages() {
		all = append(all, text.Name(name))
	}
	if len(all) == 0 {
		return []string{"it gives no reason"}
	}
	return all
}

// Messages are the names of all messages of client and cluster.
func (s *Status) Messages() []string {
	var all []string
	for _, m := range slices.Concat(s.Client.Messages, s.Cluster.Messages) {
		all = append(all, m.Name)
	}
	return all
}

func (s *Status) anyStorage() *Process {
	for _, p := range s.Processes() {
		if p.Has(Storage) {
			return p
		}
	}
	return nil
}

// coordinators are the addresses of those that are reachable, or of those that are not, or are not known to be.
func (s *Status) coordinators(reachable bool) []string {
	var all []string
	for _, c := range s.Client.Coordinators.Coordinators {
		if (c.Reachable != nil && *c.Reachable) == reachable {
			all = append(all, c.Address)
		}
	}
	return all
}

// Coordinators are the addresses of all coordinators, Unreachable of those that cannot be reached.
func (s *Status) Coordinators() (all, unreachable []string) {
	for _, c := range s.Client.Coordinators.Coordinators {
		all = append(all, c.Address)
	}
	return all, s.coordinators(false)
}

// recovered are the states of a recovery after which the cluster takes changes of its members.
var recovered = []string{"all_logs_recruited", "fully_recovered"}

// maxGenerations is how many generations of log servers there may be while something is changed.
const maxGenerations = 10

// Unsettled says why the processes of the cluster are not to be changed now; "": they may be. The last recovery must be over for so many
// seconds.
func (s *Status) Unsettled(seconds float64) string {
	if problem := s.Problem(); problem != "" {
		return problem
	}
	r := &s.Cluster.Recovery
	switch {
	case !slices.Contains(recovered, r.Name):
		return fmt.Sprintf("a recovery is under way (%s)", text.Name(r.Name))
	case *r.Generations > maxGenerations:
		return fmt.Sprintf("the log servers have %d generations, and %d are the most", *r.Generations, maxGenerations)
	case *r.Since < seconds:
		return fmt.Sprintf("less than %.0f s have passed since the last recovery", seconds)
	}
	return ""
}

// split returns the IP of an address IP:PORT[:tls][(fromHostname)], and the address without what follows the port.
func split(address string) (host, plain string) {
	plain, _, _ = strings.Cut(address, "(")
	plain = strings.TrimSuffix(plain, ":tls")
	at := strings.LastIndex(plain, ":")
	if at < 0 {
		return plain, plain
	}
	return strings.Trim(plain[:at], "[]"), plain
}
