package show

import (
	"encoding/json"
	"fmt"
	"slices"
)

// WhyPods is the answer for some pods, each judged by itself.
type WhyPods struct {
	Pods []Why
	One  bool // one pod was named: there is no list
}

// AllMayGo reports whether nothing keeps any of the pods.
func (w WhyPods) AllMayGo() bool {
	return !slices.ContainsFunc(w.Pods, func(p Why) bool { return !p.mayGo() })
}

// Lines is the answer for people. Pods that may go share their lines, and what keeps others
// comes last.
func (w WhyPods) Lines(width int, paint Paint) []string {
	if w.One || len(w.Pods) == 1 {
		return w.Pods[0].Lines(width, paint)
	}
	free := 0
	var lines, kept []string
	for _, p := range w.Pods {
		if p.mayGo() {
			free++
			lines = append(lines, p.Lines(width, paint)...)
			continue
		}
		kept = append(append(kept, ""), p.Lines(width, paint)...)
	}
	head := indented(fmt.Sprintf("%d of %s may %s; each was judged by itself, and pods that share a budget may not all go at once",
		free, Count(len(w.Pods), "pod"), w.Pods[0].deed()), "", width)
	return append(append(head, lines...), kept...)
}

// JSON is the answer for programs: an object for one pod that was named, else a list.
func (w WhyPods) JSON() ([]byte, error) {
	if w.One {
		return json.MarshalIndent(w.Pods[0].json(), "", "  ")
	}
	all := make([]whyJSON, 0, len(w.Pods))
	for _, p := range w.Pods {
		all = append(all, p.json())
	}
	return json.MarshalIndent(all, "", "  ")
}
