// Command mutate changes Usher's account of node pressure, one line at a time and outside of the tree, and runs the
// comparison with the kubelet on each: a comparison that does not notice is worth nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// mutation is one wrong line. Old stands in the file exactly once.
type mutation struct {
	name, file, old, new string
	test                 string // the tests that should notice
}

var mutations = []mutation{
	{"overhead counts for pods that request nothing", "requests.go", "found && !q.IsZero()", "found", "TestRanking"},
	{"init containers add to the main containers", "requests.go", "if restartable(c) {", "if true {", "TestRanking"},
	{"a threshold is met when it is reached", "threshold.go", "return limit.CmpInt64(r.Available) > 0\n}\n\n// MetWithReclaim", "return limit.CmpInt64(r.Available) >= 0\n}\n\n// MetWithReclaim", "TestSteps"},
	{"writable layers count for a nodefs that they are not on", "layout.go", "return []FsPart{Logs, Volumes}", "return []FsPart{Logs, Volumes, WritableLayers}", "TestRanking"},
	{"minimum reclaim counts from the first look on", "step.go", "slices.Contains(s.Due, t.key()) && t.MetWithReclaim(r)", "t.MetWithReclaim(r)", "TestSteps"},
	{"a condition stays a moment too long", "step.go", "in.Now.Sub(seen[c]) < transition", "in.Now.Sub(seen[c]) <= transition", "TestSteps"},
	{"a grace period has to be exceeded", "step.go", "in.Now.Sub(since) >= t.Grace", "in.Now.Sub(since) > t.Grace", "TestSteps"},
	{"a reading is acted upon twice", "step.go", "!at.After(last)", "at.Before(last)", "TestSteps"},
	{"memory is not dealt with first", "step.go", "first(a.Signal.Resource() == resourceMemory, b.Signal.Resource() == resourceMemory),", "first(b.Signal.Resource() == resourceMemory, a.Signal.Resource() == resourceMemory),", "TestSteps"},
	{"the longest grace is that of every pod", "step.go", "max(min(own, longest), leastGrace)", "max(longest, leastGrace)", "TestSteps"},
	{"priority goes before what is over its request", "rank_keys.go", "byNoStats, byOverRequest, byPriority, byOverage", "byNoStats, byPriority, byOverRequest, byOverage", "TestRanking"},
	{"the highest critical priority is not critical", "podof.go", "*p.Spec.Priority >= criticalPriority", "*p.Spec.Priority > criticalPriority", "TestSteps"},
	{"a sidecar is spared like the largest main container", "oom.go", "i == 0 || request < smallest", "i == 0 || request > smallest", "TestOOM"},
	{"the least score of a Burstable container is 2", "oom.go", "adjLeast      = 3", "adjLeast      = 2", "TestOOM"},
	{"init containers do not count for the class", "qos.go", "[][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers}", "[][]corev1.Container{p.Spec.Containers}", "TestQoS"},
	{"what a pod as a whole asks for is ranked before it is granted", "requests.go", "allottedMemory(p); known {", "allottedMemory(p); known && false {", "TestRanking"},
	{"what a pod as a whole asks for is scored before it is granted", "allotted.go", "!found || own.Equal(total)", "true || found && own.Equal(total)", "TestOOM"},
	{"what a container asks for is scored before it is granted", "allotted.go", "resized(out[i].Resources.Requests, s.AllocatedResources)", "out[i].Resources.Requests", "TestOOM"},
	{"a container's first request is scored before it is granted", "allotted.go", "(s.AllocatedResources != nil || s.Resources != nil)", "s.AllocatedResources != nil", "TestOOM"},
	{"a pod that was deleted with more grace than its spec's keeps that", "pod.go", "if p.SpecGrace != 0 {", "if false {", "TestSteps"},
	{"what is rounded to 100% is no threshold", "parse.go", "err != nil || nothing.MatchString(s):", "err != nil || f == 1 || nothing.MatchString(s):", "TestThresholds"},
	{"what is rounded to 0% is no threshold", "parse.go", "f = math.SmallestNonzeroFloat32", "f = 0", "TestThresholds"},
	{"a container's own restart policy does not count", "restart.go", "if c.RestartPolicy != nil {", "if false {", "TestRestart"},
	{"a restart rule for the exit code does not count", "restart.go", "if restartRule(c) {", "if false {", "TestRestart"},
	{"soft thresholds have no minimum reclaim", "parse.go", "Grace: graces[signal], MinReclaim: reclaim[signal]", "Grace: graces[signal]", "TestThresholds"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	missed := 0
	for _, m := range mutations {
		noticed, err := m.try(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if noticed == "" {
			noticed = "NOT NOTICED"
			missed++
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", m.name, m.file, noticed)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d mutations were not noticed", missed, len(mutations))
	}
	fmt.Printf("all %d mutations were noticed\n", len(mutations))
	return nil
}

// try returns the first test that fails with the mutation, "" if none does.
func (m mutation) try(ctx context.Context, dir string) (string, error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay="+overlay, "-run="+m.test, ".", "-inputs=20000")
	text, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	for line := range strings.Lines(string(text)) {
		if test, found := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); found {
			return strings.Fields(test)[0], nil
		}
	}
	return "", fmt.Errorf("running the comparison: %w\n%s", err, text)
}

// overlay writes the changed file and returns the path of the overlay file of the go command.
func (m mutation) overlay(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "..", "internal", "pressure", m.file))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), m.old) != 1 {
		return "", errors.New("the line to change does not stand exactly once in " + m.file)
	}
	changed, config := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	return config, os.WriteFile(config, text, 0o600)
}
