package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main is the main function of a program whose one argument is the path of usher and which is run by a target of make: it runs the
// function with a lab of that name, which ends with it. An interrupt ends the context; an error is printed, and is exit code 1.
func Main(name, target string, run func(ctx context.Context, lab *Lab, usher string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := withLab(ctx, name, target, run)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

func withLab(ctx context.Context, name, target string, run func(ctx context.Context, lab *Lab, usher string) error) error {
	if len(os.Args) != 2 {
		return fmt.Errorf("want one argument, the path of usher; run it with `make %s`", target)
	}
	usher, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	lab, err := Start(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, lab, usher), lab.Kill())
}
