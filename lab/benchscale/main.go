// Command benchscale answers: what do Usher's commands cost as the cluster grows? It runs them, and kubectl beside them, in a cluster of
// 20 nodes with 500 pods and in the same one grown to 1,000 nodes with 20,000.
package main

import (
	"context"
	"fmt"
	"os"

	"usher.sh/usher/lab/throwaway"
)

func main() {
	throwaway.Main("benchscale", "bench-scale", os.Args[1:], func(ctx context.Context, lab *throwaway.Lab, usher string) error {
		kubectl, err := lab.Cache.Path("kubectl")
		if err != nil {
			return err
		}
		return (&bencher{lab: lab, usher: usher, kubectl: kubectl}).run(ctx)
	})
}

// size is how large the cluster is.
type size struct{ nodes, pods int }

func (s size) String() string { return fmt.Sprintf("%d nodes, %d pods", s.nodes, s.pods) }

var sizes = []size{{20, 500}, {1000, 20000}}

// bencher runs commands in a cluster that grows.
type bencher struct {
	lab            *throwaway.Lab
	usher, kubectl string
	made           size // of the crowd
	stages         int
	runs           []*run
}

func (b *bencher) run(ctx context.Context) error {
	for _, s := range sizes {
		fmt.Printf("growing the cluster to %s ...\n", s)
		if err := b.grow(ctx, s); err != nil {
			return err
		}
		if err := b.measure(ctx, s); err != nil {
			return err
		}
	}
	if err := b.lab.StopAPIServer(); err != nil { // a watch is in the log once it has ended
		return err
	}
	if err := readAudit(b.lab.AuditLog(), b.runs); err != nil {
		return err
	}
	report(os.Stdout, b.runs)
	return nil
}

// measure runs each command once, drains on nodes of their own.
func (b *bencher) measure(ctx context.Context, s size) error {
	forKubectl, err := b.stage(ctx)
	if err != nil {
		return err
	}
	forUsher, err := b.stage(ctx)
	if err != nil {
		return err
	}
	pod := forUsher.pod
	for _, c := range []struct {
		name string
		path string
		args []string
	}{
		{"kubectl drain", b.kubectl, []string{"drain", forKubectl.target, "--ignore-daemonsets"}},
		{"usher why", b.usher, []string{"why", pod, "-n", forUsher.name}},
		{"usher plan", b.usher, []string{"plan", forUsher.target, "--surge=never"}},
		{"usher drain", b.usher, []string{"drain", forUsher.target, "--surge=never"}},
		{"kubectl uncordon", b.kubectl, []string{"uncordon", forKubectl.target}},
		{"usher uncordon", b.usher, []string{"uncordon", forUsher.target}},
	} {
		r, err := b.command(ctx, s, c.name, c.path, c.args)
		if err != nil {
			return err
		}
		fmt.Printf("  %-16s %5.2f s, %8.1f KB, %3.0f MiB\n", c.name, r.took().Seconds(), float64(r.bytes)/1e3, r.memory/(1<<20))
		b.runs = append(b.runs, r)
	}
	return nil
}
