package runner_test

import (
	"context"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// surged is a cluster in which a killed drain has left a Deployment scaled from 1 to 2.
func surged() *fake {
	f := newFake()
	f.cluster.SetWorkload(&snapshot.Workload{
		Kind: "Deployment", Namespace: "default", Name: "web", UID: "web", ResourceVersion: "0", Replicas: 2, Settled: true,
		Surge: &snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: "killed"}, Was: 1, To: 2},
	})
	return f
}

func TestRevert(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := surged()
		f.after = func(ctx context.Context, _ drain.Action) { wait(ctx, time.Second) }
		d := f.drainer().Revert(t.Context())
		if !d.Settled || len(d.Notes) > 0 {
			t.Errorf("settled %v, notes %v", d.Settled, d.Notes)
		}
		if w := f.cluster.Workload("web"); w.Replicas != 1 || w.Surge != nil {
			t.Errorf("%d replicas, record %v", w.Replicas, w.Surge)
		}
		f.wrote(t, "scale")
	})
}

func TestRevertThatIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := surged()
		f.refuse = func(drain.Action) *answers.Answer { return &answers.Answer{Code: answers.Forbidden, Message: "no"} }
		d := f.drainer().Revert(t.Context())
		if !d.Settled || len(d.Notes) != 1 {
			t.Errorf("settled %v, notes %v", d.Settled, d.Notes)
		}
		f.wrote(t, "scale")
	})
}

func TestRevertEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := surged()
		f.before = func(ctx context.Context, _ drain.Action) { <-ctx.Done() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if d := f.drainer().Revert(ctx); d.Settled {
			t.Error("settled without an answer")
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestRevertEndsWithoutAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := surged()
		f.before = func(ctx context.Context, _ drain.Action) { <-ctx.Done() }
		begin := time.Now()
		if d := f.drainer().Revert(t.Context()); d.Settled {
			t.Error("settled without an answer")
		}
		if took := time.Since(begin); took > 3*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}
