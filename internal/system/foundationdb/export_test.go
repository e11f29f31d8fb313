package foundationdb

// InProgress is the command that lists what is excluded and still has data.
const InProgress = inProgress

// DefaultTimeout is how long a run may take, by default.
const DefaultTimeout = defaultTimeout

// Program is fdbcli at a path.
func Program(path string) CLI { return program{path, "db"} }

// Failed is what a command has failed with.
func (o Output) Failed() error { return o.failed() }

// Draining is what the answer to InProgress lists.
func (o Output) Draining() ([]string, error) { return o.draining() }
