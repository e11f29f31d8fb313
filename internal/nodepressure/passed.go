package nodepressure

import "fmt"

// Why a pod is passed over.
const (
	passedSelf      = "it is usher's own agent"
	passedLeaving   = "it is leaving already"
	passedUnknown   = "nothing is known of what it uses"
	passedDaemonSet = "its DaemonSet would start it again here, and it stays within its request"
)

// passedAt says why usher agent passes a pod over at a threshold, as far as the pod and its node say it, "" if it does not.
// A forecast in its order goes by the same rules.
func passedAt(t Threshold, node Node, p *Pod) string {
	switch {
	case p.Terminating:
		return passedLeaving
	case !measured(t.Signal, p):
		return passedUnknown
	case !helps(t, node, p):
		return tooLittle(t.Signal, node.Layout, p)
	case comesBack(t, node.Layout, p):
		return passedDaemonSet
	}
	return ""
}

// comesBack reports whether a pod would be on its node again at once, for no fault of its own.
func comesBack(t Threshold, layout Layout, p *Pod) bool {
	return p.DaemonSet && !t.Hard() && !measure(t.Signal, layout, p).exceeds()
}

// helps reports whether a pod that was measured uses enough of what is short to make a difference.
func helps(t Threshold, node Node, p *Pod) bool {
	reading := node.Readings[t.Signal]
	missing := (t.Below.Of(reading.Capacity) - reading.Available) / 100
	return measure(t.Signal, node.Layout, p).usage >= max(leastHelp(t.Signal), missing)
}

func tooLittle(s Signal, layout Layout, p *Pod) string {
	return fmt.Sprintf("it uses too little to help: %s", uses(s, entry{standing: measure(s, layout, p)}))
}

// measured reports whether it is known what a pod uses of what is short. Disk takes a while longer than the rest.
func measured(s Signal, p *Pod) bool {
	return p.Usage != nil && (p.Usage.Disk != nil || !onDisk(s))
}

// leastHelp is what is next to nothing.
func leastHelp(s Signal) int64 {
	switch s.Resource() {
	case resourceMemory:
		return 4 << 20
	case resourceDisk:
		return 1 << 20
	case resourceInodes:
		return 64
	default:
		return 4
	}
}
