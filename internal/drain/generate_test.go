package drain_test

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// world is a generated cluster as a list of facts, so that it can be built in any
// order, and a request to drain some of its nodes.
type world struct {
	facts []fact
	req   drain.Request
}

var genWorld = rapid.Custom(func(t *rapid.T) world {
	w := world{req: genRequest.Draw(t, "request")}
	for _, name := range []string{"a", "b", "c"} {
		w.facts = append(w.facts, genNode(t, name))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "apps") {
		w.facts = append(w.facts, genApp(t, "app"+strconv.Itoa(i))...)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "others") {
		w.facts = append(w.facts, genOther(t, fmt.Sprintf("other%d", i)))
	}
	if rapid.Bool().Draw(t, "daemon seen") {
		w.facts = append(w.facts, daemonSet("d"))
	}
	w.facts = append(w.facts, claim("own", "vol", false), claim("shared", "many", true))
	if rapid.Bool().Draw(t, "attached") {
		w.facts = append(w.facts, attached("vol", "a"))
	}
	return w
})

var genRequest = rapid.Custom(func(t *rapid.T) drain.Request {
	req := ask(rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"b", "a", "gone"}}).Draw(t, "nodes")...)
	req.Force = rapid.Bool().Draw(t, "force")
	req.DeleteEmptyDir = rapid.Bool().Draw(t, "delete emptyDir")
	req.DaemonSets = rapid.SampledFrom([]drain.DaemonSetMode{drain.DaemonSetsIgnore, drain.DaemonSetsEvict, drain.DaemonSetsObject}).Draw(t, "daemons")
	req.Surge = rapid.SampledFrom([]drain.SurgeMode{drain.SurgeAuto, drain.SurgeNever, drain.SurgeAlways}).Draw(t, "surge")
	req.DisableEviction = rapid.Bool().Draw(t, "disable eviction")
	req.MaxParallel = rapid.IntRange(0, 2).Draw(t, "max parallel")
	req.MaxZones = rapid.IntRange(0, 1).Draw(t, "max zones")
	req.WaitReplaced = rapid.Bool().Draw(t, "wait replaced")
	req.UncordonOnFailure = rapid.Bool().Draw(t, "uncordon on failure")
	if rapid.Bool().Draw(t, "deadline") {
		req.Deadline = start.Add(time.Duration(rapid.IntRange(1, 150).Draw(t, "seconds")) * time.Second)
	}
	if rapid.Bool().Draw(t, "delete at the deadline") {
		req.AtDeadline = drain.AtDeadlineDelete
	}
	if rapid.Bool().Draw(t, "own grace") {
		g := time.Duration(rapid.IntRange(0, 60).Draw(t, "grace")) * time.Second
		req.Grace = &g
	}
	return req
})

func genNode(t *rapid.T, name string) fact {
	options := []func(*snapshot.Node){zone(rapid.SampledFrom([]string{"z1", "z2"}).Draw(t, "zone"))}
	switch rapid.IntRange(0, 5).Draw(t, "claimed") {
	case 0:
	case 1:
		options = append(options, drainedBy("other", start))
	case 2:
		options = append(options, ours, state("blocked"))
	default:
		options = append(options, ours)
	}
	return node(name, options...)
}

// genApp is a Deployment with its pods, and maybe a budget, an autoscaler, a surge.
func genApp(t *rapid.T, name string) []fact {
	n := rapid.IntRange(1, 3).Draw(t, "pods")
	replicas := int32(n) //nolint:gosec // at most 3
	var options []func(*snapshot.Workload)
	if rapid.IntRange(0, 3).Draw(t, "surged") == 0 && n > 1 {
		options = append(options, surgedBy(rapid.SampledFrom([]string{me, "other"}).Draw(t, "by"), replicas-1, start.Add(-time.Minute)))
	}
	facts := []fact{deployment(name, replicas, options...)}
	for i := range n {
		facts = append(facts, genPod(t, fmt.Sprintf("%s-%d", name, i), of(name)))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
		form := rapid.SampledFrom([]func(*snapshot.Budget){minAvailable("1"), minAvailable("50%"), maxUnavailable("0"), maxUnavailable("1")}).Draw(t, "form")
		current := rapid.Int32Range(0, replicas).Draw(t, "current")
		facts = append(facts, budget(name, current, rapid.Int32Range(0, replicas).Draw(t, "desired"), replicas, form, named(fmt.Sprintf("%s-%d", name, i))))
	}
	if rapid.Bool().Draw(t, "autoscaled") {
		facts = append(facts, autoscaler(name, 1, replicas+rapid.Int32Range(0, 2).Draw(t, "room")))
	}
	return facts
}

func genPod(t *rapid.T, name string, kind func(*snapshot.Pod)) fact {
	options := []func(*snapshot.Pod){on(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "on")), kind}
	switch rapid.IntRange(0, 7).Draw(t, "state") {
	case 0:
		options = append(options, unready)
	case 1:
		options = append(options, endsAt(start.Add(time.Duration(rapid.IntRange(-90, 90).Draw(t, "ends"))*time.Second)))
	case 2:
		options = append(options, phase(rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodFailed}).Draw(t, "phase")))
	case 3:
		options = append(options, marked(rapid.SampledFrom([]string{me, me + "=3", "other"}).Draw(t, "mark")))
	}
	if rapid.Bool().Draw(t, "in a wave") {
		options = append(options, order(rapid.IntRange(-1, 1).Draw(t, "order")), priority(rapid.SampledFrom([]int32{0, 5, critical}).Draw(t, "priority")))
	}
	if rapid.IntRange(0, 4).Draw(t, "storage") == 0 {
		options = append(options, emptyDir("x"), claims(rapid.SampledFrom([]string{"own", "shared", "unknown"}).Draw(t, "claim")))
	}
	return pod(name, options...)
}

func genOther(t *rapid.T, name string) fact {
	return genPod(t, name, rapid.SampledFrom([]func(*snapshot.Pod){ofDaemon("d"), ofSet("set"), ofJob("job"), func(*snapshot.Pod) {}, mirror}).Draw(t, "kind"))
}
