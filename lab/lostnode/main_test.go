// Package lostnode asks whether a node that has died is proven off and cleared on a real control plane, and whether nothing moves without the proof.
package lostnode

import (
	"testing"
	"time"

	"usher.sh/usher/lab/testlab"
)

// The simulated kubelets renew their Leases every ten seconds.
func TestMain(m *testing.M) {
	testlab.Main(m, testlab.WithNodeGrace(30*time.Second), testlab.Parallel(3))
}
