// Package filters compares which pods kubectl drain and usher would take off a node, on random sets of pods.
package filters

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
