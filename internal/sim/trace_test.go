package sim_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// trace notes what becomes of pods, as it is in truth.
type trace struct{ pods map[types.UID]*snapshot.Pod }

func newTrace(c *snapshot.Cluster) *trace {
	t := &trace{pods: map[types.UID]*snapshot.Pod{}}
	c.EachPod(func(p *snapshot.Pod) { t.pods[p.UID] = p })
	return t
}

// changes returns a line for each pod that has come, gone or changed.
func (t *trace) changes(c *snapshot.Cluster) []string {
	var lines []string
	c.EachPod(func(p *snapshot.Pod) {
		if line := change(t.pods[p.UID], p); line != "" {
			lines = append(lines, p.Name+" "+line)
		}
		t.pods[p.UID] = p
	})
	for uid, p := range t.pods {
		if c.Pod(uid) == nil {
			lines = append(lines, p.Name+" is gone")
			delete(t.pods, uid)
		}
	}
	slices.Sort(lines)
	return lines
}

func change(former, p *snapshot.Pod) string {
	switch {
	case former == p:
	case former == nil && p.Node == "":
		return "is created"
	case former == nil || former.Node != p.Node:
		return "is started on " + p.Node
	case p.Terminating() && !former.Terminating():
		return "terminates"
	case p.Ready && !former.Ready:
		return "is ready"
	case !p.Ready && former.Ready:
		return "is not ready any more"
	case p.Unschedulable && !former.Unschedulable:
		return "finds no node: " + p.NotReadyWhy
	}
	return ""
}
