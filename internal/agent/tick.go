package agent

import (
	"time"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// fastest is how fast each resource can be used up on common machines, in its unit per second.
var fastest = map[string]float64{
	nodepressure.MemoryAvailable.Resource():  wake.Fastest,
	nodepressure.NodeFsAvailable.Resource():  2 << 30,
	nodepressure.NodeFsInodesFree.Resource(): 200_000,
	nodepressure.PIDAvailable.Resource():     20_000,
}

// The tick while a threshold is met: at a hard one something is about to change; inside the grace of a soft one little is.
// A node that stays at a hard one because no pod may leave is looked at ever less often.
const (
	pressedShortest = 25 * time.Millisecond
	pressedLongest  = time.Second
)

// standing says where the readings are among the thresholds.
type standing struct {
	soft, hard bool // one of these is met
	// until is how long the next look at each part may wait.
	until [senses]time.Duration
}

// stand compares. idle is the number of looks at a hard breach since something was done or happened.
func stand(node nodepressure.Node, thresholds []nodepressure.Threshold, rates map[nodepressure.Signal]float64, idle int) standing {
	var s standing
	for i := range s.until {
		s.until[i] = wake.Longest
	}
	for _, t := range thresholds {
		reading, ok := node.Readings[t.Signal]
		if !ok {
			continue
		}
		wait := wake.Next(reading.Available-t.Below.Of(reading.Capacity), -rates[t.Signal], fastest[t.Signal.Resource()])
		switch met := t.Met(reading); {
		case met && t.Hard():
			s.hard = true
			wait = min(pressedShortest<<min(idle/8, 10), pressedLongest)
		case met:
			s.soft = true
			wait = pressedLongest
		}
		s.until[senseOf(t.Signal)] = min(s.until[senseOf(t.Signal)], wait)
	}
	return s
}
