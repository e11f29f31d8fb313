//go:build !race

// The race detector would only report what it cannot see: a history runs one goroutine at a time, because it waits until all
// others are blocked before it lets one go on, and the detector does not know that order where a clock wakes a goroutine.

package histories

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var (
	histories      = flag.Int("histories", 60, "how many histories to make")
	first          = flag.Uint64("first", 1, "the seed of the first")
	withoutWatches = flag.Bool("watches", false, "see that histories show each missing watch")
	onlySets       = flag.Bool("sets", false, "make only those histories that are about MemberSets")
	onlyFDB        = flag.Bool("foundationdb", false, "make only those histories that are about MemberSets, which are of FoundationDB")
	onlyLocks      = flag.Bool("locks", false, "have all histories be about locks on nodes")
	onlyOpenStack  = flag.Bool("openstack", false, "have all histories be about a region of OpenStack")
	seed           = flag.Uint64("seed", 0, "make the history of this seed only, and show it")
)

func play(t *testing.T, seed uint64) (result Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		if *onlyFDB {
			result = RunFoundationDB(seed)
			return
		}
		if *onlyLocks {
			result = RunLocks(seed)
			return
		}
		if *onlyOpenStack {
			result = RunOpenStack(seed)
			return
		}
		result = Run(seed)
	})
	return result
}

// TestHistories makes random histories. Those that fail are named by their seeds, with their last events.
func TestHistories(t *testing.T) {
	if *seed != 0 {
		result := play(t, *seed)
		fmt.Println(strings.Join(result.Trace, "\n"))
		report(t, result, 0)
		return
	}
	for s := *first; s < *first+uint64(*histories); s++ {
		if (*onlySets || *onlyFDB) && !aboutSet(s) {
			continue
		}
		report(t, play(t, s), 25)
	}
}

// mostUntilSeen bounds the histories in which a missing watch may stay unseen.
const mostUntilSeen = 3000

// madeUpFor are watches whose events another watch brings as well, by what another controller writes because of them, or since the system
// is asked anew when the epoch of its policy has changed.
var madeUpFor = map[string]string{
	"eviction watches evictionrequests":          "eviction-metadata watches evictionrequests",
	"eviction-metadata watches evictionrequests": "eviction watches evictionrequests",
	"responder watches evictionpolicies":         "responder watches systems",
	"replacing watches evictionpolicies":         "replacing watches replacementrequests",
}

// onlyHasten are watches that bring forward what is looked at again within a minute, or within seconds where claims, volumes, StatefulSets and Leases
// are waited for, which are not watched.
var onlyHasten = []string{
	"replacement watches evictionpolicies", "replacement watches pods", "replacement watches nodes", "replacement watches nodefences",
	"replacement watches systems",
}

// isThere makes the name of a watch one of none: a history without it has the odds of one in which that watch is missing, and all watches.
const isThere = " (which is there)"

// TestEachWatchIsNeeded takes away one watch of one controller after the other: histories must show that it is missing, and hold where none
// is.
func TestEachWatchIsNeeded(t *testing.T) {
	if !*withoutWatches {
		t.Skip("it takes minutes: make sim runs it, with -watches")
	}
	for _, watch := range Watches() {
		if slices.Contains(onlyHasten, watch) {
			continue
		}
		t.Run(watch, func(t *testing.T) {
			t.Parallel()
			missing := []string{watch}
			if other := madeUpFor[watch]; other != "" {
				missing = append(missing, other)
			}
			for s := uint64(1); s <= mostUntilSeen; s++ {
				result := playWithout(t, s, missing...)
				if !slices.ContainsFunc(result.Failures, showsThatAWatchIsMissing) {
					continue
				}
				if whole := playWithout(t, s, watch+isThere); len(whole.Failures) > 0 {
					t.Errorf("seed %d: no watch is missing, and it does not hold: %s", s, strings.Join(whole.Failures, "\n"))
					continue
				}
				t.Logf("seed %d: %s", s, result.Failures[0])
				return
			}
			t.Errorf("%d histories do not show that it is missing", mostUntilSeen)
		})
	}
}

func playWithout(t *testing.T, seed uint64, watches ...string) (result Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { result = RunWithout(seed, watches...) })
	return result
}

func showsThatAWatchIsMissing(failure string) bool {
	property, _, _ := strings.Cut(failure, ":")
	return slices.Contains([]string{"WAKE", "LIVENESS", "UNDO", "LABELS", "LOCKED"}, property)
}

func report(t *testing.T, result Result, lines int) {
	t.Helper()
	if len(result.Failures) == 0 {
		return
	}
	end := result.Trace[max(0, len(result.Trace)-lines):]
	t.Errorf("seed %d: %s\n%s", result.Seed, strings.Join(result.Failures, "\n"), strings.Join(end, "\n"))
}

func TestASeedGivesOneHistory(t *testing.T) {
	for s := uint64(1); s <= 60; s++ {
		if diff := cmp.Diff(play(t, s).Trace, play(t, s).Trace); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", s, diff)
		}
	}
}
