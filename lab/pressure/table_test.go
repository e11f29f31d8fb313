package pressure

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// report prints what was measured.
func report(t *testing.T, all []figures) {
	t.Helper()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nLOAD\tWITH\tPREDICTED\tWENT\tHOW\tOOM KILLS\tBREACH TO DECISION, ms")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.load, f.with, cmp.Or(f.predicted, "none"),
			cmp.Or(strings.Join(f.died, ", "), "none"), f.how, cmp.Or(strings.Join(f.oom, ", "), "none"), f.ms())
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nbreach to decision: %s ms (kubelet %s ms)\n", median(all, "agent"), median(all, "kubelet"))
}

func (f figures) ms() string {
	if !f.timed {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(f.took)/float64(time.Millisecond))
}

// median is over all loads at which a decision was made.
func median(all []figures, with string) string {
	var timed []figures
	for _, f := range all {
		if f.with == with && f.timed {
			timed = append(timed, f)
		}
	}
	if len(timed) == 0 {
		return "-"
	}
	slices.SortFunc(timed, func(a, b figures) int { return cmp.Compare(a.took, b.took) })
	return timed[len(timed)/2].ms()
}
