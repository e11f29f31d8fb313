package agent

import (
	"time"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/pressure"
)

// fastest is how fast each resource can be used up on common machines, in its unit per second.
var fastest = map[string]float64{
	pressure.MemoryAvailable.Resource():  wake.Fastest,
	pressure.NodeFsAvailable.Resource():  2 << 30,
	pressure.NodeFsInodesFree.Resource(): 200_000,
	pressure.PIDAvailable.Resource():     20_000,
}

// The tick while a threshold is met: at a hard one something is about to change; inside the grace of a soft one little is.
// A node that stays at a hard one because nobody may leave is looked at ever less often.
const (
	pressedShortest = 25 * time.Millisecond
	pressedLongest  = time.Second
)

// standing says where the readings are among the thresholds.
type standing struct {
	soft, hard bool          // one of these is met
	until      time.Duration // how long the next look may wait for those that are not
}

func stand(node pressure.Node, thresholds []pressure.Threshold, rates map[pressure.Signal]float64) standing {
	s := standing{until: wake.Longest}
	for _, t := range thresholds {
		reading, ok := node.Readings[t.Signal]
		switch {
		case !ok:
		case t.Met(reading) && t.Hard():
			s.hard = true
		case t.Met(reading):
			s.soft = true
		default:
			headroom := reading.Available - t.Below.Of(reading.Capacity)
			s.until = min(s.until, wake.Next(headroom, -rates[t.Signal], fastest[t.Signal.Resource()]))
		}
	}
	return s
}

// tick returns how long to wait for the next look, after so many looks at a hard breach without anything being done.
func (s standing) tick(idle int) time.Duration {
	switch {
	case s.hard:
		return min(pressedShortest<<min(idle/8, 10), pressedLongest)
	case s.soft:
		return min(s.until, pressedLongest)
	}
	return s.until
}
