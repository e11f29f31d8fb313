package arangodb

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSoManyAtATimeAndEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int64
		each(100, func(i int) {
			n := now.Add(1)
			<-time.After(time.Second)
			most.Store(max(most.Load(), n))
			all.Add(int64(i))
			now.Add(-1)
		})
		if most.Load() != parallel || all.Load() != 99*100/2 {
			t.Errorf("%d at a time, numbers add up to %d", most.Load(), all.Load())
		}
	})
}
