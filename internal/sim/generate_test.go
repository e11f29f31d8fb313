package sim_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// drawWorld makes a small cluster in which anything may meet anything.
func drawWorld(t *rapid.T) (*world, []string) {
	w := newWorld()
	var names []string
	for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
		name := fmt.Sprintf("n%d", i)
		names = append(names, name)
		w.node(name, fmt.Sprintf("z%d", i%3), func(n *snapshot.Node) {
			n.Unschedulable = rapid.IntRange(0, 9).Draw(t, "cordoned") == 0
			n.Allocatable.Pods = int64(rapid.SampledFrom([]int{4, 8, 110}).Draw(t, "room"))
			if rapid.IntRange(0, 11).Draw(t, "silent") == 0 {
				n.Ready, n.ReadyWhy = false, "Kubelet stopped posting node status."
			}
		})
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "workloads") {
		drawWorkload(t, w, fmt.Sprintf("w%d", i), names)
	}
	drawPolicy(t, w)
	w.cluster.EachPod(func(p *snapshot.Pod) {
		if n := w.cluster.Node(p.Node); n != nil && !n.Ready && p.Ready {
			p.Ready, p.ReadySince, p.NotReadyWhy = false, time.Time{}, "ContainersNotReady"
		}
	})
	drawLeases(t, w, names)
	return w, names
}

// drawPolicy is what governs pods: it has some of them stay and be emptied, and others leave after those.
func drawPolicy(t *rapid.T, w *world) {
	entry := func(role string, after ...string) snapshot.PolicyMember {
		return snapshot.PolicyMember{Role: role, Selector: labels.SelectorFromSet(labels.Set{"role": role}), LeavesAfter: after}
	}
	policy := &snapshot.Policy{Namespace: "shop", Name: "db", UID: "policy-db", Members: []snapshot.PolicyMember{entry("load"), entry("first"), entry("late")}}
	policy.Members[0].Load = rapid.IntRange(0, 3).Draw(t, "loads leave") > 0
	if rapid.Bool().Draw(t, "roles in order") {
		policy.Members[2].LeavesAfter = []string{"load", "first"}
	}
	w.cluster.SetPolicy(policy)
	if rapid.IntRange(0, 4).Draw(t, "claimed twice") == 0 {
		w.cluster.SetPolicy(&snapshot.Policy{Namespace: "shop", Name: "other", UID: "policy-other", Members: []snapshot.PolicyMember{entry("load")}})
	}
}

// drawLeases lets Leases be read, and leaves that of a killed drain, which worked on one of the nodes: it has expired, is dated into the
// future, or expires in a while. There may be those of drains of which nothing else is left.
func drawLeases(t *rapid.T, w *world, nodes []string) {
	if rapid.IntRange(0, 3).Draw(t, "leases are read") == 0 {
		return
	}
	w.cluster.SetLeasesRead("", true)
	renewed := func(id string) time.Time {
		ago := rapid.SampledFrom([]time.Duration{time.Hour, 30 * time.Second, 0, -time.Hour}).Draw(t, "lease of "+id)
		return w.now.Add(-ago)
	}
	if rapid.IntRange(0, 3).Draw(t, "killed before") == 0 {
		name := rapid.SampledFrom(nodes).Draw(t, "killed on")
		n := *w.cluster.Node(name)
		who := snapshot.Drainer{ID: "killed", By: "killed", Beat: w.now.Add(-10 * time.Minute), Lease: true}
		n.Drain = &snapshot.DrainRecord{Drainer: who, Since: who.Beat, Cordoned: !n.Unschedulable, State: "draining"}
		n.Unschedulable = true
		w.cluster.SetNode(&n)
		if rapid.IntRange(0, 3).Draw(t, "its lease is gone") > 0 {
			w.cluster.SetLease(&snapshot.Lease{ID: "killed", UID: "l1", ResourceVersion: "1", Holder: "killed/0", Acquired: who.Beat, Renewed: renewed("killed")})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "orphan") == 0 {
		w.cluster.SetLease(&snapshot.Lease{ID: "orphan", UID: "l2", ResourceVersion: "1", Holder: "orphan/0", Acquired: renewed("orphan"), Renewed: renewed("orphan")})
	}
}

func drawWorkload(t *rapid.T, w *world, name string, nodes []string) {
	kind := rapid.SampledFrom([]string{
		"Deployment", "Deployment", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "pod",
	}).Draw(t, "kind")
	on := rapid.SliceOfN(rapid.SampledFrom(nodes), 1, 5).Draw(t, "on")
	options := []podOption{drawPod(t), drawPlacement(t, on[0])}
	switch kind {
	case "pod":
		w.pod(name, on[0], options...)
		drawBudget(t, w, name)
		return
	case "DaemonSet":
		on = nodes
	}
	top := w.workload(kind, name, on, options...)
	if rapid.IntRange(0, 3).Draw(t, "some unready") == 0 {
		p := *w.cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: name + "-0"})
		p.Ready, p.ReadySince = false, time.Time{}
		w.cluster.SetPod(&p)
	}
	if kind == "StatefulSet" && rapid.Bool().Draw(t, "volumes") {
		for _, p := range w.cluster.PodsOf(top.AsOwner()) {
			changed := *p
			w.volume(&changed, false)
			w.cluster.SetPod(&changed)
		}
	}
	if kind == "Deployment" && rapid.IntRange(0, 3).Draw(t, "hpa") == 0 {
		least := rapid.Int32Range(1, top.Replicas).Draw(t, "least")
		w.autoscaler(name, least, top.Replicas+rapid.Int32Range(0, 3).Draw(t, "most"))
	}
	drawBudget(t, w, name)
}

func drawPod(t *rapid.T) podOption {
	priority := rapid.SampledFrom([]int32{0, 0, 0, 100, 2_000_000_000}).Draw(t, "priority")
	order := rapid.SampledFrom([]int{0, 0, 0, -1, 5}).Draw(t, "order")
	grace := rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 5 * time.Minute}).Draw(t, "grace")
	spread := rapid.IntRange(0, 4).Draw(t, "spread") == 0
	cost := rapid.SampledFrom([]string{"", "", "", "7", snapshot.LowestCost}).Draw(t, "cost")
	governed := rapid.IntRange(0, 4).Draw(t, "governed") == 0
	role := rapid.SampledFrom([]string{"", "load", "load", "first", "late"}).Draw(t, "role")
	return func(p *snapshot.Pod) {
		if governed {
			p.Labels = maps.Clone(p.Labels)
			p.Labels[v1alpha1.PolicyLabel] = "db"
			p.Labels["role"] = role
		}
		p.Priority, p.Order, p.Grace, p.SpreadHosts, p.DeletionCost = priority, order, grace, spread, cost
	}
}

// drawPlacement is what keeps a pod on its node, or lets it come back there.
func drawPlacement(t *rapid.T, node string) podOption {
	tolerates := rapid.IntRange(0, 3).Draw(t, "tolerates the cordon") == 0
	pinned := rapid.IntRange(0, 5).Draw(t, "pinned") == 0
	named := rapid.IntRange(0, 9).Draw(t, "named") == 0
	held := rapid.IntRange(0, 9).Draw(t, "finalizer") == 0
	return func(p *snapshot.Pod) {
		if tolerates {
			p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		if pinned {
			p.NodeSelector = map[string]string{corev1.LabelHostname: node}
		}
		if named {
			p.Labels = maps.Clone(p.Labels)
			p.Labels[nodeNameLabel] = node
		}
		if held {
			p.Finalizers = []string{"example.com/hold"}
		}
	}
}

// nodeNameLabel stands for a node's name in the template of a pod.
const nodeNameLabel = "named"

func templateNode(p *snapshot.Pod) string { return p.Labels[nodeNameLabel] }

func drawBudget(t *rapid.T, w *world, name string) {
	for i := range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2}).Draw(t, "budgets") {
		form := rapid.SampledFrom([]func(string) budgetOption{minAvailable, maxUnavailable}).Draw(t, "form")
		value := rapid.SampledFrom([]string{"0", "1", "1", "2", "3", "0%", "25%", "50%", "100%"}).Draw(t, "value")
		always := rapid.IntRange(0, 3).Draw(t, "always allow") == 0
		w.budget(fmt.Sprintf("%s-%d", name, i), name, form(value), func(b *snapshot.Budget) { b.AlwaysAllow = always })
	}
}

func drawRequest(t *rapid.T, w *world, nodes []string) drain.Request {
	n := rapid.IntRange(1, len(nodes)).Draw(t, "targets")
	req := drain.Request{
		Self: snapshot.Drainer{ID: "d1", By: "rapid"}, Nodes: nodes[:n], Started: w.now,
		Force:          true,
		DaemonSets:     rapid.SampledFrom([]drain.DaemonSetMode{drain.DaemonSetsIgnore, drain.DaemonSetsEvict}).Draw(t, "daemonsets"),
		DeleteEmptyDir: true,
		Surge:          rapid.SampledFrom([]drain.SurgeMode{drain.SurgeAuto, drain.SurgeAuto, drain.SurgeAlways, drain.SurgeNever}).Draw(t, "surge"),
		MaxParallel:    rapid.IntRange(0, 2).Draw(t, "max parallel"),
		MaxZones:       rapid.IntRange(0, 2).Draw(t, "max zones"),

		DisableEviction:   rapid.IntRange(0, 9).Draw(t, "disable eviction") == 0,
		UncordonOnFailure: rapid.Bool().Draw(t, "uncordon on failure"),
		WaitReplaced:      rapid.IntRange(0, 3).Draw(t, "wait replaced") == 0,
	}
	if rapid.IntRange(0, 4).Draw(t, "selected") == 0 {
		req.PodSelector = labels.SelectorFromSet(labels.Set{"app": "w0"})
	}
	if rapid.IntRange(0, 4).Draw(t, "grace given") == 0 {
		grace := rapid.SampledFrom([]time.Duration{0, 2 * time.Second}).Draw(t, "grace for all")
		req.Grace = &grace
	}
	if rapid.IntRange(0, 4).Draw(t, "has deadline") == 0 {
		req.Deadline = w.now.Add(rapid.SampledFrom([]time.Duration{20 * time.Second, 2 * time.Minute}).Draw(t, "deadline"))
		req.AtDeadline = rapid.SampledFrom([]drain.DeadlineMode{drain.AtDeadlineStop, drain.AtDeadlineDelete}).Draw(t, "at deadline")
	}
	return req
}

// drawConfig makes a cluster that takes its time and shows things late, but in which
// nothing goes wrong.
func drawConfig(t *rapid.T) sim.Config {
	upTo := func(most time.Duration) sim.Delay {
		return func(_ *snapshot.Pod, dice *rand.Rand) time.Duration {
			return time.Duration(dice.Int64N(int64(most) + 1))
		}
	}
	lag := func(name string) time.Duration {
		return rapid.SampledFrom([]time.Duration{0, 0, 50 * time.Millisecond, 3 * time.Second}).Draw(t, name)
	}
	return sim.Config{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Schedule: upTo(500 * time.Millisecond), Boot: upTo(3 * time.Second), Ready: upTo(20 * time.Second), Stop: upTo(10 * time.Second),
		Controllers: lag("controllers"), Budgets: lag("budget status"),
		Scaler: 15 * time.Second, ScaleDown: time.Minute, Detach: 2 * time.Second, PodGC: 40 * time.Second,
		Lag:     sim.Lag{Pods: lag("pod lag"), Nodes: lag("node lag"), Budgets: lag("budget lag"), Workloads: lag("workload lag"), Requests: lag("request lag"), Leases: lag("lease lag")},
		Binds:   templateNode,
		Expire:  true,
		Respond: upTo(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "responders")),
	}
}

// drawFaults lets things go wrong as well.
func drawFaults(t *rapid.T) sim.Faults {
	share := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0, 0.1, 0.4}).Draw(t, name) }
	chosen := func(name string) func(*snapshot.Pod) bool {
		app := rapid.SampledFrom([]string{"", "", "", "w0", "w1"}).Draw(t, name)
		return func(p *snapshot.Pod) bool { return app != "" && p.Labels["app"] == app }
	}
	denied := chosen("denied")
	return sim.Faults{
		LostAnswers: share("lost answers"), Outages: share("outages"), Conflicts: share("conflicts"),
		NoScale: rapid.IntRange(0, 4).Draw(t, "no scale") == 0,
		NoCost:  rapid.IntRange(0, 4).Draw(t, "no cost") == 0,
		NoLease: rapid.IntRange(0, 4).Draw(t, "no lease") == 0,

		KeepsAll: rapid.IntRange(0, 7).Draw(t, "controllers keep all") == 0,
		Deny: func(p *snapshot.Pod) string {
			if denied(p) {
				return `admission webhook "guard" denied the request: not now`
			}
			return ""
		},
		NeverReady: chosen("never ready"),
		Stuck:      chosen("stuck"),
	}
}
