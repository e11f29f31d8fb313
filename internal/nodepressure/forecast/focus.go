package forecast

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/nodepressure"
)

// focus picks the signal to speak of: one below a hard threshold, else one below a soft one, else one that is near a
// threshold, else memory, which can run short within seconds while disks take hours. Of several the one that is nearest
// as a share of its capacity, and the first of equals.
func focus(signals []Signal, about []nodepressure.Signal) *Signal {
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
	near
	farMemory
	far
	unlimited // there is no threshold
)

// nearShare is how much of its capacity a signal is above a threshold that it is near.
const nearShare = 0.1

// urgency is how soon a signal has to be spoken of, and within a rank how much of its capacity is left above its
// nearest threshold.
func (s *Signal) urgency() (rank int, share float64) {
	rank = unlimited
	for _, l := range s.Levels {
		left := float64(l.Headroom) / float64(max(1, s.Reading.Capacity))
		levelRank := far
		switch {
		case l.Met() && l.Threshold.Hard():
			levelRank = belowHard
		case l.Met():
			levelRank = belowSoft
		case left < nearShare:
			levelRank = near
		case s.Name.Condition() == corev1.NodeMemoryPressure:
			levelRank = farMemory
		}
		if levelRank < rank || (levelRank == rank && left < share) {
			rank, share = levelRank, left
		}
	}
	return rank, share
}

// ranking is the order at the threshold to speak of, nil where there is none.
func (s *Signal) ranking() []nodepressure.Ranked {
	if l := s.Nearest(); l != nil {
		return l.ranking
	}
	return nil
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
