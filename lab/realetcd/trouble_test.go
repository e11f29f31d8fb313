package realetcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"usher.sh/usher/lab/testlab"
)

// Managers that lead are killed this often.
const (
	killFirst = 3 * time.Second
	killLeast = 15 * time.Second
	killMost  = 45 * time.Second
)

// trouble kills managers with SIGKILL, and restarts the apiserver once, at moments that a seed gives.
type trouble struct {
	lab     *testlab.Lab
	t       *testing.T
	dice    *rand.Rand
	cancel  context.CancelFunc
	running sync.WaitGroup

	restartAt int // number of the drain
	kills     int
	restarts  int
	err       error
}

// startTrouble begins to kill; the apiserver goes in one of the drains.
func startTrouble(t *testing.T, l *testlab.Lab, drains int) *trouble {
	t.Helper()
	t.Logf("seed %d (-seed)", *seed)
	ctx, cancel := context.WithCancel(t.Context())
	dice := rand.New(rand.NewPCG(*seed, 0))
	x := &trouble{lab: l, t: t, dice: dice, cancel: cancel, restartAt: drains/3 + dice.IntN(max(1, drains/3))}
	killer := rand.New(rand.NewPCG(*seed, 1))
	x.running.Go(func() { x.killAll(ctx, killer) })
	t.Cleanup(x.stop)
	return x
}

// stop returns when nothing is being killed or started any more.
func (x *trouble) stop() {
	x.cancel()
	x.running.Wait()
}

// during gets the number of the drain that begins.
func (x *trouble) during(drain int) {
	if drain != x.restartAt {
		return
	}
	wait := time.Duration(x.dice.Int64N(int64(3 * time.Second)))
	ctx := context.WithoutCancel(x.t.Context())
	x.running.Go(func() {
		<-time.After(wait)
		x.restarts++
		x.t.Logf("%s the apiserver is restarted, %d ms after the beginning of drain %d", now(), wait.Milliseconds(), drain)
		x.err = errors.Join(x.lab.Cluster().StopAPIServer(), x.lab.Cluster().StartAPIServer(ctx))
		x.t.Logf("%s the apiserver is back", now())
	})
}

func now() string { return time.Now().Format("15:04:05.000") }

func (x *trouble) killAll(ctx context.Context, dice *rand.Rand) {
	for wait := killFirst; ; wait = killLeast + time.Duration(dice.Int64N(int64(killMost-killLeast))) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		pod, err := x.lab.KillLeader(ctx)
		if err != nil {
			x.t.Logf("%s no manager was killed: %v", now(), err)
			continue
		}
		x.kills++
		x.t.Logf("%s the manager in %s, which led, was killed", now(), pod)
	}
}

// check fails the test when there was no trouble.
func (x *trouble) check(t *testing.T) {
	t.Helper()
	t.Logf("usher: %d managers were killed, the apiserver was restarted %d times", x.kills, x.restarts)
	if x.err != nil {
		t.Error(x.err)
	}
	if x.kills == 0 || x.restarts == 0 {
		t.Errorf("%d managers were killed and the apiserver restarted %d times, want both", x.kills, x.restarts)
	}
}
