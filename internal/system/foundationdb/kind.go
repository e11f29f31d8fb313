package foundationdb

import (
	"embed"
	"io/fs"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
)

//go:embed roles/*.yaml
var roleFiles embed.FS

// Name is the field of spec.system.
const Name = "foundationdb"

// The steps.
const (
	Exclude          = "Exclude"
	MoveCoordinators = "MoveCoordinators"
)

// Kind is FoundationDB.
func Kind() system.Kind {
	roles, err := fs.Sub(roleFiles, "roles")
	if err != nil {
		roles = roleFiles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     Name,
		Declared: func(spec *v1alpha1.System) bool { return spec.FoundationDB != nil },
		Schema:   Schema,
		Steps: map[string]string{
			Exclude:          "has all data and roles of a member's processes moved to others; undone, they are included again, ten minutes after the last recovery as a rule",
			MoveCoordinators: "has other processes be coordinators in the place of a member's, and of those that cannot be reached; it is not undone: any process may be one",
		},
		Roles:      roles,
		References: references,
		Reports: func(facts expression.Facts) (does, known bool) {
			other, known := facts["otherInstance"].(string)
			if !known || other != "" {
				return false, false
			}
			does, known = facts["reports"].(bool)
			missing, _ := facts["missingProcesses"].(int64)
			return does && missing == 0, known
		},
		Excluded: func(facts expression.Facts) (excluded, emptied, known bool) {
			all, known := facts["excluded"].(bool)
			by, listed := facts["exclusions"].([]string)
			emptied, says := facts["empty"].(bool)
			return all || len(by) > 0, emptied, known && listed && says
		},
		Maintained: func(facts expression.Facts) string {
			zone, _ := facts["maintenanceZone"].(string)
			return zone
		},
		SystemFacts: []string{"maintenanceZone"},
		ReportFacts: []string{"otherInstance", "reports", "missingProcesses", "excluded", "exclusions", "empty"},
		Succession:  func(*v1alpha1.System) system.Succession { return system.Succession{Order: replacement.BySteps} },
		Set:         setKind(),
		Open:        Open,
	}
}

func references(spec *v1alpha1.System) system.References {
	var refers system.References
	if key := spec.FoundationDB.ClusterFile.ConfigMap; key != nil {
		refers.ConfigMaps = []v1alpha1.ConfigMapKey{*key}
	}
	if key := spec.FoundationDB.ClusterFile.Secret; key != nil {
		refers.Secrets = []v1alpha1.SecretKey{*key}
	}
	return refers
}

// Schema declares what rules may look at.
var Schema = expression.Schema{
	System: []expression.Field{
		{Name: "problem", Type: expression.String, Doc: "why nothing can be built on the status; empty: the database is available and the status complete"},
		{Name: "available", Type: expression.Bool, Doc: "the database takes transactions"},
		{Name: "messages", Type: expression.Strings, Doc: "names of the messages of cluster and client: status_incomplete and the like"},
		{Name: "redundancy", Type: expression.String, Doc: "the redundancy mode: single, double, triple, three_data_hall"},
		{Name: "copies", Type: expression.Int, Doc: "how many copies of everything that mode keeps, each in another zone"},
		{Name: "notTolerant", Type: expression.String, Doc: "why the cluster does not stand the loss of as many zones as its redundancy promises, or why that is not known; what has left the status less than 2 minutes ago counts; empty: it does"},
		{Name: "minReplicas", Type: expression.Int, Doc: "how many copies there are of the data that has the fewest; absent for seconds after each recovery"},
		{Name: "dataState", Type: expression.String, Doc: "how the data is, in the cluster's word: healthy, initializing, healing"},
		{Name: "movingBytes", Type: expression.Int, Doc: "bytes of data on their way or waiting to be moved"},
		{Name: "zoneFailures", Type: expression.Int, Doc: "how many zones may fail without a loss of data, by the cluster's own count"},
		{Name: "recovery", Type: expression.String, Doc: "where the last recovery stands: fully_recovered, all_logs_recruited and others"},
		{Name: "sinceRecovery", Type: expression.Int, Doc: "seconds since the last recovery"},
		{Name: "generations", Type: expression.Int, Doc: "generations of log servers that still have data"},
		{Name: "exclusions", Type: expression.Strings, Doc: "what is excluded: IPs, IP:PORT, and locality_KEY:VALUE, also without a process"},
		{Name: "coordinators", Type: expression.Strings, Doc: "addresses of the coordinators"},
		{Name: "coordinatorsAway", Type: expression.Strings, Doc: "addresses of those that cannot be reached"},
		{Name: "maintenanceZone", Type: expression.String, Doc: "the zone under maintenance; empty: none"},
		{Name: "maintenanceSeconds", Type: expression.Int, Doc: "seconds that are left of it; each recovery takes about 100"},
		{Name: "missingAfter", Type: expression.Int, Doc: "spec.system.foundationdb.waits.missing in seconds"},
	},
	Member: []expression.Field{
		{Name: "otherInstance", Type: expression.String, Doc: "the instance_id of a process at the IP of its pod, where that is not its id; it neither reports nor is missing then; empty: none"},
		{Name: "reports", Type: expression.Bool, Doc: "it has a process in the status"},
		{Name: "missingProcesses", Type: expression.Int, Doc: "how many fewer processes it has in the status than its MemberSet has it run; absent: it is of none"},
		{Name: "missingSeconds", Type: expression.Int, Doc: "seconds for which it has had none, as far as this manager has seen; 0: it has one"},
		{Name: "addresses", Type: expression.Strings, Doc: "IP:PORT of its processes"},
		{Name: "class", Type: expression.String, Doc: "the class of its processes: storage, log, stateless, unset and others"},
		{Name: "roles", Type: expression.Strings, Doc: "what its processes do now: storage, log, commit_proxy, coordinator and others"},
		{Name: "hasData", Type: expression.Bool, Doc: "a process of it is a storage or log server, or an exclusion of it is in progress"},
		{Name: "storedBytes", Type: expression.Int, Doc: "bytes of data on its storage servers"},
		{Name: "excluded", Type: expression.Bool, Doc: "all of its processes are excluded"},
		{Name: "exclusions", Type: expression.Strings, Doc: "the exclusions that cover its processes"},
		{Name: "inProgress", Type: expression.Bool, Doc: "the cluster says that data of an exclusion is still at one of its IPs, also of a process that is gone"},
		{Name: "empty", Type: expression.Bool, Doc: "all of its processes are excluded, and none has data by the cluster's list or by its roles"},
		{Name: "notExcluded", Type: expression.String, Doc: "why it is not excluded now; empty: it is, when that is asked for"},
		{Name: "notTolerant", Type: expression.String, Doc: "system.notTolerant; while the zone of all of its processes is under maintenance, without what is missing there; empty: the cluster stands that it is away"},
		{Name: "coordinator", Type: expression.Bool, Doc: "a coordinator listens at an address of its processes, or at the IP of its pod"},
		{Name: "zone", Type: expression.String, Doc: "its fault domain"},
		{Name: "machine", Type: expression.String, Doc: "its machineid"},
		{Name: "dataHall", Type: expression.String, Doc: "its data_hall"},
		{Name: "dataCenter", Type: expression.String, Doc: "its dcid"},
		{Name: "degraded", Type: expression.Bool, Doc: "the cluster counts a process of it as degraded"},
		{Name: "underMaintenance", Type: expression.Bool, Doc: "its zone is under maintenance"},
		{Name: "version", Type: expression.String, Doc: "the version that its processes run"},
	},
}
