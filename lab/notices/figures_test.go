package notices

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/lab/testlab"
	"usher.sh/usher/test/metadatasim"
)

// firstEvictions has nodes be announced to go by a service that says so at once, since how often others are asked is no property of Usher, and is
// called off once they are empty.
func (r *rig) firstEvictions(t *testing.T) {
	const times = 5
	var took []time.Duration
	for range times {
		m := r.machineOf(r.memberNode(t))
		ctx, cancel := context.WithTimeout(t.Context(), preemption)
		d := drain{announced: time.Now()}
		m.preempt()
		r.follow(ctx, m.Name, &d)
		cancel()
		t.Log(&d)
		if d.first.IsZero() {
			t.Fatal("no pod was asked to go")
		}
		took = append(took, d.first.Sub(d.announced))
		m.gce.Set(metadatasim.GCEPreempted, "FALSE")
		r.givenBack(t, m.Name)
		r.allAtWork(t)
	}
	slices.Sort(took)
	fmt.Printf("notice to first eviction: %d ms\n", took[times/2].Milliseconds())
}

// thirtyPods has a node with 30 pods more, in five Deployments of six, each under a budget of one pod, be announced to go.
func (r *rig) thirtyPods(t *testing.T) {
	const deployments, replicas = 5, 6
	m := r.machines[0]
	r.cordonOthers(t, m.Name, true)
	for i := range deployments {
		name := fmt.Sprintf("thirty-%d", i)
		r.Deployment(t, r.namespace, name, replicas, func(d *appsv1.Deployment) { d.Spec.Template.Spec = testlab.RealPod(t) })
		r.MaxUnavailable(t, r.namespace, name, "1")
	}
	for i := range deployments {
		name := fmt.Sprintf("thirty-%d", i)
		r.WaitReady(t, r.namespace, testlab.Labels(name), replicas)
		r.WaitBudget(t, r.namespace, name, replicas)
	}
	r.cordonOthers(t, m.Name, false)
	ctx, cancel := context.WithTimeout(t.Context(), spotNotice)
	defer cancel()
	d := drain{announced: time.Now()}
	m.interrupt()
	r.follow(ctx, m.Name, &d)
	t.Log(&d)
	if d.empty.IsZero() {
		t.Fatalf("%v are left", d.left)
	}
	fmt.Printf("notice to empty, 30 pods: %.1f s\n", d.empty.Sub(d.announced).Seconds())
	m.ec2.Withdraw(metadatasim.EC2SpotAction)
	m.ec2.Withdraw(metadatasim.EC2TerminationTime)
	r.givenBack(t, m.Name)
}

// cordonOthers has pods that start go to one node.
func (r *rig) cordonOthers(t *testing.T, node string, cordoned bool) {
	t.Helper()
	for _, m := range r.machines {
		if m.Name == node {
			continue
		}
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned)
		if _, err := r.Client().CoreV1().Nodes().Patch(t.Context(), m.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	testlab.WaitFor(t, r.AllNodes(), "the taints of cordoned nodes", func(all []*corev1.Node) bool {
		return !slices.ContainsFunc(all, func(n *corev1.Node) bool { return n.Name != node && (len(n.Spec.Taints) > 0) != cordoned })
	})
}
