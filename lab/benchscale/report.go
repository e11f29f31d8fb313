package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints all runs, and what is asked of them in the larger cluster.
func report(out io.Writer, runs []*run) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "cluster\tcommand\ttook, s\tfirst eviction, s\trequests\tfrom the apiserver, KB\tmemory, MiB")
	large := map[string]*run{}
	for _, r := range runs {
		first := ""
		if !r.firstEviction.IsZero() {
			first = fmt.Sprintf("%.2f", r.toFirst())
		}
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%s\t%d\t%.1f\t%.0f\n", r.size, r.name, r.took().Seconds(), first, r.requests, r.kilobytes(), r.memory/(1<<20))
		large[r.name] = r
	}
	_ = table.Flush()
	usher, kubectl, why, uncordon := large["usher drain"], large["kubectl drain"], large["usher why"], large["usher uncordon"]
	fmt.Fprintf(out, "\ndrain, first eviction: usher %.2f s, kubectl %.2f s\n", usher.toFirst(), kubectl.toFirst())
	fmt.Fprintf(out, "bytes: usher %.2f MB, kubectl %.2f MB\n", usher.kilobytes()/1e3, kubectl.kilobytes()/1e3)
	fmt.Fprintf(out, "memory: usher %.0f MiB, kubectl %.0f MiB\n", usher.memory/(1<<20), kubectl.memory/(1<<20))
	fmt.Fprintf(out, "why: %.2f s, %.1f KB\n", why.took().Seconds(), why.kilobytes())
	fmt.Fprintf(out, "uncordon: %.2f s, %.1f KB\n", uncordon.took().Seconds(), uncordon.kilobytes())
}

func (r *run) toFirst() float64   { return r.firstEviction.Sub(r.started).Seconds() }
func (r *run) kilobytes() float64 { return float64(r.bytes) / 1e3 }
