// Package hypervisors asks: do the servers, routers, networks and speakers of a real OpenStack leave a node before its agents do, and are they served again when
// the node is dead?
package hypervisors

import (
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // a manager logs to its own file
	testlab.Main(m)
}
