package wake

import "time"

// Bounds of the tick. With Shortest, reading four small files each time costs about 1 % of a core.
const (
	Shortest = 20 * time.Millisecond
	Longest  = 10 * time.Second
)

// Fastest is how fast memory can be filled, in bytes per second: what a few threads manage on common machines. A faster
// one is noticed by its rate.
const Fastest = 2 << 30

// Next returns how long to wait before the next look at something of which headroom is left above its next threshold, and
// which was filled at rate per second lately, or may be at least at fastest: half the time that it would last. Past the
// threshold, headroom counts as none.
func Next(headroom int64, rate, fastest float64) time.Duration {
	per := max(rate, fastest)
	if headroom <= 0 {
		return Shortest
	}
	if per <= 0 {
		return Longest
	}
	left := float64(headroom) / per / 2
	if left >= Longest.Seconds() {
		return Longest
	}
	return max(time.Duration(left*float64(time.Second)), Shortest)
}
