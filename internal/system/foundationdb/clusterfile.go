package foundationdb

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Limits far above what a cluster has.
const (
	maxClusterFile  = 64 << 10
	maxCoordinators = 64
)

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_]{1,256}:[A-Za-z0-9]{1,256}$`)

// clusterFile is a cluster file that may be given to fdbcli.
type clusterFile struct {
	name         string // DESCRIPTION:ID
	coordinators []netip.AddrPort
}

// parseClusterFile reads a cluster file. Host names are refused: what fdbcli makes of them is not what they were checked for. Errors have no
// word of the file: the entry that is named may hold something else, which its namespace keeps from the policy's author.
func parseClusterFile(content string) (*clusterFile, error) {
	if len(content) > maxClusterFile {
		return nil, fmt.Errorf("it is larger than %d KiB", maxClusterFile>>10)
	}
	var lines []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		return nil, fmt.Errorf("it has %d lines that are no comments, and a cluster file has one", len(lines))
	}
	name, list, ok := strings.Cut(lines[0], "@")
	if !ok || !clusterName.MatchString(name) {
		return nil, errors.New("it does not begin with DESCRIPTION:ID@")
	}
	f := &clusterFile{name: name}
	for address := range strings.SplitSeq(list, ",") {
		if strings.HasSuffix(address, ":tls") {
			return nil, errors.New("it has coordinators with :tls, and Usher does not speak TLS to FoundationDB")
		}
		parsed, err := netip.ParseAddrPort(address)
		if err != nil || parsed.Addr().Zone() != "" {
			return nil, errors.New("it has a coordinator that is not IP:PORT; Usher takes no host names and no IPv6 zones there")
		}
		f.coordinators = append(f.coordinators, parsed)
	}
	if len(f.coordinators) > maxCoordinators {
		return nil, fmt.Errorf("it has %d coordinators, and %d are accepted at most", len(f.coordinators), maxCoordinators)
	}
	return f, nil
}

// String writes the file anew.
func (f *clusterFile) String() string {
	addresses := make([]string, len(f.coordinators))
	for i, a := range f.coordinators {
		addresses[i] = a.String()
	}
	return f.name + "@" + strings.Join(addresses, ",") + "\n"
}

// admitted reads a cluster file whose coordinators may be connected to.
func admitted(content string, admit func(address string) error) (*clusterFile, error) {
	f, err := parseClusterFile(content)
	if err != nil {
		return nil, err
	}
	for _, a := range f.coordinators {
		if err := admit(a.String()); err != nil {
			return nil, fmt.Errorf("coordinator %s: %w", a, err)
		}
	}
	return f, nil
}
