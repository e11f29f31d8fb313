package nodepressure

import "fmt"

// Skipped is a signal on which nothing was decided, and why.
type Skipped struct {
	Signal  Signal     `json:"signal"`
	Reason  SkipReason `json:"reason"`
	Message string     `json:"message"`
}

// SkipReason says why nothing was decided on a signal.
type SkipReason string

// The reasons.
const (
	SkipMissing SkipReason = "Missing" // there is no reading
	SkipStale   SkipReason = "Stale"   // the reading is too old, or was acted upon already
)

// missing names the signals that have a configured threshold and could not be read.
func missing(thresholds []Threshold, node Node) []Skipped {
	var out []Skipped
	for _, t := range thresholds {
		_, read := node.Readings[t.Signal]
		derived := t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree || t.Signal == AllocatableMemoryAvailable
		if read || derived || len(out) > 0 && out[len(out)-1].Signal == t.Signal {
			continue
		}
		out = append(out, Skipped{Signal: t.Signal, Reason: SkipMissing, Message: fmt.Sprintf("%s could not be read, so nothing is done on its account", t.Signal)})
	}
	return out
}

func staleMessage(s Signal) string {
	return fmt.Sprintf("%s was not measured anew since the last look, so nothing is done on its account", s)
}
