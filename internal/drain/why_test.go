package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestWhy(t *testing.T) {
	cases := map[string]struct {
		facts fact
		want  []string
	}{
		"nothing":               {all(deployment("web", 3), pod("p", on("a"), of("web")), pods("web", "b", 2), budget("web", 3, 2, 3)), nil},
		"an exhausted budget":   {all(deployment("web", 3), pod("p", on("a"), of("web")), budget("web", 2, 2, 3)), []string{"p: BudgetExhausted"}},
		"all at once":           {all(pod("p", on("a"), labelled("app", "web"), emptyDir("x")), budget("web", 2, 2, 3)), []string{"p: UnreplicatedPod!", "p: LocalStorage!", "p: BudgetExhausted"}},
		"it is on its way":      {pod("p", on("a"), of("web"), endsAt(start.Add(time.Minute))), []string{"p: Terminating"}},
		"a static pod":          {pod("p", on("a"), mirror), []string{"p: RejectedByServer!"}},
		"a DaemonSet's pod":     {all(daemonSet("d"), pod("p", on("a"), ofDaemon("d"))), []string{"p: DaemonSetPod!"}},
		"a pod without a node":  {all(deployment("web", 3), pod("p", of("web"), phase("Pending"))), nil},
		"two budgets, one pod":  {all(pod("p", on("a"), of("web")), budget("web", 3, 2, 3), budget("web", 3, 2, 3, named("x"))), []string{"p: SeveralBudgets!"}},
		"a dead budget, namely": {all(deployment("web", 1), pod("p", on("a"), of("web")), budget("web", 1, 1, 1, minAvailable("1"))), []string{"p: BudgetNeverAllows!"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			view := snapshot.View{Now: start, Cluster: cluster(node("a"), c.facts)}
			same(t, "blockers", c.want, reasonsOf(drain.Why(view, view.Cluster.Pod("uid-p"))))
		})
	}
}

// usher why has not the flags of the drain.
func TestWhyNamesTheDrainOfAFlag(t *testing.T) {
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), pod("p", on("a")))}
	same(t, "remedy", "usher drain a --force to evict it all the same", drain.Why(view, view.Cluster.Pod("uid-p"))[0].Remedy)
}

func TestWhyOffersASurge(t *testing.T) {
	dead := budget("web", 1, 1, 1, minAvailable("1"))
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), node("b"), deployment("web", 1), pod("p", on("a"), of("web")), dead)}
	same(t, "remedy", "usher drain a starts a replacement first (--surge=auto); or kubectl scale -n default deployment/web --replicas=2", drain.Why(view, view.Cluster.Pod("uid-p"))[0].Remedy)

	view.Cluster = cluster(node("a"), node("b"), deployment("web", 1), pod("p", on("a"), of("web"), claims("c")), dead)
	got := drain.Why(view, view.Cluster.Pod("uid-p"))[0]
	same(t, "message", "budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; a surge is not possible: volume claim c cannot be mounted by a second pod on another node", got.Message)

	view.Cluster = cluster(node("a", hostname("a")), node("b", hostname("b")), deployment("web", 1), pod("p", on("a"), of("web"), needs("kubernetes.io/hostname", "a")), dead)
	got = drain.Why(view, view.Cluster.Pod("uid-p"))[0]
	same(t, "message", "budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; a surge is not possible: only node a may run it", got.Message)

	view.Cluster = cluster(node("a"), node("b", cordoned), deployment("web", 1), pod("p", on("a"), of("web")), dead)
	got = drain.Why(view, view.Cluster.Pod("uid-p"))[0]
	same(t, "message", "budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; a surge would wait: no other node may run it: 1 node(s) were unschedulable", got.Message)
	same(t, "remedy", "let another node run it (kubectl describe pod -n default p shows its node selector, affinity and tolerations), or kubectl edit pdb -n default web", got.Remedy)
}

func TestHasPlace(t *testing.T) {
	for name, c := range map[string]struct {
		nodes fact
		want  bool
	}{
		"its own node only":    {node("a"), false},
		"a cordoned one":       {all(node("a"), node("b", cordoned)), false},
		"another, not all are": {all(partly("nodes"), node("a"), node("b")), true},
		"none that was read":   {all(partly("nodes"), node("a")), false},
	} {
		view := snapshot.View{Now: start, Cluster: cluster(c.nodes, deployment("web", 1), pod("p", on("a"), of("web")))}
		same(t, name, c.want, drain.HasPlace(view, view.Cluster.Pod("uid-p")))
	}
}

func TestWhyWithoutClaims(t *testing.T) {
	facts := all(deployment("web", 1), pod("p", on("a"), of("web"), claims("c")), budget("web", 1, 1, 1, minAvailable("1")), gap("persistentvolumeclaims", "forbidden", true))
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), node("b"), facts)}
	same(t, "message", "budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; a surge is not possible: cannot see whether volume claim c can be mounted by a second pod: forbidden",
		drain.Why(view, view.Cluster.Pod("uid-p"))[0].Message)
}

// Of nodes that were not read nothing is said: neither that none may run the pod, nor that its own is gone.
func TestWhyWithoutNodes(t *testing.T) {
	dead := budget("web", 1, 1, 1, minAvailable("1"))
	view := snapshot.View{Now: start, Cluster: cluster(node("a"), partly("nodes"), deployment("web", 1), pod("p", on("a"), of("web")), dead)}
	same(t, "remedy", "usher drain a starts a replacement first (--surge=auto); or kubectl scale -n default deployment/web --replicas=2", drain.Why(view, view.Cluster.Pod("uid-p"))[0].Remedy)

	asks := pod("p", on("a"), of("web"), needs("disk", "ssd"))
	view.Cluster = cluster(node("a"), node("b"), partly("nodes"), deployment("web", 1), asks, dead)
	same(t, "remedy", "usher drain a starts a replacement first (--surge=auto); or kubectl scale -n default deployment/web --replicas=2", drain.Why(view, view.Cluster.Pod("uid-p"))[0].Remedy)
	view.Cluster.SetNodesRead("disk=ssd")
	same(t, "message", "budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; a surge is not possible: only node a may run it",
		drain.Why(view, view.Cluster.Pod("uid-p"))[0].Message)

	leaving := all(deployment("web", 1), pod("p", on("a"), of("web"), endsAt(start.Add(time.Minute))))
	view.Cluster = cluster(gap("nodes", "forbidden", true), leaving)
	same(t, "blockers", []string{"p: Terminating"}, reasonsOf(drain.Why(view, view.Cluster.Pod("uid-p"))))
	view.Cluster = cluster(partly("nodes"), leaving) // it was asked for, and is not there
	same(t, "blockers", []string{"p: NodeUnreachable"}, reasonsOf(drain.Why(view, view.Cluster.Pod("uid-p"))))
}

func keptCordoned(n *nodeOf) { n.Marks = []string{snapshot.CordonMark} }

func TestRelease(t *testing.T) {
	long := start.Add(-time.Hour)
	cases := map[string]struct {
		node fact
		dead map[string]bool
		want string // the deed, or why there is none
	}{
		"schedulable":                     {node("a"), nil, "it is schedulable"},
		"cordoned by another client":      {node("a", cordoned), nil, "it was cordoned by another client, not by usher; kubectl uncordon a removes that"},
		"cordoned by usher":               {node("a", drainedBy("x", long)), nil, "uncordon a"},
		"… which has drained it":          {node("a", drainedBy("x", start), state("drained")), nil, "uncordon a"},
		"… which is still at it":          {node("a", drainedBy("x", start.In(time.FixedZone("", 3600)))), nil, "x@host is draining it since 12:00:00; stop that drain first"},
		"… which is known to be dead":     {node("a", drainedBy("x", start)), map[string]bool{"x": true}, "uncordon a"},
		"drained on an earlier cordon":    {node("a", drainedBy("x", long), foundCordoned), nil, "unmark a"},
		"kept cordoned by a maintenance":  {node("a", cordoned, keptCordoned), nil, "a NodeMaintenance keeps it cordoned; usher maintain --delete NAME ends that: kubectl get nodemaintenances names it"},
		"… beside a drain":                {node("a", drainedBy("x", long), keptCordoned), nil, "unmark a"},
		"cordoned anew since":             {node("a", drainedBy("x", long), cordonedAnew), nil, "unmark a"},
		"a record that cannot be read":    {node("a", cordoned, func(n *nodeOf) { n.DrainError = "bad json" }), nil, "bad json"},
		"a record left, cordon taken off": {node("a", drainedBy("x", long), schedulable), nil, "unmark a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			view := snapshot.View{Now: start, Cluster: cluster(c.node)}
			action, why := drain.Release(view, view.Cluster.Node("a"), c.dead)
			got := why
			if why == "" {
				got = deedOf(action)
			}
			same(t, "release", c.want, got)
		})
	}
}

func TestLeftovers(t *testing.T) {
	long := start.Add(-time.Hour)
	cases := map[string]struct {
		facts fact
		dead  map[string]bool
		want  []string
	}{
		"nothing":                           {deployment("web", 1), nil, nil},
		"a surge of a dead drain":           {deployment("web", 2, surgedBy("x", 1, long)), nil, []string{"scale web to 1, no record"}},
		"a surge of a live drain":           {deployment("web", 2, surgedBy("x", 1, start)), nil, nil},
		"… whose node gives signs of life":  {all(node("a", drainedBy("x", start)), deployment("web", 2, surgedBy("x", 1, long)), pod("p", of("web"), marked("x"))), nil, nil},
		"… that is known to be dead":        {deployment("web", 2, surgedBy("x", 1, start)), map[string]bool{"x": true}, []string{"scale web to 1, no record"}},
		"costs before the scale":            {all(deployment("web", 2, surgedBy("x", 1, long)), pod("p", of("web"), marked("x=7"))), nil, []string{"restore-cost p"}},
		"the autoscaler before the scale":   {all(deployment("web", 2, surgedBy("x", 1, long)), autoscaler("web", 2, 5, raisedBy("x", 1))), map[string]bool{"x": true}, []string{"scale-min web to 1, no record"}},
		"an autoscaler alone":               {all(deployment("web", 2), autoscaler("web", 2, 5, raisedBy("x", 1))), map[string]bool{"x": true}, []string{"scale-min web to 1, no record"}},
		"… of a Deployment not readable":    {all(deployment("web", 2, unreadableSurge), autoscaler("web", 2, 5, raisedBy("x", 1), fromBase(1))), map[string]bool{"x": true}, []string{"scale-min web to 1, no record"}},
		"the owner has scaled since":        {all(solo, deployment("web", 2, surgedBy("x", 1, long)), rescaled(9)), nil, []string{"scale web to 9, no record"}},
		"marks of a live and a dead drain":  {all(node("a", drainedBy("x", start)), pod("p", of("web"), marked("x")), pod("q", of("web"), marked("y=1"))), nil, []string{"restore-cost q"}},
		"a marked pod that is on its way":   {pod("p", of("web"), marked("x"), endsAt(start.Add(time.Minute))), nil, nil},
		"a request of a drain that is gone": {askedBy("x", "db-0", madeAt(long)), nil, []string{"withdraw db-0-x"}},
		"… that was made just now":          {askedBy("x", "db-0", madeAt(start.Add(-59*time.Second))), nil, nil},
		"… by a drain known to be dead":     {askedBy("x", "db-0", madeAt(start)), map[string]bool{"x": true}, []string{"withdraw db-0-x"}},
		"… of a drain that is alive":        {all(node("a", drainedBy("x", start)), askedBy("x", "db-0", madeAt(long))), nil, nil},
		"… whose drain has ended":           {all(node("a", drainedBy("x", start), state("interrupted")), askedBy("x", "db-0", madeAt(long))), nil, []string{"withdraw db-0-x"}},
		"… that may keep a pod empty":       {all(node("a", drainedBy("x", start), state("drained")), askedBy("x", "db-0", madeAt(long))), nil, nil},
		"… on a node that was opened since": {all(node("a", drainedBy("x", start), state("drained"), schedulable), askedBy("x", "db-0", madeAt(long))), nil, []string{"withdraw db-0-x"}},
		"… that is kept by a forged beat":   {all(node("a", drainedBy("x", start.Add(time.Hour))), askedBy("x", "db-0", madeAt(long))), nil, []string{"withdraw db-0-x"}},
		"a request of no drain":             {askedBy("", "db-0", madeAt(long)), nil, nil},
		"surges of two dead drains at once": {all(deployment("web", 2, surgedBy("x", 1, long)), deployment("api", 4, surgedBy("y", 3, long))), nil, []string{"scale api to 3, no record", "scale web to 1, no record"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			view := snapshot.View{Now: start, Cluster: cluster(c.facts)}
			d := drain.Leftovers(view, c.dead, drain.NewLedger())
			same(t, "actions", c.want, deeds(d))
			same(t, "settled", len(c.want) == 0, d.Settled)
		})
	}
}

func unreadableSurge(w *snapshot.Workload) { w.SurgeError = "bad json" }

// Whose record cannot be read is said: nothing is known to be left, and something may be.
func TestLeftoversThatCannotBeRead(t *testing.T) {
	view := snapshot.View{Now: start, Cluster: cluster(deployment("web", 2, unreadableSurge),
		autoscaler("web", 2, 5, func(a *snapshot.Autoscaler) { a.SurgeError = "bad json" }))}
	d := drain.Leftovers(view, nil, drain.NewLedger())
	same(t, "settled", true, d.Settled)
	same(t, "notes", []string{
		"Deployment default/web may still be scaled by a surge, of which its annotation usher.sh/surge says nothing: bad json; once its scale is right, kubectl label -n default deployment/web usher.sh/surge- ends that",
		"HorizontalPodAutoscaler default/web may still be scaled by a surge, of which its annotation usher.sh/surge says nothing: bad json; once its scale is right, kubectl label -n default horizontalpodautoscaler/web usher.sh/surge- ends that",
	}, d.Notes)
}

func TestLeftoversThatMayNotBeUndone(t *testing.T) {
	view := snapshot.View{Now: start, Cluster: cluster(deployment("web", 2, surgedBy("x", 1, start.Add(-time.Hour))))}
	led := drain.NewLedger()
	d := drain.Leftovers(view, nil, led)
	led.Begin(d.Actions[0], start)
	led.Answer(d.Actions[0], answers.Answer{Code: answers.Forbidden, Message: "no"}, start)
	d = drain.Leftovers(view, nil, led)
	same(t, "settled", true, d.Settled)
	same(t, "notes", []string{"default/web is still scaled to 2 (it was 1): no; usher drain --revert tries it again"}, d.Notes)
}

// Of records that a namespace's users write and nothing can read a few are named.
func TestUnreadableRecordsAreCounted(t *testing.T) {
	var facts []fact
	for i := range 9 {
		facts = append(facts, deployment(fmt.Sprintf("web-%d", i), 1, unreadableSurge))
	}
	d := drain.Leftovers(snapshot.View{Now: start, Cluster: cluster(facts...)}, nil, drain.NewLedger())
	if len(d.Notes) != 4 || d.Notes[3] != "6 records of namespace default besides: kubectl get deployments,hpa -n default -l usher.sh/surge" {
		t.Errorf("%d notes: %s", len(d.Notes), strings.Join(d.Notes, "\n"))
	}
}
