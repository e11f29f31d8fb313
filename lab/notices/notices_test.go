package notices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// workloads are how many pods there are of each, by name.
var workloads = map[string]int{etcd: members, "web": 3, "single": 1}

// TestNodeIsTakenAway has the clouds of real nodes announce that they take these back, and takes them then: all processes of the node are killed. By
// then it is empty but for DaemonSets, its pods are at work elsewhere, and an etcd with a member on it has lost nothing. In half of the runs the
// manager that leads is killed meanwhile.
func TestNodeIsTakenAway(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"web", "single"} {
		r.Deployment(t, r.namespace, name, int32(workloads[name]), func(d *appsv1.Deployment) { //nolint:gosec // small
			d.Spec.Template.Spec = testlab.RealPod(t)
			d.Spec.Template.Spec.Affinity = apart(name)
		})
	}
	r.MaxUnavailable(t, r.namespace, "web", "1")
	endpoints := r.startEtcd(t)
	r.allAtWork(t)
	writers := startWriters(t, endpoints)
	t.Run("thirty seconds", func(t *testing.T) { r.takeAway(t, writers, &run{announce: (*machine).preempt}) })
	if testing.Short() {
		return
	}
	var inTime int
	for i := range *runs {
		one := &run{announce: (*machine).interrupt, killsLeader: i%2 == 1}
		if t.Run(fmt.Sprintf("two minutes, %d", i+1), func(t *testing.T) { r.takeAway(t, writers, one) }) {
			inTime++
		}
	}
	writers.stop()
	if *figured {
		t.Run("first evictions", r.firstEvictions)
		t.Run("thirty pods", r.thirtyPods)
		fmt.Printf("in time: %d of %d\n", inTime, *runs)
	}
}

// run is one node that is taken away.
type run struct {
	announce    func(*machine) time.Time
	killsLeader bool
	drain
}

// drain is what is seen of one.
type drain struct {
	announced, first, empty, ready time.Time // zero: not before the node went
	left                           []string
}

func (r *rig) takeAway(t *testing.T, writers *writers, one *run) {
	t.Helper()
	m := r.machineOf(r.memberNode(t))
	one.announced = time.Now()
	goes := one.announce(m)
	ctx, cancel := context.WithDeadlineCause(t.Context(), goes, errors.New("the node goes"))
	defer cancel()
	var beside sync.WaitGroup
	if one.killsLeader {
		after := time.Duration(r.dice.Int64N(int64(15 * time.Second)))
		beside.Go(func() { r.killLeader(ctx, t, after) })
	}
	r.follow(ctx, m.Name, &one.drain)
	beside.Wait()
	<-ctx.Done()
	m.kill(t)
	t.Logf("%s: %s", m.Name, &one.drain)
	if one.empty.IsZero() {
		t.Errorf("%s was not empty when it went: %s", m.Name, strings.Join(one.left, ", "))
	}
	if one.ready.IsZero() {
		t.Errorf("not all pods were ready elsewhere when %s went", m.Name)
	}
	writers.check(t)
	if testing.Short() {
		return // it is the last one, and a machine that starts takes as much of a processor as all that it was about
	}
	m.boot(t)
	r.givenBack(t, m.Name)
	r.allAtWork(t)
}

// allAtWork waits until all workloads are ready, and so are the managers.
func (r *rig) allAtWork(t *testing.T) {
	t.Helper()
	for name, count := range workloads {
		r.WaitReady(t, r.namespace, testlab.Labels(name), count)
	}
	r.WaitReady(t, systemNamespace, nil, 2)
}

// memberNode is a node that has a member, at random.
func (r *rig) memberNode(t *testing.T) string {
	t.Helper()
	all := r.WaitReady(t, r.namespace, testlab.Labels(etcd), members)
	return all[r.dice.IntN(len(all))].Spec.NodeName
}

// killLeader kills the manager that leads after a while, or the next one to lead: its node may be the one that goes.
func (r *rig) killLeader(ctx context.Context, t *testing.T, after time.Duration) {
	t.Helper()
	select {
	case <-ctx.Done():
		return
	case <-time.After(after):
	}
	var pod string
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = r.KillLeader(ctx)
		return err == nil, nil
	})
	if err != nil {
		t.Errorf("no manager that leads was killed: %v", err)
		return
	}
	t.Logf("%s after the notice, the manager in %s, which leads, is killed", after.Round(time.Millisecond), pod)
}

// follow follows the drain of a node until it is empty and all pods of the workloads are ready on others.
func (r *rig) follow(ctx context.Context, node string, d *drain) {
	_ = await.Until(ctx, r.Pods(""), func(all []*corev1.Pod) bool {
		now := time.Now()
		here := drains(all, node)
		if d.first.IsZero() && slices.ContainsFunc(here, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
			d.first = now
		}
		d.left = d.left[:0]
		for _, p := range here {
			d.left = append(d.left, p.Namespace+"/"+p.Name)
		}
		if len(here) == 0 && d.empty.IsZero() {
			d.empty = now
		}
		if len(here) == 0 && r.allReady(all) {
			d.ready = now
			return true
		}
		return false
	})
}

// allReady reports whether each workload has all its pods ready.
func (r *rig) allReady(all []*corev1.Pod) bool {
	ready := map[string]int{}
	for _, p := range all {
		if p.Namespace == r.namespace && testlab.PodReady(p) {
			ready[p.Labels["app"]]++
		}
	}
	for name, count := range workloads {
		if ready[name] < count {
			return false
		}
	}
	return true
}

func (d *drain) String() string {
	after := func(at time.Time) string {
		if at.IsZero() {
			return "never"
		}
		return fmt.Sprintf("after %.3f s", at.Sub(d.announced).Seconds())
	}
	return fmt.Sprintf("the first pod is asked to go %s, the node is empty %s, all are ready elsewhere %s", after(d.first), after(d.empty), after(d.ready))
}
