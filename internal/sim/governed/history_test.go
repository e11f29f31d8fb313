package governed

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	histories = flag.Int("histories", 50, "how many histories to make")
	seed      = flag.Uint64("seed", 0, "make this one history only, and show it")
	first     = flag.Uint64("first", 1, "the seed of the first history")
)

func run(t *testing.T, seed uint64) (result Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { result = Run(seed) })
	return result
}

// TestHistories makes random histories. Each that fails is named by its seed and shown.
func TestHistories(t *testing.T) {
	if *seed != 0 {
		result := run(t, *seed)
		fmt.Println(strings.Join(result.Trace, "\n"))
		if len(result.Failures) > 0 {
			t.Errorf("seed %d: %s", *seed, strings.Join(result.Failures, "\n"))
		}
		return
	}
	for s := *first; s < *first+uint64(*histories); s++ {
		result := run(t, s)
		if len(result.Failures) > 0 {
			t.Errorf("seed %d: %s\n%s", s, strings.Join(result.Failures, "\n"), strings.Join(result.Trace[max(0, len(result.Trace)-25):], "\n"))
		}
	}
}
