// Command usher-image builds an image of usher into an archive, for `make image`. It needs Go, and neither Docker nor a
// registry.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"usher.sh/usher/lab/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "usher-image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var usher image.Usher
	flag.StringVar(&usher.Name, "name", "", "the image's reference, with a tag")
	flag.StringVar(&usher.Arch, "arch", "", "architecture of the nodes: amd64, arm64, …; this machine's if empty")
	flag.StringVar(&usher.Release, "release", "", "the release that the program says it is; none if empty")
	out := flag.String("o", "usher-image.tar", "the archive to write")
	flag.Parse()
	if usher.Name == "" {
		return fmt.Errorf("-name is missing")
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		return fmt.Errorf("building the image: %w", err)
	}
	if err := usher.Write(ctx, *out); err != nil {
		return err
	}
	fmt.Printf("%s holds the image %s: load it on the nodes or push it to a registry, then\n  usher install --image %s\n", *out, usher.Name, usher.Name)
	return nil
}
