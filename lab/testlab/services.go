package testlab

import (
	"testing"

	"usher.sh/usher/lab/serviceproxy"
)

// ServeServices makes the addresses of Services lead to ready pods of real nodes until the test ends, for the apiserver
// and for those pods, as kube-proxy would. Only one test at a time may use it. To be called after RealNodes, which finds
// out whether the machine can do that.
func (l *Lab) ServeServices(tb testing.TB) {
	tb.Helper()
	config := serviceproxy.Config{Services: l.cluster.Services(), APIServer: l.cluster.Address()}
	proxy, err := serviceproxy.Start(tb.Context(), l.client, config, func(err error) { tb.Error(err) })
	check(tb, "serving Services", err)
	tb.Cleanup(func() {
		if err := proxy.Stop(); err != nil {
			tb.Error(err)
		}
	})
}
