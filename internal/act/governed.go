package act

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
)

// responderManager owns what Usher says as a responder in the status of evictions.
const responderManager = "usher-responder"

// Governed carries out what was decided about governed pods. It may be used by several goroutines at once.
type Governed struct {
	Client client.Client
	// Writer sends evictions.
	Writer   *Writer
	Policies *policycache.Cache
	Observer *policycache.Observer
	// Lifecycle is the group that serves eviction requests; empty: none does.
	Lifecycle schema.GroupVersion
	Now       func() time.Time
	// Answered is called with a policy whose system has answered Prepare or Undo. With it those calls are made beside the worker
	// that wants them, and are Accepted at once; nil: they are made in line.
	Answered func(*v1alpha1.EvictionPolicy)

	mu     sync.Mutex
	shares *share.Shares
	// calling are the calls that systems have not answered.
	calling map[callKey]eviction.Preparation
	replies map[replyKey]said

	reports reports
}

// Do carries an action out and returns what was answered: by the cluster, or by the system to Prepare and Undo. A system
// that refuses for good has Rejected it, one that could not be asked is Unavailable.
func (g *Governed) Do(ctx context.Context, action eviction.Action) answers.Answer {
	answer := g.do(ctx, action)
	actions.WithLabelValues(string(action.Kind), string(answer.Code)).Inc()
	return answer
}

func (g *Governed) do(ctx context.Context, action eviction.Action) answers.Answer {
	ctx, cancel := context.WithTimeout(ctx, evictionPatience)
	defer cancel()
	if why := g.impossible(action); why != "" {
		return rejected(why)
	}
	switch action.Kind {
	case eviction.Permit:
		return permitAnswer(g.permit(ctx, action))
	case eviction.Begin, eviction.Empty, eviction.Settle:
		return answers.Of(g.writeStatus(ctx, action))
	case eviction.Hold:
		return g.hold(ctx, action)
	case eviction.Prepare:
		return g.prepare(ctx, action)
	case eviction.Undo:
		return g.undo(ctx, action)
	case eviction.Evict:
		return g.Writer.Evict(ctx, action.Pod, action.UID, action.Grace)
	case eviction.Request:
		return answers.Of(g.request(ctx, action))
	case eviction.Withdraw:
		return answers.Of(g.withdraw(ctx, action))
	case eviction.Respond:
		return g.respond(ctx, action)
	}
	return rejected(fmt.Sprintf("acting: unknown action %q", action.Kind))
}

// DoAll carries actions out in their order. It stops at the first that is refused, unless that was made as BestEffort,
// and returns it with its answer; Accepted if none was, with the shortest RetryAfter that one had, and retryBestEffort where one was. A permit that meets a conflict, or no
// policy, stops it in any case: there is another policy than the one by which the rest was decided, or none.
func (g *Governed) DoAll(ctx context.Context, actions []eviction.Action) (eviction.Action, answers.Answer) {
	all := answers.Answer{Code: answers.Accepted}
	for _, action := range actions {
		answer := g.Do(ctx, action)
		outdated := action.Kind == eviction.Permit && (answer.Code == answers.Conflict || answer.Code == answers.Gone)
		if outdated || answer.Code != answers.Accepted && !action.BestEffort {
			return action, answer
		}
		if answer.Code != answers.Accepted {
			answer.RetryAfter = max(answer.RetryAfter, retryBestEffort)
		}
		all.RetryAfter = sooner(all.RetryAfter, answer.RetryAfter)
	}
	return eviction.Action{}, all
}

// retryBestEffort is when what was made as best effort, and was refused or got lost, is decided upon and tried again.
const retryBestEffort = 10 * time.Second

// impossible says what an action lacks: to the apiserver an empty resource version or UID is none at all.
func (g *Governed) impossible(action eviction.Action) string {
	switch action.Kind {
	case eviction.Permit, eviction.Begin, eviction.Empty, eviction.Settle:
		if action.Version == "" || action.Status == nil {
			return fmt.Sprintf("acting: %s without a resource version or a status", action.Kind)
		}
	case eviction.Hold:
		if action.Version == "" {
			return "acting: hold without a resource version"
		}
	case eviction.Request, eviction.Withdraw, eviction.Respond:
		if g.Lifecycle.Empty() {
			return notServed
		}
		if action.UID == "" {
			return fmt.Sprintf("acting: %s without the UID of a pod", action.Kind)
		}
	case eviction.Prepare, eviction.Undo, eviction.Evict:
	}
	return ""
}

func rejected(message string) answers.Answer {
	return answers.Answer{Code: answers.Rejected, Message: message}
}

var actions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "usher_actions_total",
	Help: "Actions for governed pods, by kind and by how they were answered.",
}, []string{"kind", "code"})

// Collectors are the package's metrics.
func Collectors() []prometheus.Collector { return []prometheus.Collector{actions} }
