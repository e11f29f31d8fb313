package status

// Status is a status document, as far as it is used. A nil pointer is a value that the document does not have.
type Status struct {
	Client  Client  `json:"client"`
	Cluster Cluster `json:"cluster"`
}

// Client is what the client has found out by itself.
type Client struct {
	Coordinators struct {
		Coordinators []Coordinator `json:"coordinators"`
		Reachable    *bool         `json:"quorum_reachable"`
	} `json:"coordinators"`
	Database struct {
		Available *bool `json:"available"`
	} `json:"database_status"`
	Messages []Message `json:"messages"`
}

// Coordinator keeps the description of the cluster, with the other coordinators.
type Coordinator struct {
	Address   string `json:"address"`
	Reachable *bool  `json:"reachable"`
}

// Message says that something is wrong.
type Message struct {
	Name string `json:"name"`
}

// Cluster is what the cluster controller has found out. While there is none it is empty.
type Cluster struct {
	Processes        map[string]*Process `json:"processes"`
	Messages         []Message           `json:"messages"`
	Configuration    Configuration       `json:"configuration"`
	Recovery         Recovery            `json:"recovery_state"`
	Data             Data                `json:"data"`
	Logs             []Logs              `json:"logs"`
	FaultTolerance   FaultTolerance      `json:"fault_tolerance"`
	MaintenanceZone  string              `json:"maintenance_zone"`
	MaintenanceLeft  *float64            `json:"maintenance_seconds_remaining"` // a number of seconds
	ConnectionString string              `json:"connection_string"`
	QoS              QoS                 `json:"qos"`
}

// Process is one fdbserver.
type Process struct {
	Address          string            `json:"address"`
	Class            string            `json:"class_type"`
	Locality         map[string]string `json:"locality"` // empty for seconds after its start
	Excluded         *bool             `json:"excluded"`
	Degraded         *bool             `json:"degraded"`
	UnderMaintenance bool              `json:"under_maintenance"`
	Roles            []Role            `json:"roles"`
	Version          string            `json:"version"`
	Uptime           *float64          `json:"uptime_seconds"`
}

// Role is a part that a process plays. A process may have several of one name: of a log, one for each generation.
type Role struct {
	Name        string `json:"role"`
	StoredBytes *int64 `json:"stored_bytes"`
}

// Configuration is how the database is configured.
type Configuration struct {
	Redundancy string      `json:"redundancy_mode"`
	Usable     *int64      `json:"usable_regions"`
	Regions    []Region    `json:"regions"` // none where no data centres are configured
	Excluded   []Exclusion `json:"excluded_servers"`
}

// Region is a group of data centres. Of what it says it is only known that it is there.
type Region struct{}

// Exclusion is an entry of the list of what is excluded. One of the two is set.
type Exclusion struct {
	Address  string `json:"address"`  // an IP, or IP:PORT
	Locality string `json:"locality"` // locality_KEY:VALUE
}

// Recovery is where the last recovery of the transaction system stands.
type Recovery struct {
	Name        string   `json:"name"`
	Generations *int64   `json:"active_generations"`
	Since       *float64 `json:"seconds_since_last_recovered"`
}

// Data is how the data is distributed.
type Data struct {
	State    DataState `json:"state"`
	Trackers []Tracker `json:"team_trackers"`
	Moving   *Moving   `json:"moving_data"`
}

// DataState is in few words how the data is. Right after a recovery it has a name alone.
type DataState struct {
	Name        string `json:"name"`
	MinReplicas *int64 `json:"min_replicas_remaining"`
}

// Tracker looks after the teams of storage servers of one region.
type Tracker struct {
	State DataState `json:"state"`
}

// Moving is data that is on its way to other storage servers.
type Moving struct {
	InFlight *int64 `json:"in_flight_bytes"`
	InQueue  *int64 `json:"in_queue_bytes"`
}

// Logs are the log servers of one generation: primary, remote and satellite ones.
type Logs struct {
	Tolerance            *int64 `json:"log_fault_tolerance"`
	Replication          *int64 `json:"log_replication_factor"`
	RemoteTolerance      *int64 `json:"remote_log_fault_tolerance"`
	RemoteReplication    *int64 `json:"remote_log_replication_factor"`
	SatelliteTolerance   *int64 `json:"satellite_log_fault_tolerance"`
	SatelliteReplication *int64 `json:"satellite_log_replication_factor"`
}

// QoS is how far the slowest servers are behind.
type QoS struct {
	DataLag       Lag    `json:"worst_data_lag_storage_server"`       // of what a storage server has read of the log
	DurabilityLag Lag    `json:"worst_durability_lag_storage_server"` // of what it has on its disk
	LogQueue      *int64 `json:"worst_queue_bytes_log_server"`
	StorageQueue  *int64 `json:"worst_queue_bytes_storage_server"`
}

// Lag is a distance in time.
type Lag struct {
	Seconds *float64 `json:"seconds"`
}

// FaultTolerance is how many zones may fail: the smallest number that any of several limits gives.
type FaultTolerance struct {
	Data         *int64 `json:"max_zone_failures_without_losing_data"`
	Availability *int64 `json:"max_zone_failures_without_losing_availability"`
}
