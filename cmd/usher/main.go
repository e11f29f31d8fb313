// Command usher moves pods off nodes without losing data. Linked as kubectl-usher
// it is `kubectl usher`.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(cli.Main(os.Args, streams))
}
