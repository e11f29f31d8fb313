package forecast

import (
	"slices"

	"usher.sh/usher/internal/pressure"
)

// focus picks the signal to speak of: one below a hard threshold before one below a soft one before the one that is
// nearest to any, as a share of its capacity; the first of equals.
func focus(signals []Signal, about []pressure.Signal) *Signal {
	var best *Signal
	var bestRank int
	var bestShare float64
	for i := range signals {
		s := &signals[i]
		if s.Reading == nil || (len(about) > 0 && !slices.Contains(about, s.Name)) {
			continue
		}
		rank, share := s.urgency()
		if best == nil || rank < bestRank || (rank == bestRank && share < bestShare) {
			best, bestRank, bestShare = s, rank, share
		}
	}
	return best
}

// The ranks of signals.
const (
	belowHard = iota
	belowSoft
	above
	unlimited // there is no threshold
)

// urgency is how soon a signal has to be spoken of, and within a rank how much of its capacity is left above its
// nearest threshold.
func (s *Signal) urgency() (rank int, share float64) {
	rank = unlimited
	for _, l := range s.Levels {
		levelRank := above
		switch {
		case l.Met() && l.Threshold.Hard():
			levelRank = belowHard
		case l.Met():
			levelRank = belowSoft
		}
		left := float64(l.Headroom) / float64(max(1, s.Reading.Capacity))
		if levelRank < rank || (levelRank == rank && left < share) {
			rank, share = levelRank, left
		}
	}
	return rank, share
}

// Nearest is the threshold to speak of: the first that is met, the hard one first; else the one that is nearest. It is
// nil where there is none or nothing was measured.
func (s *Signal) Nearest() *Level {
	var best *Level
	for i := range s.Levels {
		l := &s.Levels[i]
		switch {
		case s.Reading == nil:
			return nil
		case l.Met() && l.Threshold.Hard():
			return l
		case best == nil || l.Headroom < best.Headroom:
			best = l
		}
	}
	return best
}
