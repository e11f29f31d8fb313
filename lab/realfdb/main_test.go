// Package realfdb asks whether Usher, as pods, runs a real FoundationDB on real nodes without the loss of an acknowledged commit.
package realfdb

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
