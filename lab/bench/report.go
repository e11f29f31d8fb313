package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints what was measured. The runs come as kubectl, in place, surge for each set-up.
func report(out io.Writer, runs []*run) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSET-UP\tDRAINED WITH\tSECONDS\tSPEEDUP\tFLOOR\tEVICTED\tREFUSED\tREQUESTS\tPER POD\tLOWEST READY")
	var base *run
	for _, r := range runs {
		if base == nil || base.setup.name != r.setup.name {
			base = r
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.2f\t%s\t%d\t%d\t%d\t%.2f\t%d of %d\n", r.setup.name, r.tool.name, r.took().Seconds(),
			speedup(base, r), floor(r), r.requests.evicted, r.requests.refused, r.requests.all, r.perPod(), r.ready.lowest, replicas)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, `
SPEEDUP is over kubectl on the same set-up. FLOOR is how long the slowest Deployment was short of a ready pod: in place, under
a budget of one pod, nothing can be faster; the in-place limit is the speedup of a drain that takes only that long. Below,
speedups are those of the first set-up, the rest is the worst of all.

`)
	kubectl, inPlace, surge := runs[0], runs[1], runs[2]
	fmt.Fprintf(out, "in-place speedup: %.2f\n", speedup(kubectl, inPlace))
	fmt.Fprintf(out, "in-place limit: %.2f\n", kubectl.took().Seconds()/inPlace.ready.short.Seconds())
	fmt.Fprintf(out, "surge speedup: %.2f\n", speedup(kubectl, surge))
	perPod, lowest := worst(runs)
	fmt.Fprintf(out, "requests per pod: %.2f\n", perPod)
	fmt.Fprintf(out, "lowest ready while surging: %d of %d\n", lowest, replicas)
	return nil
}

func speedup(base, r *run) float64 { return base.took().Seconds() / r.took().Seconds() }

// floor is empty for a surge, which has no such limit.
func floor(r *run) string {
	if r.tool.surges {
		return ""
	}
	return fmt.Sprintf("%.1f", r.ready.short.Seconds())
}

func (r *run) perPod() float64 { return float64(r.requests.all) / (deployments * replicas) }

// worst returns usher's most requests for a pod, and the fewest ready pods of a Deployment in a surge.
func worst(runs []*run) (perPod float64, lowest int) {
	lowest = replicas
	for _, r := range runs {
		if r.tool.agent == usherAgent {
			perPod = max(perPod, r.perPod())
		}
		if r.tool.surges {
			lowest = min(lowest, r.ready.lowest)
		}
	}
	return perPod, lowest
}
