// Package notices asks whether a real node that its cloud takes away is empty in time, with all that was on it at work elsewhere.
package notices

import (
	"flag"
	"testing"

	"usher.sh/usher/lab/testlab"
)

var (
	runs    = flag.Int("runs", 10, "how many nodes are taken away with two minutes' notice, where the test is not short")
	seed    = flag.Uint64("seed", 1, "seed of which nodes go, and of when managers are killed")
	figured = flag.Bool("figures", false, "also drain a node of 30 pods, and print what was measured")
)

func TestMain(m *testing.M) { testlab.Main(m) }
