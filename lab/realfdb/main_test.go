// Package realfdb asks whether Usher, as pods, runs a real FoundationDB on real nodes without the loss of an acknowledged commit.
package realfdb

import (
	"flag"
	"testing"

	"usher.sh/usher/lab/testlab"
)

var (
	seed        = flag.Uint64("seed", 1, "seed of the moments at which managers are killed")
	figured     = flag.Bool("figures", false, "print figures; no manager is killed")
	addressFrom = flag.String("address-from", "Pod", "whose address members are reached at: Pod or Service")
)

func TestMain(m *testing.M) { testlab.Main(m) }
