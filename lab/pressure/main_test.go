// Package pressure asks whether a node that runs short does what usher says of it, and what usher agent does for it, on
// real nodes.
package pressure

import (
	"flag"
	"testing"

	"usher.sh/usher/lab/testlab"
)

var (
	rounds = flag.Int("rounds", 1, "how many times every load is let loose")
	alone  = flag.Bool("alone", false, "do the same to nodes with their kubelet alone, and compare")
)

func TestMain(m *testing.M) {
	flag.Parse()
	testlab.Main(m)
}
