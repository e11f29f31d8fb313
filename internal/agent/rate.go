package agent

import (
	"slices"
	"time"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// The time over which a rate is taken: long enough that one allocation is no trend, short enough to see a ramp.
const (
	rateOver  = 500 * time.Millisecond
	rateLeast = 5 * time.Millisecond
)

// trend is how fast what is available changed lately.
type trend struct {
	past  map[nodepressure.Signal][]nodepressure.Reading
	rates map[nodepressure.Signal]float64
}

// add enters the readings of a look and returns the rates in units per second, below 0 where less is left. A signal that
// was not seen lately has none; one that was not read anew keeps its own.
func (t *trend) add(readings map[nodepressure.Signal]nodepressure.Reading) map[nodepressure.Signal]float64 {
	rates := map[nodepressure.Signal]float64{}
	next := map[nodepressure.Signal][]nodepressure.Reading{}
	for signal, now := range readings {
		past := t.past[signal]
		if len(past) > 0 && past[len(past)-1].At.Equal(now.At) {
			next[signal] = past
			if rate, known := t.rates[signal]; known {
				rates[signal] = rate
			}
			continue
		}
		past = recent(past, now.At)
		if len(past) > 0 && now.At.Sub(past[0].At) >= rateLeast {
			rates[signal] = float64(now.Available-past[0].Available) / now.At.Sub(past[0].At).Seconds()
		}
		next[signal] = append(past, now)
	}
	t.past, t.rates = next, rates
	return rates
}

// recent keeps the readings of the time that counts, and the last one before it where the ticks are long.
func recent(past []nodepressure.Reading, now time.Time) []nodepressure.Reading {
	first := slices.IndexFunc(past, func(r nodepressure.Reading) bool { return now.Sub(r.At) <= rateOver })
	if first >= 0 {
		return slices.Clone(past[first:])
	}
	if len(past) > 0 && now.Sub(past[len(past)-1].At) <= longestGap {
		return slices.Clone(past[len(past)-1:])
	}
	return nil
}

// longestGap is how far two looks can be apart that a rate is taken between.
const longestGap = 2 * wake.Longest
