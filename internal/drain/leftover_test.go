package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestRemains(t *testing.T) {
	long := start.Add(-time.Hour)
	x := map[string]bool{"x": true}
	const revert, surge = "usher drain --revert", "Deployment default/web is still scaled to 2 (it was 1)"
	cases := map[string]struct {
		facts fact
		dead  map[string]bool
		want  []drain.Leftover
	}{
		"… of whose node nothing is known":     {all(partly("nodes"), deployment("web", 2, surgedBy("x", 1, long))), nil, nil},
		"… of a node that was read":            {all(partly("nodes"), deployment("web", 2, surgedBy("x", 1, long)), node("a", drainedBy("x", long), schedulable)), nil, []drain.Leftover{{surge, revert}}},
		"… whose node it has drained":          {all(partly("nodes"), deployment("web", 2, surgedBy("x", 1, long)), node("a", drainedBy("x", long), state("drained"))), nil, nil},
		"… that is dead, wherever its node is": {all(partly("nodes"), deployment("web", 2, surgedBy("x", 1, long))), x, []drain.Leftover{{surge, revert}}},
		"nothing":                              {deployment("web", 1), x, nil},
		"a surge":                              {deployment("web", 2, surgedBy("x", 1, long)), nil, []drain.Leftover{{surge, revert}}},
		"… of a live drain":                    {deployment("web", 2, surgedBy("x", 1, start)), nil, nil},
		"… that is known to be dead":           {deployment("web", 2, surgedBy("x", 1, start)), x, []drain.Leftover{{surge, revert}}},
		"… and was scaled since":               {all(deployment("web", 2, surgedBy("x", 1, long)), rescaled(9)), nil, []drain.Leftover{{"Deployment default/web still has the record of a surge, and was scaled to 9 since", revert}}},
		"an autoscaler":                        {all(deployment("web", 2), autoscaler("web", 2, 5, raisedBy("x", 1))), x, []drain.Leftover{{"HorizontalPodAutoscaler default/web still has minReplicas 2 (it was 1)", revert}}},
		"a deletion cost":                      {pod("p", of("web"), marked("x=7"), cheapest), x, []drain.Leftover{{"pod default/p still has the lowest deletion cost", revert}}},
		"… of which only the mark is left":     {pod("p", of("web"), marked("x=7")), x, []drain.Leftover{{"pod default/p still has the mark of a surge", revert}}},
		"… of a pod that is on its way":        {pod("p", of("web"), marked("x=7"), endsAt(start)), x, nil},
		"a request":                            {askedBy("x", "db-0"), x, []drain.Leftover{{"the request default/db-0-x still asks for the eviction of its pod", revert}}},
		"a cordon":                             {node("a", drainedBy("x", start)), x, []drain.Leftover{{"node a is still cordoned for a drain of x@host", "usher uncordon a"}}},
		"… of a drain that fell silent":        {node("a", drainedBy("x", long)), nil, []drain.Leftover{{"node a is still cordoned for a drain of x@host", "usher uncordon a"}}},
		"… of a live drain, too":               {node("a", drainedBy("x", start)), nil, nil},
		"… of a drain that has ended":          {node("a", drainedBy("x", long), state("interrupted")), x, nil},
		"a cordon before what tenants can write": {
			all(node("a", drainedBy("x", start)), pod("p", of("web"), marked("x=7"))), x,
			[]drain.Leftover{{"node a is still cordoned for a drain of x@host", "usher uncordon a"}, {"pod default/p still has the mark of a surge", revert}},
		},
		"a node that was given back": {node("a", drainedBy("x", long), schedulable), x, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			same(t, "remains", c.want, drain.Remains(snapshot.View{Now: start, Cluster: cluster(c.facts)}, c.dead))
		})
	}
}

func cheapest(p *snapshot.Pod) { p.DeletionCost = snapshot.LowestCost }
