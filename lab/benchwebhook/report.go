package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figures is what was measured.
type figures struct {
	floor, reading, webhook, free, governed, fullSpeed, routers, members, crowdedReading, crowded, flooded *load
	started, rested                                                                                        usage // with the most pods
}

func (f *figures) loads() []*load {
	all := []*load{f.floor, f.reading, f.webhook, f.free, f.governed, f.fullSpeed, f.routers, f.members, f.crowdedReading, f.crowded, f.flooded}
	return slices.DeleteFunc(all, func(l *load) bool { return l == nil }) // what was skipped
}

func report(out io.Writer, f *figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nASKED\tANSWERS\tPER SECOND\tP50\tP99\tMOST\tCPU\tREQUESTS\tOBSERVATIONS\tLOG LINES\tLOG KB\tGOROUTINES")
	for _, l := range f.loads() {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t%s\t%s\t%.2f s\t%d\t%d\t%d\t%.0f\t%.0f to %.0f\n", l.name, len(l.times), l.perSecond(),
			ms(l.quantile(0.5)), ms(l.quantile(0.99)), ms(l.quantile(1)), l.after.cpu-l.before.cpu, l.allRequests(), l.observations,
			l.after.logLines-l.before.logLines, float64(l.after.logBytes-l.before.logBytes)/1e3, l.before.goroutines, l.after.goroutines)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nCPU, requests to the apiserver, log and goroutines are those of both replicas together.")
	for _, l := range f.loads() {
		fmt.Fprintf(out, "%s: answers: %s; requests: %s\n", l.name, answered(l.answers), counted(l.requests))
	}
	f.memory(out)
	fmt.Fprintf(out, "p99 of a server that answers at once: %s\n", ms(f.floor.quantile(0.99)))
	fmt.Fprintf(out, "p99 of a server that reads the pods: %s\n", ms(f.reading.quantile(0.99)))
	fmt.Fprintf(out, "p99 of a server that reads the pods, 20,000 pods: %s\n", ms(f.crowdedReading.quantile(0.99)))
	fmt.Fprintf(out, "webhook p50: %s\n", ms(f.webhook.quantile(0.5)))
	fmt.Fprintf(out, "webhook p99: %s\n", ms(f.webhook.quantile(0.99)))
	fmt.Fprintf(out, "webhook p99, 20,000 pods: %s\n", ms(f.crowded.quantile(0.99)))
	fmt.Fprintf(out, "apiserver p99, governed over free: %.2f\n", f.governed.quantile(0.99).Seconds()/f.free.quantile(0.99).Seconds())
	fmt.Fprintf(out, "answers per second: %.0f\n", f.fullSpeed.perSecond())
	if f.flooded != nil {
		fmt.Fprintf(out, "manager memory, 150,000 pods: %s\n", mb(f.rested.peak))
	}
	return nil
}

// memory is about the cluster with the most pods.
func (f *figures) memory(out io.Writer) {
	if f.flooded == nil {
		return
	}
	fmt.Fprintf(out, `
memory of the larger replica, %d nodes and %d pods:
  while starting, at most: %s resident
  just started: %s resident, %s live heap
  after the load: %s resident, %s live heap, at most %s
  at rest: %s resident, %s live heap

`, allNodes, mostPods, mb(f.started.peak), mb(f.started.resident), mb(f.started.live),
		mb(f.flooded.after.resident), mb(f.flooded.after.live), mb(f.flooded.after.peak), mb(f.rested.resident), mb(f.rested.live))
}

func (l *load) allRequests() int {
	sum := 0
	for _, n := range l.requests {
		sum += n
	}
	return sum
}

func answered(all map[string][]time.Duration) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%d %s (p99 %s)", len(all[name]), name, ms(quantile(all[name], 0.99))))
	}
	return strings.Join(parts, "; ")
}

func counted(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, "; ")
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func mb(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }
