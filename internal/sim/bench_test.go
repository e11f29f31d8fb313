package sim_test

import (
	"runtime"
	"syscall"
	"testing"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/sim/gen"
	"usher.sh/usher/internal/snapshot"
)

func BenchmarkForecast(b *testing.B) {
	view := gen.Cluster(gen.Size{Nodes: 5000, Pods: 150_000, Zones: 3, Seed: 1})
	for _, bench := range []struct {
		name  string
		nodes []string
		edit  func(*drain.Request)
	}{
		{"1node", someNodes(1, 1), nil},
		{"100nodes", someNodes(100, 7), nil},
		{"zone", someNodes(1666, 3), nil},
		{"zone, 10 at once", someNodes(1666, 3), func(r *drain.Request) { r.MaxParallel = 10 }},
	} {
		b.Run(bench.name, func(b *testing.B) { forecasts(b, view, bench.nodes, bench.edit) })
	}
}

func forecasts(b *testing.B, view snapshot.View, nodes []string, edit func(*drain.Request)) {
	b.Helper()
	req := request(nodes...)
	if edit != nil {
		edit(&req)
	}
	var p sim.Plan
	before := cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		p = sim.Forecast(view, req)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(p.Pods), "pods")
	b.ReportMetric(p.Duration.Seconds(), "planned-s")
	b.ReportMetric(float64(mem.Sys)/(1<<20), "MiB-from-OS")
	b.Logf("%s, %d waves, %d blockers, %d left, %d surges, %d requests", p.Outcome, len(p.Waves), len(p.Blockers), len(p.Left), len(p.Surges), p.Requests)
}

// cpu returns the processor time of this process in seconds: on a busy machine it says
// more than the clock does.
func cpu(b *testing.B) float64 {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}

func someNodes(n, step int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = gen.Node(i * step)
	}
	return names
}

func request(nodes ...string) drain.Request {
	return drain.Request{
		Self: snapshot.Drainer{ID: "me", By: "admin@laptop"}, Nodes: nodes, Started: gen.Start,
		DaemonSets: drain.DaemonSetsIgnore, DeleteEmptyDir: true, Surge: drain.SurgeAuto,
	}
}
