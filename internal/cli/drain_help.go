package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

const drainLong = `Move all pods off nodes and wait until they are gone.

Each pod leaves the moment its PodDisruptionBudgets allow it. Where a budget could
never allow it, or the only replica of a Deployment would be down, a replacement is
started first (--surge). Every pod that cannot go is named with what keeps it and
what would unblock it; what can never clear by itself ends the drain instead of
being waited for.

The flags of kubectl drain have the same names, meanings and defaults. Objections
(DaemonSet pods, pods without a controller, local data) are all reported, for all
pods, before anything is changed.

Ctrl-C stops the drain and undoes what can be undone; the cordon stays, unless
--uncordon-on-failure is given. What was changed is recorded on the objects, so that
a killed drain is tidied up by the next usher drain or usher uncordon.

Exit codes: 0 drained, 1 wrong usage or no access, 2 blocked, 3 deadline or timeout,
130 interrupted.`

const drainExample = `  # As kubectl drain
  usher drain worker-1 --ignore-daemonsets --delete-emptydir-data

  # A spot instance that goes away in two minutes
  usher drain worker-1 --ignore-daemonsets --deadline 2m

  # A rack, two nodes at once, until everything runs elsewhere
  usher drain -l rack=7 --ignore-daemonsets --max-parallel 2 --wait=replaced`

// secretFlags are never printed.
var secretFlags = []string{"token", "password"}

// typed is a command line as it was given.
type typed struct {
	command string
	args    []string
	flags   *pflag.FlagSet
	others  show.Commands // how to type the other commands that advice names
	foreign []string      // flags that the command does not have
}

// resumeCommand is what to type to go on with the drain, "" where all of its nodes were deleted: neither names nor labels find
// them. A deadline and a timeout are left out: they were meant from then on, and what ran out once would do so again.
func (t typed) resumeCommand(nodes []drain.NodeStatus) string {
	left := slices.DeleteFunc(slices.Clone(nodes), func(n drain.NodeStatus) bool { return n.State == drain.NodeMissing })
	if len(left) == 0 {
		return ""
	}
	t.args = slices.DeleteFunc(slices.Clone(t.args), func(arg string) bool {
		return !slices.ContainsFunc(left, func(n drain.NodeStatus) bool { return arg == n.Name || strings.HasSuffix(arg, "/"+n.Name) })
	})
	return t.again([]string{"deadline", "at-deadline", "timeout"})
}

// again is what to type to run the command again, without some of its flags and with more
// of them.
func (t typed) again(without []string, more ...string) string {
	words := append([]string{t.command}, t.args...)
	t.flags.Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(without, f.Name) || slices.Contains(t.foreign, f.Name) || slices.Contains(secretFlags, f.Name) || slices.Contains(more, "--"+f.Name):
		default:
			words = append(words, flagWords(f)...)
		}
	})
	return strings.Join(append(words, more...), " ")
}

// accepting is the command that drains in spite of what objects: all flags in one line.
func (t typed) accepting(objections []drain.Blocker) string {
	return t.again(nil, drain.Accept(objections)...)
}
