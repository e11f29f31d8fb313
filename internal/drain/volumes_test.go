package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

func TestNodeIsDrainedWhenItsVolumesAreGone(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), statefulSet("db", 1), pod("db-0", on("a"), ofSet("db"), claims("c")), claim("c", "v", false), attached("v", "a"), attached("w", "b"))
	s.expect("evict db-0")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("db-0"))
	s.expect()
	s.holds("a: VolumeAttached")
	s.ends(drain.Running)
	same(t, "state", drain.NodeDraining, s.last.Nodes[0].State)
	s.then(time.Second, detached("v"))
	s.expect("mark a drained")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")))
	s.expect()
	s.ends(drain.Drained)
}

func TestVolumesOfPodsThatStay(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), daemonSet("d"), pod("d-a", on("a"), ofDaemon("d"), claims("c")), claim("c", "v", false), attached("v", "a"), attached("w", "a"))
	s.expect()
	s.holds("a: VolumeAttached")
	same(t, "message", "w is still attached to the node", s.last.Nodes[0].Blockers[0].Message)
	s.then(time.Second, detached("w"))
	s.expect("mark a drained")
}

// A drain that ends while volumes are still attached has not drained the node.
func TestEndWithVolumesAttached(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), attached("v", "a"))
	s.expect()
	s.led.End(drain.TimedOut)
	s.expect("mark a timeout")
	same(t, "state", drain.NodeTimedOut, s.last.Nodes[0].State)
	s.holds("a: VolumeAttached")
}
