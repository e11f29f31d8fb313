// Package pressure asks whether a node that runs short does what usher says of it, on real nodes.
package pressure

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
