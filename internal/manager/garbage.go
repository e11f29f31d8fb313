package manager

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Almost all of the heap is caches, which live as long as the process. Garbage that waits in proportion to them would be half
// of the memory in a large cluster; collecting it after a fixed amount costs each answer in proportion to the caches instead,
// since every collection looks at all of them. So as much may wait as keeps collections rare in clusters of usual size, or
// leastPercent of a heap that is larger.
const (
	mostGarbage  = 128 << 20 // bytes
	leastPercent = 40
	mostPercent  = 1000 // of a heap of a few megabytes
)

// gcPercent is what GOGC is to be while so many bytes of the heap are in use.
func gcPercent(live uint64) int {
	return int(min(max(mostGarbage*100/max(live, 1), leastPercent), mostPercent))
}

// paceGarbage has the collector wait for as much garbage as gcPercent says, from now on and after each collection. It leaves it
// alone where GOGC is set in the environment. GOMEMLIMIT bounds it in any case.
func paceGarbage() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(leastPercent)
		afterEachCollection(func(live uint64) { debug.SetGCPercent(gcPercent(live)) })
	}
}

// afterEachCollection calls do with the bytes that each collection has found in use, one call at a time.
func afterEachCollection(do func(live uint64)) {
	type sentinel struct{ _ *byte } // not to be allocated together with others, which could keep it alive
	var after func(*sentinel)
	after = func(s *sentinel) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		do(sample[0].Value.Uint64())
		runtime.SetFinalizer(s, after)
	}
	runtime.SetFinalizer(&sentinel{}, after)
}
