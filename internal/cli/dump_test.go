package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// shop is a dump of two nodes: web has two pods under a budget that lets one go, db
// has one under a budget that lets none go.
const shop = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: worker-1, uid: n1}, status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: v1, kind: Node, metadata: {name: worker-2, uid: n2}, status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: d1, generation: 1}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2}}
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, uid: r1, generation: 1, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}]}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}, status: {observedGeneration: 1, replicas: 2}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-1-a, namespace: shop, uid: p1, creationTimestamp: "2026-01-02T11:00:00Z", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}]}, spec: {nodeName: worker-1, containers: [{name: c}]}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-02T11:00:07Z"}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-1-b, namespace: shop, uid: p2, creationTimestamp: "2026-01-02T11:00:00Z", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r1, controller: true}]}, spec: {nodeName: worker-1, containers: [{name: c}]}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-02T11:00:07Z"}]}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop, uid: b1, generation: 1}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}, status: {observedGeneration: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, disruptionsAllowed: 1}}
- {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop, uid: s1, generation: 1}, spec: {replicas: 1, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}, status: {observedGeneration: 1, replicas: 1}}
- {apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop, uid: p3, creationTimestamp: "2026-01-02T11:00:00Z", labels: {app: db}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s1, controller: true}]}, spec: {nodeName: worker-2, containers: [{name: c}], volumes: [{name: tmp, emptyDir: {}}]}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-02T11:00:07Z"}]}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: db, namespace: shop, uid: b2, generation: 1}, spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}, status: {observedGeneration: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0}}
`

func TestPlanAndWhyFromADump(t *testing.T) {
	tests := []struct {
		name string
		args []string
		in   string
		code int
		want []string // on stdout, or on stderr where the code is 1
	}{
		{
			"it would drain",
			[]string{"plan", "worker-1", "-f", "-"},
			shop, exitDone,
			[]string{"worker-1 would drain: 2 pods leave in about", "evict 1 pod: shop/web-1-a", "shop/web: 2 evictions", "healthy never below 1, needed 1", "Assumed"},
		},
		{
			"a surge in a cluster without autoscalers",
			[]string{"plan", "worker-1", "-f", "-"},
			strings.Replace(shop, "maxUnavailable: 1,", "maxUnavailable: 0,", 1), exitDone,
			[]string{"worker-1 would drain: 2 pods leave", "Started first (surge)", "no HorizontalPodAutoscaler is in the dump: taken to be none"},
		},
		{
			"a volume of a zone in which no other node is",
			[]string{"plan", "worker-2", "-f", "-", "--delete-emptydir-data", "--disable-eviction"},
			strings.Replace(shop, "volumes: [", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, ", 1) + `- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, uid: c1}, spec: {volumeName: v}}
- {apiVersion: v1, kind: PersistentVolume, metadata: {name: v, uid: v1}, spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [z1]}]}]}}}}
`, exitDone,
			[]string{"shop/db-0: what is made in its place finds no node, as things stand: no other node may run it: none has the labels zone in (z1), by its volumes"},
		},
		{
			"an objection",
			[]string{"plan", "worker-2", "-f", "-"},
			shop, exitBlocked,
			[]string{"would not start, 1 objection", "LocalStorage", "To drain all the same\n  usher drain worker-2 --delete-emptydir-data\n"},
		},
		{
			"an objection, with other flags",
			[]string{"plan", "worker-2", "-f", "-", "--deadline=1m", "--context=lab", "--surge=never"},
			shop, exitBlocked,
			[]string{"\n  usher drain worker-2 --deadline=1m --context=lab --surge=never --delete-emptydir-data\n"},
		},
		{
			"a dead budget",
			[]string{"plan", "worker-2", "-f", "-", "--delete-emptydir-data"},
			shop, exitBlocked,
			[]string{"worker-2 would be blocked", "stuck  shop/db-0", "BudgetNeverAllows", "remedy: kubectl scale -n shop statefulset/db --replicas=2"},
		},
		{
			"remedies lead to the same cluster",
			[]string{"plan", "worker-2", "-f", "-", "--delete-emptydir-data", "--context=lab", "--as=eva", "--as-group=ops", "--as-group=a b", "--token=secret"},
			shop, exitBlocked,
			[]string{"remedy: kubectl --context=lab --as=eva --as-group=ops --as-group='a b' scale -n shop statefulset/db --replicas=2"},
		},
		{
			"of why",
			[]string{"why", "db-0", "-n", "shop", "-f", "-", "--context=lab", "-o", "json"},
			shop, exitBlocked,
			[]string{`"remedy": "kubectl --context=lab scale -n shop statefulset/db --replicas=2"`},
		},
		{
			"of plans for programs, and what goes on, with flags that are given several times",
			[]string{"plan", "worker-2", "-f", "-", "--as-group=ops", "--as-group=dev", "-o", "json"},
			shop, exitBlocked,
			[]string{`"goOn": "usher drain worker-2 --as-group=ops --as-group=dev --delete-emptydir-data"`},
		},
		{
			"of a name that is in another namespace",
			[]string{"why", "db-0", "-f", "-", "--kubeconfig=/dev/null"},
			shop, exitUsage,
			[]string{"usher --kubeconfig=/dev/null why db-0 -n shop"},
		},
		{
			"what a deadline would do",
			[]string{"plan", "worker-2", "-f", "-", "--delete-emptydir-data", "--deadline=1m", "--surge=never"},
			shop, exitBlocked,
			[]string{"Deadline", "after 1m"},
		},
		{
			"an objection keeps it from starting, so no deadline passes",
			[]string{"plan", "worker-1", "worker-2", "-f", "-", "--deadline=2s"},
			shop, exitBlocked,
			[]string{"would not start, 1 objection"},
		},
		{
			"the deadline would pass",
			[]string{"plan", "worker-1", "-f", "-", "--deadline=2s"},
			shop, exitLate,
			[]string{"would not be done by the deadline"},
		},
		{
			"it may go",
			[]string{"why", "web-1-a", "-n", "shop", "-f", "-"},
			shop, exitDone,
			[]string{"shop/web-1-a on worker-1 may be evicted now"},
		},
		{
			"it may not go",
			[]string{"why", "pod/db-0", "-n", "shop", "-f", "-"},
			shop, exitBlocked,
			[]string{"shop/db-0 on worker-2 may not be evicted now", "LocalStorage", "BudgetNeverAllows"},
		},
		{
			"pods of a Deployment",
			[]string{"why", "deployment/web", "-n", "shop", "-f", "-"},
			shop, exitDone,
			[]string{"2 of 2 pods may be evicted now; each was judged by itself", "shop/web-1-a on worker-1 may", "shop/web-1-b on worker-1 may"},
		},
		{
			"pods of several kinds, as kubectl reads them",
			[]string{"why", "deploy/web", "StatefulSets.apps/db", "pod/web-1-a", "rs/web-1", "-n", "shop", "-f", "-"},
			shop, exitBlocked,
			[]string{"2 of 3 pods may be evicted now", "\n\nshop/db-0 on worker-2 may not be evicted now:\n"},
		},
		{
			"a kind and names",
			[]string{"why", "po", "web-1-a", "db-0", "-n", "shop", "-f", "-"},
			shop, exitBlocked,
			[]string{"1 of 2 pods may be evicted now"},
		},
		{
			"pods with labels",
			[]string{"why", "-l", "app in (web)", "-n", "shop", "-f", "-"},
			shop, exitDone,
			[]string{"2 of 2 pods may be evicted now"},
		},
		{
			"one pod with labels, in a list for programs",
			[]string{"why", "pods", "-l", "app=db", "-n", "shop", "-f", "-", "-o", "json"},
			shop, exitBlocked,
			[]string{"[\n  {\n    \"pod\": {"},
		},
		{
			"labels that no pod has",
			[]string{"why", "-l", "app=mail", "-n", "shop", "-f", "-"},
			shop, exitUsage,
			[]string{"namespace shop has no pod with the labels app=mail"},
		},
		{
			"workload with a typo",
			[]string{"why", "deploy/wep", "-n", "shop", "-f", "-"},
			shop, exitUsage,
			[]string{`namespace shop has no deployment "wep" that owns pods; did you mean web?`},
		},
		{
			"node that the dump has not",
			[]string{"plan", "worker-3", "-f", "-"},
			shop, exitUsage,
			[]string{`no node "worker-3"; did you mean worker-1 or worker-2?`},
		},
		{
			"pod of another namespace",
			[]string{"why", "db-0", "-f", "-"},
			shop, exitUsage,
			[]string{`namespace default has no pod "db-0", but namespace shop has one: usher why db-0 -n shop`},
		},
		{
			"pod with a typo",
			[]string{"why", "db-1", "-n", "shop", "-f", "-"},
			shop, exitUsage,
			[]string{"did you mean db-0?"},
		},
		{
			"pod that is nowhere",
			[]string{"why", "mail", "-n", "shop", "-f", "-"},
			shop, exitUsage,
			[]string{`namespace shop has no pod "mail" (it has 3 pods)`},
		},
		{"empty dump", []string{"plan", "worker-1", "-f", "-"}, "", exitUsage, []string{"standard input: reading the dump: it is empty"}},
		{"not YAML", []string{"plan", "worker-1", "-f", "-"}, "a: [b\nc: }", exitUsage, []string{"standard input: reading the dump"}},
		{"not JSON", []string{"plan", "worker-1", "-f", "-"}, "{\"kind\": \"List\", \"items\": [", exitUsage, []string{"standard input: reading the dump"}},
		{"garbage", []string{"plan", "worker-1", "-f", "-"}, strings.Repeat("\x00\xff\x17garbage", 100000), exitUsage, []string{"standard input: reading the dump"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := usher(t, tt.in, tt.args...)
			text := got.out
			if tt.code == exitUsage {
				text = got.err
			}
			if got.code != tt.code {
				t.Errorf("exit %d, want %d\n%s%s", got.code, tt.code, got.out, got.err)
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func TestWhySaysWhatItAssumesOfADump(t *testing.T) {
	got := usher(t, shop, "why", "web-1-a", "-n", "shop", "-f", "-")
	if want := "assumed: no HorizontalPodAutoscaler is in the dump: taken to be none\n"; got.code != exitDone || got.err != want {
		t.Errorf("exit %d, stderr %q; want 0 and %q", got.code, got.err, want)
	}
}

func TestPlanAndWhyAsJSON(t *testing.T) {
	var plan struct {
		Nodes   []string
		Outcome string
		Pods    int
		Seconds float64
		Steps   []struct{ Kind string }
		Budgets []struct{ Namespace, Name string }
	}
	got := usher(t, shop, "plan", "worker-1", "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &plan); err != nil {
		t.Fatalf("%v in\n%s", err, got.out)
	}
	if plan.Outcome != "drained" || plan.Pods != 2 || plan.Seconds <= 0 || len(plan.Steps) == 0 || len(plan.Budgets) != 1 || plan.Nodes[0] != "worker-1" {
		t.Errorf("got %+v", plan)
	}
	var why struct {
		MayGo    bool
		Blockers []struct{ Reason, Pod, Remedy string }
	}
	got = usher(t, shop, "why", "db-0", "-n", "shop", "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &why); err != nil {
		t.Fatalf("%v in\n%s", err, got.out)
	}
	if why.MayGo || len(why.Blockers) != 2 || why.Blockers[1].Remedy == "" {
		t.Errorf("got %+v", why)
	}
}

// With objections nothing would be done, so the plan has no steps, and an outcome all the same.
func TestPlanWithObjectionsHasNoSteps(t *testing.T) {
	r := usher(t, shop, "plan", "worker-1", "worker-2", "-f", "-", "-o", "json")
	var plan struct {
		Outcome           string
		Pods              int
		Steps, Objections []any
	}
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
		t.Fatal(err)
	}
	if r.code != exitBlocked || plan.Outcome != "blocked" || plan.Pods != 0 || len(plan.Steps) != 0 || len(plan.Objections) != 1 {
		t.Errorf("exit code %d, %+v", r.code, plan)
	}
}
