package realfdb

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The manager that leads is killed this often. The next one takes nothing on trust: it counts the minute between two evictions (evict.settle) itself, so where
// none lives for so long no member goes.
const (
	killFirst = 45 * time.Second
	killLeast = 90 * time.Second
	killMost  = 150 * time.Second
)

// trouble kills managers at moments that a seed gives, in one step after the other.
type trouble struct {
	d     *database
	dice  *rand.Rand
	kills int
}

// during kills managers until the function that it returns is called.
func (x *trouble) during(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for wait := time.Duration(x.dice.Int64N(int64(killFirst))); ; wait = killLeast + time.Duration(x.dice.Int64N(int64(killMost-killLeast))) {
			select {
			case <-time.After(wait):
				x.kill(ctx, t)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// kill kills the manager that leads. Its pod is deleted then, so that another one starts at once: the kubelet would wait ever longer until it starts the
// container again.
func (x *trouble) kill(ctx context.Context, t *testing.T) {
	t.Helper()
	pod, err := x.d.lab.KillLeader(ctx)
	if err == nil {
		x.kills++
		err = x.d.lab.Client().CoreV1().Pods(managerNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
	}
	if err != nil && ctx.Err() == nil {
		t.Logf("killing the manager that leads: %v", err)
	}
}
