package realetcd

import (
	"context"
	"os/exec"
	"testing"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

func startNodes(t *testing.T, l *testlab.Lab, images ...string) []*realnode.Node {
	t.Helper()
	etcd := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	nodes := l.StartRealNodes(t, join.Options{Count: size, Files: []image.File{etcd}, Images: images})
	l.ServeServices(t)
	return nodes
}

// TestRealEtcd drains the same nodes with kubectl alone and with Usher in its way, and prints both.
func TestRealEtcd(t *testing.T) {
	l := testlab.Get(t)
	archive, program := l.UsherImage(t)
	nodes := startNodes(t, l, archive)
	var with, without, budgetWith, budgetWithout figures
	if !testing.Short() {
		t.Run("kubectl alone", func(t *testing.T) { without = alone(t, startEtcd(t, l, apart(true)), nodes, "without") })
	}
	if *budget {
		t.Run("kubectl alone, with a budget", func(t *testing.T) {
			e := startEtcd(t, l, apart(true))
			e.makeBudget(t)
			budgetWithout = alone(t, e, nodes, "without, budget")
		})
	}
	u := install(t, l, program)
	t.Run("kubectl and usher", func(t *testing.T) { with = guarded(t, startEtcd(t, l, apart(true)), nodes, "usher") })
	if *budget {
		t.Run("kubectl and usher, with a budget", func(t *testing.T) {
			e := startEtcd(t, l, apart(true))
			e.makeBudget(t)
			budgetWith = guarded(t, e, nodes, "usher, budget")
		})
	}
	// Here members may share a node, so that they move at once and a drain meets two of them.
	e := startEtcd(t, l, apart(false))
	e.govern(t)
	t.Run("evictions are answered by pods", func(t *testing.T) { testAnswers(t, e) })
	t.Run("rollout restart", func(t *testing.T) { rolloutRestart(t, e) })
	t.Run("usher drain", func(t *testing.T) { ownDrain(t, u, e, nodes) })
	if !testing.Short() {
		t.Log(pauses(with, without))
	}
	if *budget {
		t.Log("with a budget: " + pauses(budgetWith, budgetWithout))
	}
}

func alone(t *testing.T, e *etcd, nodes []*realnode.Node, who string) figures {
	t.Helper()
	f := e.drainAll(t, nodes, e.kubectlDrain(t), *rounds, nothing)
	f.log(t, who)
	f.checkData(t)
	return f
}

// guarded has Usher answer kubectl's evictions, in trouble itself.
func guarded(t *testing.T, e *etcd, nodes []*realnode.Node, who string) figures {
	t.Helper()
	e.govern(t)
	logManagers(t, nodes)
	drains := *rounds * size
	x := startTrouble(t, e.lab, drains)
	f := e.drainAll(t, nodes, e.kubectlDrain(t), *rounds, x.during)
	x.stop()
	x.check(t)
	f.log(t, who)
	f.check(t, drains)
	e.release(t)
	return f
}

// rolloutRestart has the StatefulSet replace its pods, whose controller deletes them. Of three members it replaces one leader at least.
func rolloutRestart(t *testing.T, e *etcd) {
	t.Helper()
	f := e.watched(t, func() {
		e.kubectl(t, "", "rollout", "restart", "statefulset/"+name)
		t.Log(lastLine(e.kubectl(t, "", "rollout", "status", "statefulset/"+name, "--timeout=10m")))
	})
	f.log(t, "rollout restart")
	f.check(t, 0)
	if f.leaves != size {
		t.Errorf("%d pods of members were deleted, want %d", f.leaves, size)
	}
}

// ownDrain drains with usher, which asks for the members' evictions instead of evicting them.
func ownDrain(t *testing.T, u *usher, e *etcd, nodes []*realnode.Node) {
	t.Helper()
	logManagers(t, nodes)
	d := &drainer{logf: t.Logf, command: func(ctx context.Context, node string) *exec.Cmd {
		return u.command(ctx, "drain", node, "--timeout", drainLimit.String())
	}}
	f := e.drainAll(t, nodes, d, 1, nothing)
	f.log(t, "usher drain")
	f.check(t, size)
	if f.reruns > 0 {
		t.Errorf("usher drain had to be run again %d times", f.reruns)
	}
	e.release(t)
}
