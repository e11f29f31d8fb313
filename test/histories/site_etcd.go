package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

// etcdSite is an etcd cluster whose volumes go where its pods go.
type etcdSite struct {
	world   *world
	sim     *etcdsim.Cluster
	staging *etcdsim.Cluster
	plan    []planned
	writing *rand.Rand
	written int
}

func newEtcd(w *world) site { return etcdOf(w, []int{2, 3, 3, 3, 5}[w.dice.IntN(5)]) }

// etcdOf is a cluster of so many members.
func etcdOf(w *world, members int) site {
	e := &etcdSite{world: w, writing: rand.New(rand.NewPCG(w.seed, 3))}
	var names []string
	for n := range members {
		names = append(names, fmt.Sprintf("etcd-%d", n))
		e.plan = append(e.plan, planned{names[n], "etcd-member", false})
	}
	e.sim, e.staging = etcdsim.New(names...), etcdsim.New(names...)
	return e
}

func (e *etcdSite) members() []planned { return e.plan }

func (e *etcdSite) spec(staging bool) v1alpha1.EvictionPolicySpec {
	endpoints := e.sim.Endpoints()
	if staging {
		endpoints = []string{stagingURL}
	}
	return v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Etcd: &v1alpha1.Etcd{Access: v1alpha1.Access{Endpoints: endpoints}, MaxLag: 2}},
		Members: provide(e.world, selectors(e.plan)),
	}
}

func (e *etcdSite) kind(r *replica, real system.Kind) system.Kind {
	real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		sim := e.sim
		if spec.Etcd.Endpoints[0] == stagingURL {
			sim = e.staging
		}
		return etcd.Over(&etcdLine{r, sim}, spec.Etcd.MaxLag, sim.Endpoints(), access.Timeout), nil
	}
	return real
}

// mostWrites bounds the simulator's work, which grows with the square of what was written.
const mostWrites = 60

func (e *etcdSite) tick() {
	if !e.world.calm && e.written < mostWrites && e.writing.IntN(3) == 0 {
		e.written++
		e.sim.Write(fmt.Sprintf("v%d", e.written))
	}
	e.sim.Tick()
}

func (e *etcdSite) start(pod string, _ bool) { e.sim.Start(pod) }
func (e *etcdSite) stop(pod string)          { e.sim.Kill(pod) }

// wipe loses the disk that a member has run with. The successor's, at the same address, is another.
func (e *etcdSite) wipe(pod string) {
	if e.sim.Ran(pod) {
		e.sim.Wipe(pod)
	}
}

func (e *etcdSite) wouldLoseDisk(pod string) string {
	if lose, why := e.sim.WouldLoseWithDisk(pod); lose {
		return why
	}
	return ""
}

func (e *etcdSite) expelled(pod string) bool { return !e.sim.Ran(pod) }

func (*etcdSite) sets() map[string]bool { return map[string]bool{"etcd-member": true} }

func (*etcdSite) container(string) corev1.Container {
	return corev1.Container{Name: "etcd", Args: []string{"--initial-cluster-state=existing"}}
}

func (e *etcdSite) wouldLose(pod string, away []string) string {
	if lose, why := e.sim.WouldLose(pod, away...); lose {
		return why
	}
	return ""
}

func (*etcdSite) lag(string) time.Duration { return 0 } // each member is asked itself

func (e *etcdSite) strike(dice *rand.Rand) string { return strikeEtcd(e.sim, e.plan, dice) }

// strikeEtcd lets something go wrong or right again in a cluster of these members.
func strikeEtcd(sim *etcdsim.Cluster, plan []planned, dice *rand.Rand) string {
	name := plan[dice.IntN(len(plan))].pod
	switch dice.IntN(5) {
	case 0:
		sim.Island(1+dice.IntN(2), name)
		return name + " is cut off from the others"
	case 1:
		sim.Heal()
		return "all reach each other"
	case 2:
		n := dice.IntN(2)
		sim.Slow(name, n)
		return fmt.Sprintf("%s takes %d entries at a time (0: all)", name, n)
	case 3:
		sim.Hide(name)
		return name + " is out of Usher's reach"
	}
	faults := []etcdsim.Fault{etcdsim.Healthy, etcdsim.Refuses, etcdsim.Errs, etcdsim.Stale, etcdsim.Mistaken, etcdsim.Stranger, etcdsim.Healthy}
	fault := faults[dice.IntN(len(faults))]
	sim.Misbehave(etcdsim.URL(name), fault)
	return fmt.Sprintf("%s misbehaves: %q", name, fault)
}

func (e *etcdSite) fail(*rand.Rand) string { return "" }

func (e *etcdSite) heal() { healEtcd(e.sim, e.plan) }

// healEtcd ends what went wrong in a cluster of these members.
func healEtcd(sim *etcdsim.Cluster, plan []planned) {
	sim.Heal()
	for _, p := range plan {
		sim.Slow(p.pod, 0)
		sim.Misbehave(etcdsim.URL(p.pod), etcdsim.Healthy)
	}
}

// stagingURL is where the other system is.
const stagingURL = "http://staging:1"

func (e *etcdSite) leftovers() []string { return nil }

// etcdLine carries questions through the gate.
type etcdLine struct {
	replica *replica
	sim     *etcdsim.Cluster
}

func (l *etcdLine) Close() {}

func ask[T any](ctx context.Context, l *etcdLine, label, url string, f func(context.Context, string) (T, error)) (answer T, err error) {
	w := l.replica.world
	err = w.call(ctx, l.replica, l.replica.name+" etcd "+label+" "+url, plain, func() error {
		answer, err = f(ctx, url)
		return err
	})
	return answer, err
}

func (l *etcdLine) Members(ctx context.Context, url string) (etcd.Membership, error) {
	return ask(ctx, l, "members", url, l.sim.Members)
}

func (l *etcdLine) Status(ctx context.Context, url string) (etcd.Status, error) {
	return ask(ctx, l, "status", url, l.sim.Status)
}

func (l *etcdLine) Alarms(ctx context.Context, url string) ([]etcd.Alarm, error) {
	return ask(ctx, l, "alarms", url, l.sim.Alarms)
}

func (l *etcdLine) MoveLeader(ctx context.Context, url string, to uint64) error {
	_, err := ask(ctx, l, fmt.Sprintf("move-leader to %x", to), url, func(ctx context.Context, url string) (bool, error) {
		return true, l.sim.MoveLeader(ctx, url, to)
	})
	return err
}

func (e *etcdSite) lost() []string { return e.sim.Lost() }

func (*etcdSite) leads(string) bool { return false } // a write is acknowledged when a majority has it

func (*etcdSite) unreplicated(string) bool { return false }

func (l *etcdLine) AddLearner(ctx context.Context, url string, peers []string) error {
	_, err := ask(ctx, l, "add", url, func(ctx context.Context, url string) (struct{}, error) {
		return struct{}{}, l.sim.AddLearner(ctx, url, peers)
	})
	return err
}

func (l *etcdLine) Promote(ctx context.Context, url string, id uint64) error {
	_, err := ask(ctx, l, "promote", url, func(ctx context.Context, url string) (struct{}, error) {
		return struct{}{}, l.sim.Promote(ctx, url, id)
	})
	return err
}

func (l *etcdLine) Remove(ctx context.Context, url string, id uint64) error {
	_, err := ask(ctx, l, "remove", url, func(ctx context.Context, url string) (struct{}, error) {
		name, set := l.sim.NameOf(id), l.replica.world.setSite()
		if name != "" && set != nil {
			set.checkExpelled(name, lookedSince(ctx))
		} else if name != "" && l.replica.world.local() != nil {
			l.replica.world.checkDisk(name, name+" is taken off the list of members")
		}
		return struct{}{}, l.sim.Remove(ctx, url, id)
	})
	return err
}
