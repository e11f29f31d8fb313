// Package e2e asks whether usher does on a real control plane what it does in the
// simulator.
package e2e

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m, testlab.Parallel(8)) }
