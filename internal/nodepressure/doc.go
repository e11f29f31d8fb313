// Package nodepressure answers: when a node runs short of memory, disk, inodes or pids, which pod goes first, why, and what
// is done about it?
//
// It is pure. Rank puts pods into one of two orders; OOMScores says which container the kernel would take; Step is what the
// kubelet does in one look at the node; Relief.Next is what Usher's agent does instead: gentler, one pod at a time, and never
// without saying what it waits for. The same functions stand behind `usher pressure` and `usher agent`.
package nodepressure
