package notice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// mostTries is how often alerts are decided upon where maintenances change meanwhile.
const mostTries = 4

// lines are what is said of the alerts of a request.
type lines struct {
	all     []string
	refused bool // one can never be stored
	waits   bool // one may be stored later
}

func (l *lines) add(format string, args ...any) { l.all = append(l.all, fmt.Sprintf(format, args...)) }

// reply has the status that makes the sender try again where that helps.
func (l *lines) reply() *reply {
	status := http.StatusOK
	switch {
	case l.waits:
		status = http.StatusServiceUnavailable
	case l.refused:
		status = http.StatusUnprocessableEntity
	}
	return &reply{status, strings.Join(l.all, "\n")}
}

// take decides upon alerts and stores what they lead to. What is resolved is looked for past the cache: it may have been made a moment ago.
func (r *Receiver) take(ctx context.Context, alerts *notice.Alerts) *reply {
	config, err := r.configuration(ctx)
	if err != nil {
		return later(text.Line(err.Error()))
	}
	now := r.Now()
	reader := r.client
	if slices.ContainsFunc(alerts.All, func(a notice.Alert) bool { return a.Resolved(now) }) {
		reader = r.live
	}
	for try := 1; ; try++ {
		said, raced, err := r.try(ctx, reader, &config, alerts)
		switch {
		case err != nil:
			return later(text.Line(err.Error()))
		case !raced:
			return said.reply()
		case try == mostTries:
			said.waits = true
			return said.reply()
		}
		reader = r.live
	}
}

// try decides once. Raced: a maintenance had changed, so that it is to be decided anew.
func (r *Receiver) try(ctx context.Context, reader client.Reader, config *configuration, alerts *notice.Alerts) (said *lines, raced bool, err error) {
	in := notice.Input{Now: r.Now(), Config: config.Config}
	if in.Nodes, in.Maintenances, err = r.facts(ctx, reader); err != nil {
		return nil, false, err
	}
	said = &lines{}
	if alerts.Truncated > 0 {
		said.add("%s left out: raise max_alerts of the receiver, or group alerts by more labels", text.Count(alerts.Truncated, "alert"))
	}
	for i := range alerts.All {
		in.Notices = append(in.Notices, r.noticesOf(ctx, config, &alerts.All[i], &in, said)...)
	}
	decision := notice.Decide(in)
	failed := r.carryOut(ctx, &decision)
	for i := range decision.Outcomes {
		o := &decision.Outcomes[i]
		answer, not := failed[o.Name()]
		raced = raced || not && (answer.Code == answers.Conflict || answer.Code == answers.Gone)
		said.outcome(o, answer)
	}
	return said, raced, nil
}

// noticesOf returns what an alert reports, and says why it reports nothing.
func (r *Receiver) noticesOf(ctx context.Context, config *configuration, a *notice.Alert, in *notice.Input, said *lines) []notice.Reported {
	name := text.Name(a.Labels["alertname"])
	if a.Resolved(in.Now) {
		found := notice.ByResolved(a, in.Maintenances)
		if len(found) == 0 {
			said.add("alert %s is resolved, and nothing is done for it", name)
		}
		return found
	}
	if config.wrong != nil {
		said.waits = true
		said.add("alert %s leads to nothing: ConfigMap %s is not usable: %s", name, notice.ConfigName, text.Line(config.wrong.Error()))
		return nil
	}
	found, err := config.ByAlert(a, in.Nodes)
	if r.findNode(ctx, err, in) {
		found, err = config.ByAlert(a, in.Nodes)
	}
	switch {
	case err != nil:
		said.refused = true
		said.add("%s", err)
	case found == nil:
		said.add("no rule matches alert %s", name)
	default:
		return []notice.Reported{*found}
	}
	return nil
}

// findNode looks past the cache for a node that an alert names and the cache does not show: it may have joined a moment ago.
func (r *Receiver) findNode(ctx context.Context, err error, in *notice.Input) bool {
	var unknown *notice.UnknownNodeError
	if !errors.As(err, &unknown) {
		return false
	}
	var node corev1.Node
	if err := r.live.Get(ctx, client.ObjectKey{Name: unknown.Node}, &node); err != nil {
		return false
	}
	in.Nodes = append(in.Nodes, observe.NoticeFacts(&node))
	return true
}

// outcome says what a notice came to, and whether that is stored.
func (l *lines) outcome(o *notice.Outcome, failed answers.Answer) {
	switch {
	case failed.Code == answers.Denied || failed.Code == answers.Forbidden:
		l.waits = true
		l.add("%s of node %s is not stored, since the manager may not do that: %s; where its rights are missing: usher install --notices", o.Kind, o.Node, failed.Message)
	case failed.Code != "":
		l.waits = true
		l.add("%s of node %s is not stored: %s: %s", o.Kind, o.Node, failed.Code, failed.Message)
	case o.Result == notice.Waits:
		l.waits = true
		l.add("%s", o.Message)
	case o.Result == notice.NoNode:
		l.refused = true
		l.add("%s", o.Message)
	default:
		l.add("%s", o.Message)
	}
}
