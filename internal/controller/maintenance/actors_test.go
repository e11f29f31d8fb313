package maintenance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// play is what happens in one history, drawn before it begins.
type play struct {
	world func() snapshot.View
	cfg   sim.Config
	specs []v1alpha1.NodeMaintenanceSpec
	steps []step
}

// step is what one of the actors does after a while.
type step struct {
	after time.Duration
	what  string
	which int // object
	how   int
	pause time.Duration
}

// TestPropertyActors: whatever requesters do to their objects, in any order, and whenever the process that leads is killed or loses the
// lead: no node is cordoned, and nothing taken off one, whose drain no object asks for, and none is given back that an object has; no eviction is
// sent for which a budget has no room; every object comes to its end or names what it waits for; and of all that was done nothing is left
// once no object is left.
func TestPropertyActors(t *testing.T) {
	var first sync.Once // goroutines that run at one moment do so in any order: a history may not fail again
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		var c *cluster
		synctest.Test(t, func(*testing.T) { c = p.run() })
		if len(c.wrong) > 0 {
			first.Do(func() { t.Logf("the first history that has failed:\n%s", strings.Join(c.log, "\n")) })
			rt.Fatalf("%s", strings.Join(c.wrong, "\n"))
		}
	})
}

// run lets a history happen, and everything end.
func (p *play) run() *cluster {
	c := newCluster(p.world(), p.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go c.lead(ctx)
	for _, s := range p.steps {
		<-time.After(s.after)
		c.mu.Lock()
		c.does(s, p.specs[s.which])
		c.mu.Unlock()
	}
	c.settle()
	return c
}

// does carries a step out. The caller holds the lock.
func (c *cluster) does(s step, spec v1alpha1.NodeMaintenanceSpec) {
	name := fmt.Sprintf("m%d", s.which)
	m := c.objects[name]
	switch {
	case strings.HasPrefix(s.what, "leader"):
		c.ends(s)
	case m == nil && s.what == "create":
		c.note("-- %s is created", name)
		c.put(&v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, c.serial)), Generation: 1, CreationTimestamp: metav1.NewTime(now().Truncate(time.Second)),
			},
			Spec: *spec.DeepCopy(),
		})
	case m != nil && m.DeletionTimestamp == nil && s.what != "create":
		c.note("-- %s: %s %d", name, s.what, s.how)
		m = m.DeepCopy()
		change(m, s)
		c.put(m)
	}
}

// ends has the process that leads end: at once, at one of its next writes, or by losing the lead.
func (c *cluster) ends(s step) {
	l := c.leader
	if l == nil || l.dead {
		return
	}
	c.pause = s.pause
	switch {
	case s.what == "leader loses the lead":
		c.note("-- the lead is lost")
		l.lost()
	case s.how == 0:
		l.killed()
	default:
		l.dies, l.writes = true, s.how
	}
}

// change changes an object as its requester does.
func change(m *v1alpha1.NodeMaintenance, s step) {
	m.Generation++
	switch s.what {
	case "delete":
		m.DeletionTimestamp = new(metav1.NewTime(now()))
	case "tighten":
		deadline := metav1.NewTime(now().Add(time.Duration(1+s.how*s.how) * 10 * time.Second))
		if m.Spec.DeadlineTime == nil || deadline.Before(m.Spec.DeadlineTime) {
			m.Spec.DeadlineTime = &deadline
		}
	case "suspend":
		m.Spec.Suspend = !m.Spec.Suspend
	case "force":
		m.Spec.Drain.UnmanagedPods = v1alpha1.PodsEvict
		if s.how%2 == 0 {
			m.Spec.Drain.UnmanagedPods = v1alpha1.PodsBlock
		}
	}
}

// How long it is waited for what is to happen.
const (
	lookEvery  = 10 * time.Second
	liveFor    = 7 * time.Minute  // longer than it takes to begin a blocked drain anew
	silentFor  = 6                // looks in a row at which a node names no blocker
	goneWithin = 15 * time.Minute // a leader is killed, deletion costs and Leases expire
	quietFor   = 2 * time.Minute
)

// settle lets all objects come to their ends, has them deleted, and looks at what is left.
func (c *cluster) settle() {
	c.each(func(m *v1alpha1.NodeMaintenance) { m.Spec.Suspend = false })
	silent := map[string]int{}
	for range liveFor / lookEvery {
		<-time.After(lookEvery)
		if c.standing(silent) {
			break
		}
	}
	c.each(func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = new(metav1.NewTime(now())) })
	left := []string{"everything"}
	for range goneWithin / lookEvery {
		<-time.After(lookEvery)
		c.mu.Lock()
		c.advance()
		left = c.left()
		c.mu.Unlock()
		if len(left) == 0 {
			break
		}
	}
	c.mu.Lock()
	looked := c.looked
	c.mu.Unlock()
	<-time.After(quietFor)
	c.mu.Lock()
	defer c.mu.Unlock()
	if left = append(left, c.left()...); len(left) > 0 {
		c.fail("left behind: %s", strings.Join(left, "; "))
	}
	if often := c.looked - looked; often > int(quietFor/lookEvery) {
		c.fail("decided %d times while nothing was to be done", often)
	}
	if c.refused > c.excused && !c.lags {
		c.fail("%d evictions were sent for which the budget had no room, %d of which could not be known", c.refused, c.excused)
	}
}

// each changes all objects.
func (c *cluster) each(change func(*v1alpha1.NodeMaintenance)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		if m := c.objects[name].DeepCopy(); m.DeletionTimestamp == nil {
			m.Generation++
			change(m)
			c.put(m)
		}
	}
}

// standing reports whether all objects have come to their ends. It counts for how many looks in a row a node has named no blocker.
func (c *cluster) standing(silent map[string]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	complete, working, before := true, false, maps.Clone(silent)
	clear(silent)
	if c.leader == nil {
		return false
	}
	for _, m := range c.objects {
		working = working || len(m.Status.Nodes) > 0
		if ready := meta.FindStatusCondition(m.Status.Conditions, "Ready"); ready != nil && ready.Status == metav1.ConditionTrue {
			continue
		}
		complete = false
		for _, e := range m.Status.Nodes {
			explained := slices.ContainsFunc(e.Blockers, func(b v1alpha1.MaintenanceBlocker) bool { return b.Message != "" && b.Remedy != "" })
			if key := m.Name + " " + e.Name; !explained && e.Step == v1alpha1.StepDraining {
				silent[key] = before[key] + 1
			}
		}
		if stalled := meta.IsStatusConditionTrue(m.Status.Conditions, "Stalled"); len(m.Status.Nodes) == 0 && !working && !stalled && len(c.objects) == 1 {
			silent[m.Name] = before[m.Name] + 1
		}
	}
	for key, looks := range silent {
		if looks == silentFor {
			c.fail("%s waits in silence", key)
		}
	}
	return complete
}
