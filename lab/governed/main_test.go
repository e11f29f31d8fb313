// Package governed asks whether governed pods are as safe on a real control plane as they are in the simulator.
package governed

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m, testlab.Parallel(6)) }
