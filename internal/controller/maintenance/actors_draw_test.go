package maintenance

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

func drawPlay(t *rapid.T) *play {
	p := &play{cfg: drawConfig(t)}
	names := []string{"n0", "n1", "n2", "n3"}[:rapid.IntRange(2, 4).Draw(t, "nodes")]
	p.world = drawWorld(t, names)
	for range rapid.IntRange(2, 3).Draw(t, "requesters") {
		p.specs = append(p.specs, drawSpec(t, names))
	}
	for range rapid.IntRange(2, 12).Draw(t, "steps") {
		p.steps = append(p.steps, drawStep(t, len(p.specs)))
	}
	return p
}

func drawStep(t *rapid.T, objects int) step {
	return step{
		after: rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, time.Minute}).Draw(t, "after"),
		what: rapid.SampledFrom([]string{
			"create", "create", "create", "create", "delete", "delete", "tighten", "suspend", "force", "leader is killed", "leader is killed", "leader loses the lead",
		}).Draw(t, "what"),
		which: rapid.IntRange(0, objects-1).Draw(t, "which"),
		how:   rapid.IntRange(0, 9).Draw(t, "how"),
		pause: rapid.SampledFrom([]time.Duration{0, time.Second, 15 * time.Second, 2 * time.Minute}).Draw(t, "pause"),
	}
}

func drawSpec(t *rapid.T, nodes []string) v1alpha1.NodeMaintenanceSpec {
	spec := v1alpha1.NodeMaintenanceSpec{
		Nodes: v1alpha1.NodeSelection{Names: rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, len(nodes), rapid.ID).Draw(t, "selected")},
		Drain: v1alpha1.MaintenanceDrain{
			UnmanagedPods: rapid.SampledFrom([]v1alpha1.PodHandling{v1alpha1.PodsEvict, v1alpha1.PodsEvict, v1alpha1.PodsBlock}).Draw(t, "unmanaged"),
			Surge:         rapid.SampledFrom([]v1alpha1.SurgePolicy{v1alpha1.SurgeAuto, v1alpha1.SurgeAuto, v1alpha1.SurgeAlways, v1alpha1.SurgeNever}).Draw(t, "surge"),
		},
		Requester:   "person.usher.sh/anna",
		Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: rapid.Int32Range(1, 3).Draw(t, "nodes at once"), Zones: rapid.Int32Range(1, 2).Draw(t, "zones at once")},
		AtDeadline:  rapid.SampledFrom([]v1alpha1.DeadlineAction{v1alpha1.DeadlineStop, v1alpha1.DeadlineStop, v1alpha1.DeadlineDeletePods}).Draw(t, "at deadline"),
		WhenDrained: rapid.SampledFrom([]v1alpha1.WhenDrained{
			{KeepCordoned: &v1alpha1.KeepCordoned{}},
			{KeepCordoned: &v1alpha1.KeepCordoned{}},
			{},
			{Hook: &v1alpha1.MaintenanceHook{URL: "http://hook"}},
			{DeleteNode: &v1alpha1.DeleteNode{}},
			{DeleteNode: &v1alpha1.DeleteNode{Members: v1alpha1.MembersReplace}},
			{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged, Timeout: metav1.Duration{Duration: time.Minute}}},
		}).Draw(t, "when drained"),
	}
	if rapid.Bool().Draw(t, "selector") {
		spec.Nodes = v1alpha1.NodeSelection{
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}},
			Selection: rapid.SampledFrom([]v1alpha1.SelectionMode{v1alpha1.SelectionFixed, v1alpha1.SelectionDynamic}).Draw(t, "selection"),
		}
	}
	return spec
}

// drawConfig makes a cluster that takes its time. In one of three what is seen is late.
func drawConfig(t *rapid.T) sim.Config {
	upTo := func(most time.Duration) sim.Delay {
		return func(_ *snapshot.Pod, dice *rand.Rand) time.Duration {
			return time.Duration(dice.Int64N(int64(most) + 1))
		}
	}
	cfg := sim.Config{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Schedule: upTo(500 * time.Millisecond), Boot: upTo(3 * time.Second), Ready: upTo(20 * time.Second), Stop: upTo(10 * time.Second),
		Controllers: 50 * time.Millisecond, Budgets: rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, 3 * time.Second}).Draw(t, "budgets' status"),
		Detach: 2 * time.Second, PodGC: 40 * time.Second, Expire: true, Respond: upTo(5 * time.Second),
	}
	if late := rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Second}).Draw(t, "seen late by"); late > 0 {
		cfg.Lag = sim.Lag{Pods: late, Nodes: late, Budgets: late, Workloads: late, Requests: late, Leases: late}
	}
	return cfg
}

// drawWorld makes a small cluster whose workloads share nodes, at the time of the bubble in which it is called.
func drawWorld(t *rapid.T, nodes []string) func() snapshot.View {
	cordoned := rapid.IntRange(-8, len(nodes)-1).Draw(t, "cordoned by kubectl")
	leases := rapid.IntRange(0, 3).Draw(t, "leases are read") > 0
	var workloads []func(*snapshot.Cluster, time.Time)
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		workloads = append(workloads, drawWorkload(t, fmt.Sprintf("w%d", i), nodes))
	}
	return func() snapshot.View {
		c := snapshot.NewCluster()
		c.SetLeasesRead("", leases)
		for i, name := range nodes {
			zone := fmt.Sprintf("z%d", i%2)
			c.SetNode(&snapshot.Node{
				Name: name, UID: types.UID("node-" + name), ResourceVersion: "1", Zone: zone, Ready: true, Unschedulable: i == cordoned,
				Labels:      map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name, "pool": "web"},
				Allocatable: snapshot.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 20},
			})
		}
		c.SetPolicy(&snapshot.Policy{Namespace: "shop", Name: "db", UID: "policy-db", Members: []snapshot.PolicyMember{
			{Role: "load", Selector: labels.SelectorFromSet(labels.Set{"role": "load"}), Load: true},
		}})
		for _, add := range workloads {
			add(c, now())
		}
		return snapshot.View{Now: now(), Cluster: c}
	}
}

// drawWorkload makes pods of one owner, or one of none, under a budget or governed by a policy.
func drawWorkload(t *rapid.T, name string, nodes []string) func(*snapshot.Cluster, time.Time) {
	kind := rapid.SampledFrom([]string{"Deployment", "Deployment", "Deployment", "StatefulSet", ""}).Draw(t, "kind")
	on := rapid.SliceOfN(rapid.SampledFrom(nodes), 1, 4).Draw(t, "on")
	set := map[string]string{"app": name}
	guarded := rapid.SampledFrom([]string{"budget", "budget", "budget", "", "policy", "load"}).Draw(t, "guarded by")
	if guarded == "policy" || guarded == "load" {
		set[v1alpha1.PolicyLabel], set["role"] = "db", guarded
	}
	unavailable := rapid.IntRange(0, 2).Draw(t, "max unavailable")
	if kind == "" {
		on = on[:1]
	}
	return func(c *snapshot.Cluster, at time.Time) {
		owner := ownerOf(c, kind, name, set, len(on))
		for i, node := range on {
			c.SetPod(&snapshot.Pod{
				Namespace: "shop", Name: fmt.Sprintf("%s-%d", name, i), UID: types.UID(fmt.Sprintf("pod-%s-%d", name, i)), ResourceVersion: "1", Node: node,
				Labels: set, Owner: owner, Phase: corev1.PodRunning, Grace: 30 * time.Second, Created: at.Add(-time.Hour), Ready: true, ReadySince: at.Add(-time.Hour + time.Minute),
				Requests: snapshot.Resources{MilliCPU: 100, Memory: 64 << 20},
			})
		}
		if guarded == "budget" {
			c.SetBudget(budgetOf(name, set, len(on), unavailable))
		}
	}
}

// ownerOf makes the controller of a workload, and returns it as the owner of pods.
func ownerOf(c *snapshot.Cluster, kind, name string, set map[string]string, replicas int) snapshot.Owner {
	if kind == "" {
		return snapshot.Owner{}
	}
	w := &snapshot.Workload{
		Kind: kind, Namespace: "shop", Name: name, UID: types.UID(kind + "-" + name), ResourceVersion: "1", Labels: set,
		Replicas: int32(replicas), Settled: true, //nolint:gosec // a few
	}
	c.SetWorkload(w)
	if kind == "Deployment" {
		of := *w
		of.Kind, of.Name, of.UID = "ReplicaSet", name+"-rs", types.UID("ReplicaSet-"+name)
		of.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: kind, Name: name, UID: w.UID}
		c.SetWorkload(&of)
		w = &of
	}
	return snapshot.Owner{APIVersion: "apps/v1", Kind: w.Kind, Name: w.Name, UID: w.UID}
}

// budgetOf is a budget over as many ready pods.
func budgetOf(name string, set map[string]string, pods, unavailable int) *snapshot.Budget {
	most := intstr.FromInt(unavailable)
	allowed := min(pods, unavailable)
	return &snapshot.Budget{
		Namespace: "shop", Name: name, UID: types.UID("pdb-" + name), ResourceVersion: "1", Selector: labels.SelectorFromSet(set), MaxUnavailable: &most,
		Observed: true, Allowed: int32(allowed), Current: int32(pods), Desired: int32(pods - allowed), Expected: int32(pods), //nolint:gosec // a few
	}
}
