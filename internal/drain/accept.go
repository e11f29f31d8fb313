package drain

import "slices"

// acceptedBy names the flag by which an operator accepts what a filter objects to. Where
// there are two, it is the one that removes less.
var acceptedBy = map[Reason]string{
	DaemonSetPod:    "--ignore-daemonsets",
	OrphanedDaemon:  "--force",
	UnreplicatedPod: "--force",
	LocalStorage:    "--delete-emptydir-data",
}

// Accept returns the flags with which the drain would not object any more, sorted, and
// whether they are enough: an order that cannot be read has no flag.
func Accept(objections []Blocker) (flags []string, enough bool) {
	enough = true
	for i := range objections {
		flag, known := acceptedBy[objections[i].Reason]
		switch {
		case !known:
			enough = false
		case !slices.Contains(flags, flag):
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	return flags, enough
}
