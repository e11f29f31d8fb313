package manager

import (
	"runtime"
	"testing"
)

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for live, want := range map[uint64]int{
		0: mostPercent, 4 * mb: mostPercent, 32 * mb: 400, 128 * mb: 100, 256 * mb: 50, 320 * mb: 40, 4096 * mb: 40,
	} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes in use: %d %%, want %d", live, got, want)
		}
	}
}

func TestAfterEachCollection(t *testing.T) {
	found := make(chan uint64)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	afterEachCollection(func(live uint64) {
		select {
		case found <- live:
		case <-ended:
		}
	})
	for seen := 0; seen < 3; {
		runtime.GC() // one that follows at once may come before it is waited for
		select {
		case live := <-found:
			seen++
			if live == 0 {
				t.Error("a collection has found nothing in use")
			}
		default:
			runtime.Gosched()
		}
	}
}
