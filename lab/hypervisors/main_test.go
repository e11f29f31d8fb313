// Package hypervisors asks: do the servers, routers, networks and speakers of a real OpenStack leave a node before its agents do, and are they served again when
// the node is dead?
package hypervisors

import (
	"flag"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"usher.sh/usher/lab/testlab"
)

var figured = flag.Bool("figures", false, "empty a host with many servers by a shell loop and by a maintenance, and print figures")

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // a manager logs to its own file
	testlab.Main(m)
}
