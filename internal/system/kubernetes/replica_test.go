package kubernetes

import (
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"

	"usher.sh/usher/api/v1alpha1"
)

// A pod that is shown Ready on a node which is lost, or deleted, is no copy of anything: its kubelet says nothing of it any more.
func TestOthersAreOnNodesThatReport(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*simulated)
		want   []string
	}{
		"all report":              {func(*simulated) {}, []string{"web-b", "web-c"}},
		"one is cordoned":         {func(s *simulated) { s.nodes[s.pods[1].Node].Unschedulable = true }, []string{"web-b", "web-c"}},
		"one does not report":     {func(s *simulated) { s.nodes[s.pods[1].Node].Ready = false }, []string{"web-c"}},
		"the Node of one is gone": {func(s *simulated) { delete(s.nodes, s.pods[1].Node) }, []string{"web-c"}},
	} {
		s := lone(3).with(test.change)
		var members []system.Member
		for _, p := range s.pods {
			members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: "replica", ID: p.Name, PodName: p.Name, PodUID: p.UID, Node: p.Node}, Pod: p})
		}
		all, _ := limits{}.observed(snapshot.View{Cluster: s.view().Cluster, Now: s.now.Add(time.Hour)}, members)
		others, _ := all["web-a"]["others"].([]string)
		if slices.Sort(others); !slices.Equal(others, test.want) {
			t.Errorf("%s: %v, want %v", name, others, test.want)
		}
	}
}
