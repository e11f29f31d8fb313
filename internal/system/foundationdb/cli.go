package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"usher.sh/usher/internal/text"
)

// CLI runs fdbcli. Its methods may be called by several goroutines at once.
type CLI interface {
	// Run runs a command on the cluster of a cluster file, until ctx ends. An error means that it was not answered, or not as a whole: it is a
	// sentence. Otherwise the command may have failed all the same, which Output says.
	Run(ctx context.Context, clusterFile, command string) (Output, error)
	// Version is the program's own version: 7.3.63.
	Version(ctx context.Context) (string, error)
}

// Output is what a run of fdbcli has left behind.
type Output struct {
	Out, Err string
	// ClusterFile is the cluster file's text afterwards: fdbcli writes the coordinators into it to which those in it have led.
	ClusterFile string
}

// failed returns what fdbcli says has gone wrong with a command that changes something; nil: nothing. Warnings are none: what they warn of is
// looked for in the status.
func (o Output) failed() error {
	for line := range strings.Lines(o.Out + "\n" + o.Err) {
		if strings.HasPrefix(line, "ERROR") {
			return errors.New(said(line))
		}
	}
	return nil
}

// said is the first words of what fdbcli has written, in one line.
func said(output string) string { return text.Cut(text.Line(strings.TrimSpace(output)), 200) }

// inProgress is the command that lists what is excluded and still has data. It lists listLimit entries at most.
const (
	listLimit  = 10_000
	inProgress = `getrange \xff\xff/management/in_progress_exclusion/ \xff\xff/management/in_progress_exclusion0 10000`
)

var (
	listHead  = regexp.MustCompile(`(?m)^Range limited to \d+ keys\r?$`)
	listEntry = regexp.MustCompile("(?m)^`\\\\xff\\\\xff/management/in_progress_exclusion/([^']*)' is `")
)

// draining reads the answer to inProgress: the addresses IP:PORT that are excluded and still have data. Without the answer's head it is none.
func (o Output) draining() ([]string, error) {
	if !listHead.MatchString(o.Out) {
		return nil, fmt.Errorf("listing the exclusions in progress: %s", said(o.Err+o.Out))
	}
	var all []string
	for _, found := range listEntry.FindAllStringSubmatch(o.Out, -1) {
		all = append(all, found[1])
	}
	if len(all) >= listLimit {
		return nil, fmt.Errorf("listing the exclusions in progress: there are %d or more", listLimit)
	}
	return all, nil
}

var versionText = regexp.MustCompile(`\(v(\d+\.\d+\.\d+)`)

// version reads what fdbcli --version prints.
func (o Output) version() (string, error) {
	found := versionText.FindStringSubmatch(o.Out)
	if found == nil {
		return "", fmt.Errorf("asking fdbcli for its version: it says %q", said(o.Out+o.Err))
	}
	return found[1], nil
}

// minor is the part of a version that client and cluster must have in common: 7.3.
func minor(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	return major + "." + second
}
