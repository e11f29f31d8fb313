package agent

import (
	"context"
	"time"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/snapshot"
)

// Cluster carries out what was decided, each with one request or two, and with the pod's UID as precondition. It is
// act.Pressure but for tests.
type Cluster interface {
	Evict(ctx context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer
	Remove(ctx context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer
	Ask(ctx context.Context, pod *snapshot.Pod) answers.Answer
	Withdraw(ctx context.Context, pod *snapshot.Pod) answers.Answer
	BreakGlass(ctx context.Context, pod *snapshot.Pod, value string, force bool) answers.Answer
	Unbreak(ctx context.Context, pod *snapshot.Pod, value string) answers.Answer
	Disrupted(ctx context.Context, pod *snapshot.Pod, at time.Time, why string) answers.Answer
	Show(ctx context.Context, says act.NodeSays) answers.Answer
	Record(ctx context.Context, e act.Event) answers.Answer
}

var _ Cluster = (*act.Pressure)(nil)

// How long an answer is waited for. Below a hard threshold an apiserver that does not answer at once is as good as away;
// above it, admission may ask a system first.
const (
	hardPatience = 3 * time.Second
	softPatience = 30 * time.Second
)

func patienceFor(a *nodepressure.Action) time.Duration {
	if a.Threshold != nil && a.Threshold.Hard() {
		return hardPatience
	}
	return softPatience
}

// refOf is the part of a pod that a request needs.
func refOf(p *nodepressure.Pod) *snapshot.Pod {
	return &snapshot.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
