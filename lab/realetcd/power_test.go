package realetcd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// startPower is what controls the power of the nodes' machines: a POST takes it, and from then on a GET says that it is off.
func startPower(t *testing.T) *httptest.Server {
	t.Helper()
	var off atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			off.Store(true)
		}
		state := "On"
		if off.Load() {
			state = "Off"
		}
		fmt.Fprintf(w, `{"PowerState":%q}`, state)
	}))
	t.Cleanup(server.Close)
	return server
}
