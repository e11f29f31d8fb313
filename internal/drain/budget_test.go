package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// never asks for no surge, so that a budget is met as it stands.
func never(nodes ...string) drain.Request {
	req := ask(nodes...)
	req.Surge = drain.SurgeNever
	return req
}

func TestBudgets(t *testing.T) {
	web := pod("web", on("a"), of("web"))
	sick := pod("web", on("a"), of("web"), unready)
	others := pods("web", "b", 2)
	leftover := pod("leftover", on("b"), of("web"), endsAt(start.Add(-time.Minute)), finalizer("example.com/hold"))
	cases := map[string]struct {
		facts fact
		want  []string // actions
		held  []string // blockers
	}{
		"no budget":                        {web, []string{"evict web"}, nil},
		"room":                             {all(web, others, budget("web", 3, 2, 3)), []string{"evict web"}, nil},
		"room of pods that are not ready":  {all(web, pods("web", "b", 1), budget("web", 3, 2, 3)), nil, []string{"web: BudgetExhausted"}},
		"… or are being evicted":           {all(web, others, budget("web", 4, 2, 4, disrupted("web-b1", "web-b2"))), nil, []string{"web: BudgetExhausted"}},
		"… or were to be, for too long":    {all(web, others, budget("web", 3, 2, 3, disruptedAt(start.Add(-2*time.Minute), "web-b1"))), []string{"evict web"}, nil},
		"no room":                          {all(web, budget("web", 2, 2, 3)), nil, []string{"web: BudgetExhausted"}},
		"a status below zero":              {all(web, budget("web", 1, 2, 3, func(b *snapshot.Budget) { b.Allowed = -1 })), nil, []string{"web: BudgetExhausted"}},
		"another namespace's budget":       {all(web, budget("web", 1, 1, 1, func(b *snapshot.Budget) { b.Namespace = "other" })), []string{"evict web"}, nil},
		"another app's budget":             {all(web, budget("db", 1, 1, 1)), []string{"evict web"}, nil},
		"a pending pod asks no budget":     {all(pod("web", on("a"), of("web"), phase(corev1.PodPending)), budget("web", 1, 1, 1)), []string{"evict web"}, nil},
		"a finished pod asks no budget":    {all(pod("web", on("a"), of("web"), phase(corev1.PodFailed)), budget("web", 1, 1, 1)), []string{"evict web"}, nil},
		"an unready pod, enough others":    {all(sick, budget("web", 2, 2, 3)), []string{"evict web"}, nil},
		"an unready pod, too few others":   {all(sick, budget("web", 1, 2, 3)), nil, []string{"web: BudgetExhausted"}},
		"an unready pod, none wanted":      {all(sick, budget("web", 0, 0, 3, func(b *snapshot.Budget) { b.Allowed = 0 })), nil, []string{"web: BudgetExhausted"}},
		"an unready pod under AlwaysAllow": {all(sick, budget("web", 0, 2, 3, alwaysAllow)), []string{"evict web"}, nil},
		"a ready pod under AlwaysAllow":    {all(web, budget("web", 2, 2, 3, alwaysAllow)), nil, []string{"web: BudgetExhausted"}},
		"a status that is not up to date":  {all(web, budget("web", 3, 2, 3, unobserved)), nil, []string{"web: BudgetNotObserved"}},
		"… helps no unready pod":           {all(sick, budget("web", 3, 2, 3, unobserved)), nil, []string{"web: BudgetNotObserved"}},
		"… but AlwaysAllow is in the spec": {all(sick, budget("web", 0, 2, 3, unobserved, alwaysAllow)), []string{"evict web"}, nil},
		"two budgets, both with room":      {all(web, budget("web", 3, 2, 3), budget("web", 3, 2, 3, named("b"))), nil, []string{"web: SeveralBudgets!"}},
		"two budgets and a pending pod":    {all(pod("web", on("a"), of("web"), phase(corev1.PodPending)), budget("web", 3, 2, 3), budget("web", 3, 2, 3, named("b"))), []string{"evict web"}, nil},
		"a pod under its own grace":        {all(pod("web", on("a"), of("web"), grace(time.Hour))), []string{"evict web"}, nil},
		"a budget that expects a pod which a finalizer keeps": {
			all(web, pod("web-b", on("b"), of("web")), deployment("web", 2), leftover, budget("web", 2, 2, 3, minAvailable("2"))), nil, []string{"web: BudgetNeverAllows!"},
		},
		"… and one more that is not there yet": {
			all(web, pod("web-b", on("b"), of("web")), deployment("web", 3), leftover, budget("web", 2, 2, 3, minAvailable("2"))), nil, []string{"web: BudgetExhausted"},
		},
		"a budget of nothing but unready pods": {all(sick, budget("web", 0, 1, 1, minAvailable("1"))), nil, []string{"web: BudgetNeverAllows!"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), node("a", ours), c.facts)
			s.decide()
			held := reasons(s.last)
			acts := deeds(s.last)
			if len(acts) > 0 && acts[0] == "mark a blocked" {
				acts = acts[1:]
			}
			same(t, "actions", c.want, append([]string(nil), acts...))
			same(t, "blockers", c.held, held)
		})
	}
}

func TestBudgetsThatNeverAllow(t *testing.T) {
	cases := map[string]struct {
		replicas int32
		budget   fact
		dead     bool
	}{
		"a single replica, minAvailable 1":             {1, budget("web", 1, 1, 1, minAvailable("1")), true},
		"minAvailable is all":                          {3, budget("web", 3, 3, 3, minAvailable("3")), true},
		"minAvailable is more than all":                {2, budget("web", 2, 3, 2, minAvailable("3")), true},
		"minAvailable is less than all":                {3, budget("web", 2, 2, 2, minAvailable("2")), false},
		"its owner wants more than are there":          {5, budget("web", 2, 2, 2, minAvailable("2")), false},
		"a percentage that rounds to all":              {3, budget("web", 3, 3, 3, minAvailable("70%")), true},
		"100 per cent of more to come":                 {5, budget("web", 3, 3, 3, minAvailable("100%")), true},
		"a percentage that does not":                   {3, budget("web", 2, 2, 3, minAvailable("50%")), false},
		"maxUnavailable 0":                             {3, budget("web", 3, 3, 3, maxUnavailable("0")), true},
		"maxUnavailable 0%":                            {3, budget("web", 3, 3, 3, maxUnavailable("0%")), true},
		"maxUnavailable 0 with nothing counted yet":    {3, budget("web", 0, 0, 0, maxUnavailable("0")), true},
		"maxUnavailable 1":                             {3, budget("web", 2, 2, 3, maxUnavailable("1")), false},
		"maxUnavailable 10%":                           {3, budget("web", 2, 2, 3, maxUnavailable("10%")), false},
		"nothing counted yet":                          {3, budget("web", 0, 0, 0, minAvailable("3")), false},
		"one budget over two workloads of one replica": {1, budget("web", 1, 1, 2, minAvailable("1")), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), node("a", ours), deployment("web", c.replicas), pod("web", on("a"), of("web")), c.budget)
			s.decide()
			want := "web: BudgetExhausted"
			if c.dead {
				want = "web: BudgetNeverAllows!"
			}
			s.holds(want)
			if dead := s.last.Outcome == drain.Blocked || len(s.last.Actions) > 0; dead != c.dead {
				t.Errorf("outcome %q, actions %v: the drain goes on only where the budget may yet allow it", s.last.Outcome, deeds(s.last))
			}
		})
	}
}

// While a Deployment is surged its owner still wants what it wanted before.
func TestSurgedWorkloadIsCountedAsItsOwnerWantsIt(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 4, surgedBy("other", 3, start)),
		pod("web", on("a"), of("web")), budget("web", 3, 3, 3, minAvailable("3")))
	s.decide()
	s.holds("web: BudgetNeverAllows!")
}

const letUnready = `; or, as this one is not ready: kubectl patch pdb -n default web --type=merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`

func TestBudgetWords(t *testing.T) {
	cases := map[string]struct {
		facts     fact
		says, way string
	}{
		"exhausted": {
			all(deployment("web", 3), budget("web", 1, 2, 3, minAvailable("2")), pod("web-b", on("b"), of("web"), unready)),
			"budget web needs 2 healthy and has 1; not ready: web-b", "wait until more of its pods are ready",
		},
		"exhausted, while a finalizer keeps a pod": {
			all(deployment("web", 3), budget("web", 2, 2, 3, minAvailable("2")), pod("web-b", on("b"), of("web"), endsAt(start.Add(-time.Minute)), finalizer("example.com/hold"))),
			"budget web needs 2 healthy and has 2; not ready: web-b (terminating, held by finalizer example.com/hold, which a controller of example.com removes)",
			"see why that controller does not remove it; if it does not exist any more: " +
				`kubectl patch pod -n default web-b --type=merge -p '{"metadata":{"finalizers":null}}'`,
		},
		"two budgets": {
			all(budget("web", 3, 2, 3), budget("web", 3, 2, 3, named("b"))),
			"budgets b, web all match it; the server evicts no pod under more than one", "narrow the selector of all but one: kubectl edit pdb -n default b web",
		},
		"dead for want of replicas": {
			all(deployment("web", 1), budget("web", 1, 1, 1, minAvailable("1"))),
			"budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", "--surge=auto, or kubectl scale -n default deployment/web --replicas=2",
		},
		"dead, and its pods may run nowhere else": {
			all(deployment("web", 1), budget("web", 1, 1, 1, minAvailable("1")), pod("web", on("a"), of("web"), needs("disk", "ssd"))),
			"budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod",
			"let another node run it (kubectl describe pod -n default web shows its node selector, affinity and tolerations) and --surge=auto, or kubectl edit pdb -n default web",
		},
		"… and are never surged": {
			all(statefulSet("db", 1), budget("web", 1, 1, 1, minAvailable("1")), pod("web", on("a"), ownedBy("StatefulSet", "db", "web"), needs("disk", "ssd"))),
			"budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", "kubectl edit pdb -n default web",
		},
		"exhausted, and not ready itself": {
			all(deployment("web", 2), budget("web", 0, 1, 2, minAvailable("1")), pod("web", on("a"), of("web"), unready)),
			"budget web needs 1 healthy and has 0; not ready: web", "wait until more of its pods are ready" + letUnready,
		},
		"dead, and not ready itself": {
			all(deployment("web", 1), budget("web", 0, 1, 1, minAvailable("1")), pod("web", on("a"), of("web"), unready)),
			"budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", "--surge=auto, or kubectl scale -n default deployment/web --replicas=2" + letUnready,
		},
		"dead, and its Deployment is never surged": {
			all(deployment("web", 1), budget("web", 1, 1, 1, minAvailable("1")), pod("web", on("a"), of("web"), claims("own")), claim("own", "v", false)),
			"budget web can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", "kubectl scale -n default deployment/web --replicas=2",
		},
		"dead whatever the replicas": {
			budget("web", 3, 3, 3, maxUnavailable("0")),
			"budget web can never allow it: maxUnavailable is 0, of 3 pods", "kubectl edit pdb -n default web",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), node("a", ours), node("b"), pod("web", on("a"), of("web")), c.facts)
			s.decide()
			b := s.status("web").Blockers[0]
			same(t, "message", c.says, b.Message)
			same(t, "remedy", c.way, b.Remedy)
		})
	}
}

// Where no more pods get ready by themselves, it is said why, and what would help instead of waiting.
func TestPodsThatDoNotGetReady(t *testing.T) {
	nowhere := func(p *snapshot.Pod) {
		p.Unschedulable, p.NotReadyWhy = true, "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."
	}
	lost := all(node("c", silent), pod("lost", on("c"), of("web"), unready))
	wait := "wait until more of its pods are ready"
	cases := map[string]struct {
		facts        fact
		unready, way string
	}{
		"nothing is known":         {pod("slow", on("b"), of("web"), unready), "slow", wait},
		"no node takes it":         {pod("new", of("web"), unready, nowhere), "new (no node takes it)", "make room for it on another node"},
		"its node is dead":         {lost, "lost (node c does not answer)", "bring node c back"},
		"terminating, and dead":    {all(lost, pod("lost", on("c"), of("web"), endsAt(start))), "lost (terminating on node c, which does not answer)", "bring the node back, or once it is certainly off: kubectl taint node c node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		"… and known to be off":    {all(lost, node("c", silent, outOfService), pod("lost", on("c"), of("web"), endsAt(start))), "lost (terminating on node c, which does not answer)", "wait: the node is tainted as out of service, so the pod garbage collector of the control plane removes what is terminating there"},
		"its rollout is paused":    {all(deployment("web", 4, stuckBy(snapshot.RolloutPaused)), pod("slow", on("b"), of("web"), unready)), "slow (its rollout is paused)", "kubectl rollout resume -n default deployment/web"},
		"its rollout is stuck":     {all(deployment("web", 4, stuckBy("no progress")), pod("slow", on("b"), of("web"), unready)), "slow (no progress)", "kubectl rollout undo -n default deployment/web, or mend its template"},
		"others get ready":         {all(lost, pod("slow", on("b"), of("web"), unready)), "lost (node c does not answer), slow", wait},
		"two of three have a word": {all(lost, pod("new", of("web"), unready, nowhere), pod("newer", of("web"), unready, nowhere)), "lost (node c does not answer), new (no node takes it), newer", "bring node c back"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), node("a", ours), node("b"), deployment("web", 4), pod("web", on("a"), of("web")), budget("web", 2, 2, 4, minAvailable("2")), c.facts)
			s.decide()
			b := s.status("web").Blockers[0]
			same(t, "message", "budget web needs 2 healthy and has 2; not ready: "+c.unready, b.Message)
			same(t, "remedy", c.way, b.Remedy)
		})
	}
}

func stuckBy(why string) func(*snapshot.Workload) {
	return func(w *snapshot.Workload) { w.RolloutStuck = why }
}

func outOfService(n *nodeOf) {
	n.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
}

// The taint of a node that is off is not taken off by itself: it is said when the node is back, and when the drain ends.
func TestTaintThatStays(t *testing.T) {
	note := []string{"node a is tainted as out of service: once it is back, kubectl taint node a node.kubernetes.io/out-of-service- lets it run pods again"}
	s := tell(t, ask("a"), node("a", ours, outOfService, silent), pod("p", on("a"), endsAt(start)))
	s.decide()
	same(t, "notes while it is off", nil, s.last.Notes)
	s.then(time.Second, node("a", ours, outOfService))
	s.decide()
	same(t, "notes when it is back", note, s.last.Notes)
	s.then(time.Second, node("a", ours, outOfService, silent))
	s.led.End(drain.Interrupted)
	s.decide()
	same(t, "notes at the end", note, s.last.Notes)
}

// More replicas help under a fixed minAvailable only, and the number of them is the autoscaler's where there is one.
func TestWaysPastABudget(t *testing.T) {
	dead, fixed := budget("web", 3, 3, 3, maxUnavailable("0")), budget("web", 3, 3, 3, minAvailable("3"))
	edit := "kubectl edit pdb -n default web"
	patch := "kubectl patch hpa -n default web --type=merge -p "
	cases := map[string]struct {
		surge drain.SurgeMode
		facts fact
		way   string
	}{
		"maxUnavailable 0":                    {drain.SurgeNever, dead, "--surge=auto, or " + edit},
		"minAvailable 100%":                   {drain.SurgeNever, budget("web", 3, 3, 3, minAvailable("100%")), "--surge=auto, or " + edit},
		"… which cannot be surged":            {drain.SurgeNever, all(dead, pod("web", on("a"), of("web"), claims("own"))), edit},
		"more is asked for than are wanted":   {drain.SurgeNever, budget("web", 3, 5, 3, minAvailable("5")), "--surge=auto, or kubectl scale -n default deployment/web --replicas=6"},
		"an autoscaler":                       {drain.SurgeNever, all(fixed, autoscaler("web", 1, 5)), "--surge=auto, or " + patch + `'{"spec":{"minReplicas":4}}'`},
		"an autoscaler at its maximum, never": {drain.SurgeNever, all(fixed, autoscaler("web", 1, 3)), patch + `'{"spec":{"minReplicas":4,"maxReplicas":4}}'`},
		"… and no number helps":               {drain.SurgeNever, all(dead, autoscaler("web", 1, 3)), edit},
		"an autoscaler at its maximum, auto":  {drain.SurgeAuto, all(dead, autoscaler("web", 1, 3)), patch + `'{"spec":{"maxReplicas":4}}' so that it can be surged, or ` + edit},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = c.surge
			s := tell(t, req, node("a", ours), node("b"), deployment("web", 3), pod("web", on("a"), of("web")), c.facts)
			s.decide()
			same(t, "remedy", c.way, s.status("web").Blockers[0].Remedy)
		})
	}
}

// How long a budget has allowed nothing is not how long the drain has waited for it. Where
// there is no drain, that is all there is to say.
func TestAgeOfABudgetIsNotThatOfTheDrain(t *testing.T) {
	for name, c := range map[string]struct {
		since time.Time
		says  string
	}{
		"used up for long":      {start.Add(-time.Hour), "budget web needs 2 healthy and has 2; it had allowed none for 1h before this drain"},
		"used up by this drain": {start.Add(time.Second), "budget web needs 2 healthy and has 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, never("a"), node("a", ours), pod("web", on("a"), of("web")),
				budget("web", 2, 2, 3, func(b *snapshot.Budget) { b.BlockedSince = c.since }))
			s.then(2 * time.Second)
			s.decide()
			b := s.status("web").Blockers[0]
			same(t, "since", start.Add(2*time.Second), b.Since)
			same(t, "message", c.says, b.Message)
			alone := drain.Why(s.view(), s.status("web").Pod)[0]
			same(t, "since, without a drain", c.since, alone.Since)
			same(t, "message, without a drain", "budget web needs 2 healthy and has 2", alone.Message)
		})
	}
}
