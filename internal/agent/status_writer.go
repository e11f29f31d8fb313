package agent

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/nodepressure"
)

// showAgain is how long is waited after the node's conditions could not be written.
const showAgain = 2 * time.Second

// nodeStatusWriter makes the node's conditions and taints of the agent what they are to be, for as long as it takes.
type nodeStatusWriter struct {
	cluster Cluster
	log     *slog.Logger
	says    chan act.NodeSays // has room for one: the latest
}

func newShower(c Cluster, log *slog.Logger) *nodeStatusWriter {
	return &nodeStatusWriter{cluster: c, log: log, says: make(chan act.NodeSays, 1)}
}

// show replaces what is not shown yet.
func (s *nodeStatusWriter) show(says act.NodeSays) {
	for {
		select {
		case s.says <- says:
			return
		default:
		}
		select {
		case <-s.says:
		default:
		}
	}
}

func (s *nodeStatusWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case says := <-s.says:
			s.until(ctx, says)
		}
	}
}

// until tries until it succeeds or there is something newer to show.
func (s *nodeStatusWriter) until(ctx context.Context, says act.NodeSays) {
	failed := ""
	for {
		answer := s.cluster.Show(ctx, says)
		if answer.Code == answers.Accepted {
			return
		}
		if failed != string(answer.Code) {
			failed = string(answer.Code)
			s.log.Warn("the node's conditions could not be written, and are tried again", "answer", failed, "message", answer.Message)
		}
		again := time.NewTimer(showAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case says = <-s.says:
			again.Stop()
		case <-again.C:
		}
	}
}

// announce shows conditions and says on the node that they have changed.
func (a *agent) announce(ctx context.Context, say *nodepressure.Action) {
	now := time.Now()
	a.statusWriter.show(act.NodeSays{At: now, True: say.Conditions})
	a.metrics.conditions(say.Conditions)
	before := a.announced
	a.announced = len(say.Conditions) > 0
	if !before && !a.announced {
		return // at start there is nothing to report
	}
	e := act.Event{At: now, Reason: "UnderPressure", Action: "Relieve", Note: say.Message}
	if !a.announced {
		e.Reason, e.Normal = "NoPressure", true
	}
	a.Log.Info(say.Message, "conditions", names(say.Conditions))
	a.begun.Go(func() { a.Cluster.Record(ctx, e) })
}

func names(conditions []corev1.NodeConditionType) []string {
	all := make([]string, 0, len(conditions))
	for _, c := range conditions {
		all = append(all, string(act.AgentCondition(c)))
	}
	return all
}
