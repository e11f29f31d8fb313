// Command usher moves pods off nodes without losing data. Linked as kubectl-usher
// it is `kubectl usher`.
package main

import (
	"os"

	// An image that holds nothing but this program has no certificate authorities: these are believed where the machine has none.
	_ "golang.org/x/crypto/x509roots/fallback"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(cli.Main(os.Args, streams))
}
