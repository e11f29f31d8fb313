// Package hypervisors asks: do the servers, routers, networks and speakers of a real OpenStack leave a node before its agents do, and are they served again when
// the node is dead?
package hypervisors

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
