package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
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
a killed drain is tidied up by the next usher command.

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

// commandLine is what to type to run the command again. A deadline is left out: it
// was meant from then on.
func commandLine(command string, args []string, flags *pflag.FlagSet) string {
	words := append([]string{command}, args...)
	flags.Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "deadline" || f.Name == "at-deadline" || slices.Contains(secretFlags, f.Name):
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name+"="+quoted(f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

// quoted protects a word from a shell.
func quoted(word string) string {
	if word != "" && strings.IndexFunc(word, unsafeInShell) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func unsafeInShell(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,.:/@%+", r)
}
