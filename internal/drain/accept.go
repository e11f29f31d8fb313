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

// Accept returns the flags with which the drain would not object any more, sorted. Every objection has one: what a pod's
// users can write keeps no node from being drained.
func Accept(objections []Blocker) []string {
	var flags []string
	for i := range objections {
		if flag, known := acceptedBy[objections[i].Reason]; known {
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}
