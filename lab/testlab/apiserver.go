package testlab

import (
	"context"
	"testing"
)

// StopAPIServer ends the apiserver as its supervisor would; the rest of the lab goes on. Tests that share a lab must
// not run in parallel with one that does this; StartAPIServer is called after the test if it was not before.
func (l *Lab) StopAPIServer(t testing.TB) {
	t.Helper()
	check(t, "stopping the apiserver", l.cluster.StopAPIServer())
	t.Cleanup(func() { l.StartAPIServer(t) })
}

// StartAPIServer starts the apiserver on the same port and data, if it does not run, and waits until it is ready.
func (l *Lab) StartAPIServer(t testing.TB) {
	t.Helper()
	if l.cluster.APIServerRuns() {
		return
	}
	check(t, "starting the apiserver", l.cluster.StartAPIServer(context.WithoutCancel(t.Context())))
}

// RestartAPIServer ends the apiserver and starts it again.
func (l *Lab) RestartAPIServer(t testing.TB) {
	t.Helper()
	l.StopAPIServer(t)
	l.StartAPIServer(t)
}
