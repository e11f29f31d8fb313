package join_test

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }

func TestUp(t *testing.T) {
	l := testlab.Get(t)
	l.RealNodes(t, 2, "a", "b")
}
