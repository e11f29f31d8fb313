// Command bench answers: how does `usher drain` compare with `kubectl drain`? Both drain the same set-ups in one run,
// on one lab, one after the other, each on nodes and pods of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"usher.sh/usher/lab/throwaway"
)

const usherAgent = "usher/"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func bench(ctx context.Context) error {
	if len(os.Args) != 2 {
		return errors.New("want one argument, the path of usher; run it with `make bench-drain`")
	}
	usher, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	lab, err := throwaway.Start(ctx, "bench")
	if err != nil {
		return err
	}
	runs, err := measureAll(ctx, lab, usher)
	return errors.Join(err, finish(lab, runs, err == nil))
}

func measureAll(ctx context.Context, lab *throwaway.Lab, usher string) ([]*run, error) {
	kubectl, err := lab.Cache.Path("kubectl")
	if err != nil {
		return nil, err
	}
	tools := []tool{
		{name: "kubectl", path: kubectl, flags: []string{"--ignore-daemonsets"}, agent: "kubectl/"},
		{name: "usher, in place", path: usher, flags: []string{"--ignore-daemonsets", "--surge=never"}, agent: usherAgent},
		{name: "usher, surge", path: usher, flags: []string{"--ignore-daemonsets", "--surge=always"}, agent: usherAgent, surges: true},
	}
	var runs []*run
	for i, s := range setups() {
		for j, t := range tools {
			fmt.Printf("%s: draining with %s: ", s.name, t.name)
			r, err := measure(ctx, lab, s, t, fmt.Sprintf("run-%d-%d", i+1, j+1))
			if err != nil {
				fmt.Println("failed")
				return nil, err
			}
			fmt.Printf("%.1f s\n", r.took().Seconds())
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// finish ends the apiserver before its log is read: a watch is in the log only once it has ended.
func finish(lab *throwaway.Lab, runs []*run, measured bool) error {
	if !measured {
		return lab.Kill()
	}
	if err := lab.StopAPIServer(); err != nil {
		return errors.Join(err, lab.Kill())
	}
	if err := count(lab.AuditLog(), runs); err != nil {
		return errors.Join(err, lab.Kill())
	}
	return errors.Join(report(os.Stdout, runs), lab.Kill())
}
