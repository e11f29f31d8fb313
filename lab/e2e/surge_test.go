package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rbacv1 "k8s.io/api/rbac/v1"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// lone is a single replica under a budget that can never allow its eviction, with n other nodes.
func lone(t *testing.T, others int) *stage {
	t.Helper()
	s := newStage(t)
	s.Deployment(t, s.ns, "shop", 1, slowToStart)
	return s.guardLone(t, others)
}

func (s *stage) guardLone(t *testing.T, others int) *stage {
	t.Helper()
	s.MinAvailable(t, s.ns, "shop", "1")
	s.settled(t, 1)
	if others > 0 {
		s.Nodes(t, others)
	}
	return s
}

func TestSurgePastADeadBudget(t *testing.T) {
	t.Parallel()
	s := lone(t, 1)
	f := drainNode(t, s.node).want(t, 0, "drained")
	s.replicas(t, "shop", 1)
	if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1\n%s", lowest, f.text)
	}
	if most := s.rec.mostPods(t, "shop"); most != 2 {
		t.Errorf("at the most %d pods ran, want 2", most)
	}
	same(t, "left", s.rec.left(t, s.node), []string{})
	s.noCosts(t)
}

// noCosts fails the test if a pod still carries a deletion cost.
func (s *stage) noCosts(t *testing.T) {
	t.Helper()
	for _, p := range s.WaitReady(t, s.ns, nil, 1) {
		if p.Annotations[snapshot.CostAnnotation] != "" || p.Annotations[snapshot.CostMarkAnnotation] != "" {
			t.Errorf("%s has annotations %v", p.Name, p.Annotations)
		}
	}
}

func TestSurgeOfASingleReplicaWithoutABudget(t *testing.T) {
	t.Parallel()
	for mode, lowest := range map[string]int{"auto": 1, "never": 0} {
		t.Run(mode, func(t *testing.T) {
			s := newStage(t)
			s.Deployment(t, s.ns, "shop", 1, slowToStart)
			s.settled(t, 1)
			s.Nodes(t, 1)
			drainNode(t, s.node, "--surge="+mode, "--wait=replaced").want(t, 0, "drained")
			s.replicas(t, "shop", 1)
			if got := s.rec.lowestReady(t, "shop"); got != lowest {
				t.Errorf("at the lowest %d pods were ready, want %d", got, lowest)
			}
		})
	}
}

// slowToStart leaves time to remove a pod before its replacement is ready, for a drain that does not wait.
func slowToStart(d *appsv1.Deployment) {
	d.Spec.Template.Annotations = map[string]string{"pod-ready.stage.kwok.x-k8s.io/delay": "500ms"}
}

func TestSurgeAlways(t *testing.T) {
	t.Parallel()
	unavailable := func(s *stage) { s.MaxUnavailable(t, s.ns, "web", "1") }
	available := func(s *stage) { s.MinAvailable(t, s.ns, "web", "9") }
	tests := map[string]struct {
		budget func(*stage)
		flags  []string
	}{
		"under maxUnavailable":                {unavailable, nil},
		"under minAvailable":                  {available, nil},
		"with a grace, so by evictions":       {unavailable, []string{"--grace-period=3"}},
		"with a grace and minAvailable, too":  {available, []string{"--grace-period=3"}},
		"without a budget, by scaling either": {func(*stage) {}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.Deployment(t, s.ns, "web", 10, slowToStart)
			tt.budget(s)
			s.settled(t, 10)
			s.Nodes(t, 2)
			drainNode(t, append(tt.flags, s.node, "--surge=always")...).want(t, 0, "drained")
			s.replicas(t, "web", 10)
			if lowest := s.rec.lowestReady(t, "web"); lowest != 10 {
				t.Errorf("at the lowest %d pods were ready, want all 10", lowest)
			}
			same(t, "left", s.rec.left(t, s.node), []string{})
		})
	}
}

func TestSurgeThroughAnAutoscaler(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "shop", 1)
	s.MinAvailable(t, s.ns, "shop", "1")
	api := s.Client().AutoscalingV2().HorizontalPodAutoscalers(s.ns)
	_, err := api.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"},
			MinReplicas:    new(int32(1)), MaxReplicas: 3,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.settled(t, 1)
	p := start(t, "drain", s.node) // no other node: the surge has to wait
	source := await.Source[*autoscalingv2.HorizontalPodAutoscaler]{
		Client: s.Client().AutoscalingV2().RESTClient(), Resource: "horizontalpodautoscalers", Namespace: s.ns,
	}
	minimum := func(n int32, recorded bool) func([]*autoscalingv2.HorizontalPodAutoscaler) bool {
		return func(all []*autoscalingv2.HorizontalPodAutoscaler) bool {
			return *all[0].Spec.MinReplicas == n && (all[0].Annotations[snapshot.SurgeAnnotation] != "") == recorded
		}
	}
	testlab.WaitFor(t, source, "minReplicas to be raised", minimum(2, true))
	s.Nodes(t, 1)
	p.wait(t).want(t, 0, "drained")
	testlab.WaitFor(t, source, "minReplicas to be restored", minimum(1, false))
	s.replicas(t, "shop", 1)
	if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", lowest)
	}
}

// reading is what a drain needs to see; evicting is what it needs to do, without any scaling.
var (
	reading = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}
	nodes   = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}}}
	evicts  = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}}}
)

func TestSurgeByACallerWhoMayNotScale(t *testing.T) {
	t.Parallel()
	rules := slices.Concat(reading, nodes, evicts)
	t.Run("goes without", func(t *testing.T) {
		s := newStage(t)
		s.Deployment(t, s.ns, "shop", 1)
		s.settled(t, 1)
		s.Nodes(t, 1)
		_, kubeconfig := s.As(t, rules)
		usherIn(t, kubeconfig, "drain", s.node).wantCode(t, 0).says(t, s.ns+"/shop is not surged", "deployments")
		same(t, "left", s.rec.left(t, s.node), []string{})
	})
	t.Run("is blocked by a dead budget", func(t *testing.T) {
		s := lone(t, 1)
		_, kubeconfig := s.As(t, rules)
		usherIn(t, kubeconfig, "drain", s.node).wantCode(t, 2).says(t, s.ns+"/shop is not surged", "can never allow")
	})
}

// surging starts a drain that hangs in its surge, because there is no other node for the replacement.
func surging(t *testing.T) (*stage, *process) {
	t.Helper()
	s := lone(t, 0)
	return s, s.surge(t)
}

func (s *stage) surge(t *testing.T) *process {
	t.Helper()
	p := start(t, "drain", s.node)
	s.awaitDeployment(t, "shop", "to be surged", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 2 && d.Annotations[snapshot.SurgeAnnotation] != "" && d.Labels[snapshot.SurgeLabel] != ""
	})
	return p
}

func TestUnschedulableReplacement(t *testing.T) {
	t.Parallel()
	s, p := surging(t)
	e := p.await(t, "why the replacement is not ready", func(e event) bool {
		return e.Blocker != nil && e.Blocker.Reason == "ReplacementPending" && strings.Contains(e.Blocker.Message, "Unschedulable")
	})
	contains(t, e.Blocker.Message, "0 of 1 replacements of shop are ready", "nodes are available")
	p.signal(t, syscall.SIGINT)
	p.wait(t).want(t, 130, "interrupted")
	s.replicas(t, "shop", 1)
	if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", lowest)
	}
}

func TestAnotherClientScalesDuringTheSurge(t *testing.T) {
	t.Parallel()
	s, p := surging(t)
	_, err := s.Client().AppsV1().Deployments(s.ns).Patch(t.Context(), "shop", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.replicas(t, "shop", 3)
	s.Nodes(t, 1)
	p.wait(t).want(t, 0, "drained")
	s.replicas(t, "shop", 3)
	if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", lowest)
	}
}

// labelled keeps pods on the stage's node by a label that another node could have as well: their surge waits for one.
func (s *stage) labelled(t *testing.T) func(*appsv1.Deployment) {
	t.Helper()
	const label = "lab.usher.sh/labelled"
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, label, s.node)
	if _, err := s.Client().CoreV1().Nodes().Patch(t.Context(), s.node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		spec.NodeSelector = maps.Clone(spec.NodeSelector)
		spec.NodeSelector[label] = s.node
	}
}

// Not parallel, like the next: any drain reverts what killed ones left, so another test's could be the one that did.
func TestKilledInTheSurge(t *testing.T) {
	commands := map[string]func(*stage) []string{
		"drain --revert":       func(*stage) []string { return []string{"drain", "--revert"} },
		"… for programs":       func(*stage) []string { return []string{"drain", "--revert", "-o", "json"} },
		"the next drain":       func(s *stage) []string { return []string{"drain", s.node, "--surge=never"} },
		"uncordon":             func(s *stage) []string { return []string{"uncordon", s.node} },
		"a drain of something": func(s *stage) []string { return []string{"drain", s.Nodes(t, 1)[0]} },
	}
	for name, command := range commands {
		t.Run("reverted by "+name, func(t *testing.T) {
			s := newStage(t)
			s.Deployment(t, s.ns, "shop", 1, s.labelled(t))
			p := s.guardLone(t, 0).surge(t)
			p.signal(t, syscall.SIGKILL)
			<-p.ended
			for _, look := range [][]string{{"plan", s.node}, {"why", "-n", s.ns, s.names(t)[0]}} {
				usher(t, look...).says(t, "Deployment "+s.ns+"/shop is still scaled to 2 (it was 1); undo with: usher drain --revert", "undo with: usher uncordon "+s.node)
			}
			args := command(s)
			if done := usher(t, args...); slices.Contains(args, "json") {
				done.says(t, `{"type":"end"`, `"outcome":"drained"`)
			}
			s.replicas(t, "shop", 1)
			s.WaitReady(t, s.ns, nil, 1)
			if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
				t.Errorf("at the lowest %d pods were ready, want 1", lowest)
			}
		})
	}
}

func TestKilledInTheSurgeAndStartedAgain(t *testing.T) {
	s, p := surging(t)
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	s.Nodes(t, 1)
	drainNode(t, s.node).want(t, 0, "drained")
	s.replicas(t, "shop", 1)
	same(t, "left", s.rec.left(t, s.node), []string{})
	if lowest := s.rec.lowestReady(t, "shop"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want 1", lowest)
	}
}
