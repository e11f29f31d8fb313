// Command demo answers: what does Usher do? It starts a lab with a small shop in three zones, and drains a node of it
// before your eyes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"usher.sh/usher/lab/throwaway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) error {
	if len(os.Args) != 2 {
		return errors.New("want one argument, the path of usher; run it with `make demo-real`")
	}
	usher, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	begin := time.Now()
	fmt.Println("Starting a cluster with a small shop in three zones ...")
	lab, err := throwaway.Start(ctx, "demo")
	if err != nil {
		return err
	}
	err = show(ctx, lab, usher, begin)
	return errors.Join(err, lab.Kill())
}

func show(ctx context.Context, lab *throwaway.Lab, usher string, begin time.Time) error {
	kubectl, err := lab.Cache.Path("kubectl")
	if err != nil {
		return err
	}
	s := stage{lab: lab, programs: map[string]string{"usher": usher, "kubectl": kubectl}}
	payments, err := s.openShop(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("It is open after %.0f s: %d pods on %d nodes.\n", time.Since(begin).Seconds(), pods, 2*zones)
	for _, st := range steps(payments) {
		if err := s.run(ctx, st); err != nil {
			return err
		}
	}
	return nil
}
