// Package e2e asks whether usher does on a real control plane what it does in the
// simulator.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := widen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testlab.Main(m)
}

// widen lets more tests run at once than there are CPUs, because they wait for the lab and not for the CPU. What the
// command line says stands.
func widen() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "8")
}
