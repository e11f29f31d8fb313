package openstack

import (
	"testing"
	"time"
)

// Until asks until done says so, and logs how long that took. OpenStack has no watches. The test fails after most, which ends only what hangs.
func Until(tb testing.TB, most time.Duration, what string, done func() bool) {
	tb.Helper()
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > most {
			tb.Fatalf("%s: not after %s", what, most)
		}
		<-tick.C
	}
	tb.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}
