// Command bench answers: how does `usher drain` compare with `kubectl drain`? Both drain the same set-ups in one run,
// on one lab, one after the other, each on nodes and pods of its own. With the argument maintenance it answers: how does a drain by the
// manager compare with `usher drain`, and what do policies of plain workloads change for `kubectl drain`?
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"usher.sh/usher/lab/throwaway"
)

const usherAgent = "usher/"

func main() {
	if args := os.Args[1:]; len(args) > 0 && args[0] == "maintenance" {
		throwaway.Main("bench", "bench-maintenance", args[1:], benchMaintenance)
		return
	}
	throwaway.Main("bench", "bench-drain", os.Args[1:], bench)
}

func bench(ctx context.Context, lab *throwaway.Lab, usher string) error {
	tools, err := toolsOf(lab, usher)
	if err != nil {
		return err
	}
	runs, err := measureAll(ctx, lab, tools)
	if err != nil {
		return err
	}
	line, err := measureBoth(ctx, lab, tools)
	if err != nil {
		return err
	}
	return finish(lab, runs, line, report)
}

// measureBoth drains an awkward node with kubectl and with usher, in place as kubectl does, and returns what was seen.
func measureBoth(ctx context.Context, lab *throwaway.Lab, tools []tool) (string, error) {
	fmt.Println(awkward + ": draining with kubectl, then with usher until it ends by itself, which takes some minutes")
	kubectl, err := measureAwkward(ctx, lab, tools[0], "awkward-kubectl", false)
	if err != nil {
		return "", err
	}
	usher, err := measureAwkward(ctx, lab, tools[1], "awkward-usher", true)
	return reportAwkward(usher, kubectl), err
}

func toolsOf(lab *throwaway.Lab, usher string) ([]tool, error) {
	kubectl, err := lab.Cache.Path("kubectl")
	if err != nil {
		return nil, err
	}
	return []tool{
		{name: "kubectl", path: kubectl, flags: []string{"--ignore-daemonsets"}, agent: "kubectl/"},
		{name: "usher, in place", path: usher, flags: []string{"--ignore-daemonsets", "--surge=never"}, agent: usherAgent},
		{name: "usher, surge", path: usher, flags: []string{"--ignore-daemonsets", "--surge=always"}, agent: usherAgent, surges: true},
	}, nil
}

func measureAll(ctx context.Context, lab *throwaway.Lab, tools []tool) ([]*run, error) {
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
func finish(lab *throwaway.Lab, runs []*run, line string, report func(io.Writer, []*run) error) error {
	if err := lab.StopAPIServer(); err != nil {
		return err
	}
	if err := count(lab.AuditLog(), runs); err != nil {
		return err
	}
	if err := report(os.Stdout, runs); err != nil {
		return err
	}
	fmt.Print(line)
	return nil
}
