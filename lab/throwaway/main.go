package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Main is the main function of a program that is run by a target of make, whose one argument is the path of usher: it runs the function
// with a lab of that name, which ends with it. An interrupt ends the context; an error is printed, and is exit code 1.
func Main(name, target string, args []string, run func(ctx context.Context, lab *Lab, usher string) error) {
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := withLab(ctx, name, target, args, run)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

func withLab(ctx context.Context, name, target string, args []string, run func(ctx context.Context, lab *Lab, usher string) error) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the path of usher; run it with `make %s`", target)
	}
	usher, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	lab, err := Start(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, lab, usher), lab.Kill())
}
