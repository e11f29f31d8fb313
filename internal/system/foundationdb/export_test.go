package foundationdb

// Program is fdbcli at a path.
func Program(path string) CLI { return program{path} }
