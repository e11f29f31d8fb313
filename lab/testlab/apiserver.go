package testlab

import (
	"context"
	"testing"
)

// StopAPIServer ends the apiserver as its supervisor would; the rest of the lab goes on. Tests that share a lab must
// not run in parallel with one that does this; StartAPIServer is called after the test if it was not before.
func (l *Lab) StopAPIServer(tb testing.TB) {
	tb.Helper()
	check(tb, "stopping the apiserver", l.cluster.StopAPIServer())
	tb.Cleanup(func() { l.StartAPIServer(tb) })
}

// StartAPIServer starts the apiserver on the same port and data, if it does not run, and waits until it is ready.
func (l *Lab) StartAPIServer(tb testing.TB) {
	tb.Helper()
	if l.cluster.APIServerRuns() {
		return
	}
	check(tb, "starting the apiserver", l.cluster.StartAPIServer(context.WithoutCancel(tb.Context())))
}

// RestartAPIServer ends the apiserver and starts it again.
func (l *Lab) RestartAPIServer(tb testing.TB) {
	tb.Helper()
	l.StopAPIServer(tb)
	l.StartAPIServer(tb)
}
