package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/throwaway"
)

// The awkward node has, beside two Deployments of different priority under budgets of one pod, what keeps a drain from
// ending: pods that tolerate the cordon and are pinned to the node, a finalizer that stays, at the lowest priority, and a
// budget that never allows anything; and a single replica whose rollout is stuck.
const (
	awkward    = "awkward node"
	pinned     = "pinned"
	held       = "held"
	stuck      = "stuck"
	guarded    = "guarded"
	low        = "low"
	high       = "high"
	finalizer  = "bench.usher.sh/hold"
	awkwardPer = 5 // pods of low, and of high
	// neverReady is when the pod of the stuck rollout would become ready.
	neverReady = "pod-ready.stage.kwok.x-k8s.io/delay"
)

// awkwardRun is what was seen of one drain of the awkward node.
type awkwardRun struct {
	left  time.Duration // until all that can leave had left
	ended time.Duration // until the drain ended by itself; zero where it was stopped
	again int           // pods that came back to the node and were removed once more
}

// measureAwkward drains an awkward node with the tool. Only a drain that ends by itself is waited for.
func measureAwkward(ctx context.Context, lab *throwaway.Lab, t tool, name string, ends bool) (awkwardRun, error) {
	st, err := buildAwkward(ctx, lab, name)
	if err != nil {
		return awkwardRun{}, fmt.Errorf("building the awkward node: %w", err)
	}
	target := st.targets[0]
	there, err := st.podsOn(ctx, target)
	if err != nil {
		return awkwardRun{}, err
	}
	draining, stop := context.WithCancel(ctx)
	defer stop()
	started := time.Now()
	drained := make(chan error, 1)
	go func() { drained <- drainAwkward(draining, t, st, ends) }()

	var r awkwardRun
	again := map[types.UID]bool{}
	err = await.Until(ctx, st.pods(), func(all []*corev1.Pod) bool {
		waits := false
		for _, p := range all {
			waits = waits || there[p.UID] && p.Labels[appLabel] != held && p.Labels[appLabel] != guarded
			if p.Spec.NodeName == target && !there[p.UID] && p.DeletionTimestamp != nil {
				again[p.UID] = true
			}
		}
		return !waits
	})
	if err != nil {
		return awkwardRun{}, fmt.Errorf("waiting until all that can leave has left: %w", err)
	}
	r.left, r.again = time.Since(started), len(again)
	if !ends {
		stop()
	}
	if err := <-drained; ends && err != nil {
		return awkwardRun{}, err
	}
	if ends {
		r.ended = time.Since(started)
	}
	return r, st.removeAwkward(ctx)
}

// drainAwkward runs the drain. One that ends by itself must say that it is blocked, and name what is left.
func drainAwkward(ctx context.Context, t tool, st *stage, ends bool) error {
	args := slices.Concat([]string{"--kubeconfig", st.lab.Kubeconfig(), "drain"}, st.targets, t.flags)
	output, err := exec.CommandContext(ctx, t.path, args...).CombinedOutput()
	if !ends {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		return fmt.Errorf("draining the awkward node with %s ended with %w, and not as blocked:\n%s", t.name, err, lastLines(output))
	}
	for _, name := range []string{finalizer, "budget " + guarded} {
		if !strings.Contains(string(output), name) {
			return fmt.Errorf("draining the awkward node with %s did not name %s:\n%s", t.name, name, lastLines(output))
		}
	}
	return nil
}

func buildAwkward(ctx context.Context, lab *throwaway.Lab, name string) (*stage, error) {
	st, err := newStage(ctx, lab, name, 1)
	if err != nil {
		return nil, err
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000}
	if _, err := lab.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating priority class: %w", err)
	}
	for _, d := range st.awkwardDeployments() {
		if _, err := lab.Client.AppsV1().Deployments(name).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating deployment: %w", err)
		}
	}
	for app, most := range map[string]int32{low: 1, high: 1, guarded: 0} {
		if err := st.addBudget(ctx, app, most); err != nil {
			return nil, err
		}
	}
	if err := st.awaitAwkward(ctx); err != nil {
		return nil, err
	}
	if st.others, err = st.addNodes(ctx, "other", others); err != nil {
		return nil, err
	}
	return st, st.stickRollout(ctx)
}

func (st *stage) awkwardDeployments() []*appsv1.Deployment {
	all := []*appsv1.Deployment{
		st.deployment(pinned, 2), st.deployment(held, 1), st.deployment(stuck, 1), st.deployment(guarded, 1),
		st.deployment(low, awkwardPer), st.deployment(high, awkwardPer),
	}
	for _, d := range all {
		pod := &d.Spec.Template
		switch d.Name {
		case pinned:
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: st.targets[0]}
		case held:
			pod.Finalizers = []string{finalizer}
		case stuck:
			d.Spec.ProgressDeadlineSeconds = new(int32(2))
		case high:
			pod.Spec.PriorityClassName = st.run
		}
	}
	return all
}

func (st *stage) addBudget(ctx context.Context, app string, most int32) error {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(most)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}},
		},
	}
	if _, err := st.lab.Client.PolicyV1().PodDisruptionBudgets(st.run).Create(ctx, pdb, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating budget: %w", err)
	}
	return nil
}

// awaitAwkward waits until all pods are ready and all budgets know it.
func (st *stage) awaitAwkward(ctx context.Context) error {
	budgets := await.Source[*policyv1.PodDisruptionBudget]{
		Client: st.lab.Client.PolicyV1().RESTClient(), Resource: "poddisruptionbudgets", Namespace: st.run,
	}
	err := await.Until(ctx, budgets, func(all []*policyv1.PodDisruptionBudget) bool {
		return len(all) == 3 && !slices.ContainsFunc(all, func(b *policyv1.PodDisruptionBudget) bool {
			return b.Status.ExpectedPods == 0 || b.Status.CurrentHealthy != b.Status.ExpectedPods
		})
	})
	if err != nil {
		return fmt.Errorf("waiting until the budgets know their pods: %w", err)
	}
	return st.awaitDeployments(ctx, func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == *d.Spec.Replicas })
}

func (st *stage) awaitDeployments(ctx context.Context, done func(*appsv1.Deployment) bool) error {
	deployments := await.Source[*appsv1.Deployment]{Client: st.lab.Client.AppsV1().RESTClient(), Resource: "deployments", Namespace: st.run}
	err := await.Until(ctx, deployments, func(all []*appsv1.Deployment) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(d *appsv1.Deployment) bool { return !done(d) })
	})
	if err != nil {
		return fmt.Errorf("waiting for deployments: %w", err)
	}
	return nil
}

// stickRollout begins a rollout whose pod never gets ready, and waits until its controller has given up.
func (st *stage) stickRollout(ctx context.Context) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"1h"}}}}}`, neverReady)
	_, err := st.lab.Client.AppsV1().Deployments(st.run).Patch(ctx, stuck, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing a deployment: %w", err)
	}
	return st.awaitDeployments(ctx, func(d *appsv1.Deployment) bool {
		return d.Name != stuck || slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		})
	})
}

func (st *stage) podsOn(ctx context.Context, node string) (map[types.UID]bool, error) {
	list, err := st.lab.Client.CoreV1().Pods(st.run).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	uids := map[types.UID]bool{}
	for i := range list.Items {
		uids[list.Items[i].UID] = true
	}
	return uids, nil
}

// removeAwkward takes the finalizers off, and then everything away.
func (st *stage) removeAwkward(ctx context.Context) error {
	client := st.lab.Client
	template := []byte(`{"spec":{"replicas":0,"template":{"metadata":{"finalizers":null}}}}`)
	if _, err := client.AppsV1().Deployments(st.run).Patch(ctx, held, types.MergePatchType, template, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing a deployment: %w", err)
	}
	list, err := client.CoreV1().Pods(st.run).List(ctx, metav1.ListOptions{LabelSelector: appLabel + "=" + held})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range list.Items {
		name := list.Items[i].Name
		if _, err := client.CoreV1().Pods(st.run).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("taking the finalizer off: %w", err)
		}
	}
	if err := client.SchedulingV1().PriorityClasses().Delete(ctx, st.run, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting priority class: %w", err)
	}
	return st.remove(ctx)
}

// reportAwkward prints how the awkward node went.
func reportAwkward(usher, kubectl awkwardRun) string {
	return fmt.Sprintf("awkward node: usher %.1f s, kubectl %.1f s, evicted twice: %d\nawkward node, until usher ends by itself and names the rest: %.1f s (kubectl: never)\n",
		usher.left.Seconds(), kubectl.left.Seconds(), usher.again, usher.ended.Seconds())
}
