package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// The values of --dry-run. Bare --dry-run and booleans mean what they mean to kubectl, which says that they are deprecated.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
	dryRunBare   = "unchanged"
)

func addDryRun(fs *pflag.FlagSet, value *string, usage string) {
	fs.StringVar(value, "dry-run", dryRunNone, usage)
	fs.Lookup("dry-run").NoOptDefVal = dryRunBare
}

// dryRunOf returns none, client or server, and warns where the value is spelt otherwise.
func dryRunOf(warnings io.Writer, value string) (string, error) {
	on, err := strconv.ParseBool(value)
	switch {
	case value == dryRunBare:
		fmt.Fprintln(warnings, "warning: --dry-run without a value is deprecated: write --dry-run=client")
		return dryRunClient, nil
	case err != nil:
		return value, oneOf("--dry-run", value, dryRunNone, dryRunClient, dryRunServer)
	}
	meant := dryRunNone
	if on {
		meant = dryRunClient
	}
	fmt.Fprintf(warnings, "warning: --dry-run=%s is deprecated: write --dry-run=%s\n", value, meant)
	return meant, nil
}

// askServer asks the server for every eviction of the drain without carrying it out.
func askServer(ctx context.Context, s *session, req drain.Request, v *printer) error {
	var pods []drain.PodStatus
	s.source.Read(func(view snapshot.View) {
		pods = slices.DeleteFunc(drain.Decide(view, req, drain.NewLedger()).Pods, func(p drain.PodStatus) bool {
			return view.Cluster.Loads(p.Pod) // it is never evicted
		})
	})
	writer := s.writer()
	writer.DryRun = true
	worst, outcome := exitDone, drain.Drained
	for _, p := range pods {
		if p.State == drain.Staying || p.State == drain.Terminating {
			continue
		}
		if ctx.Err() != nil {
			worst, outcome = exitInterrupted, drain.Interrupted
			break
		}
		answer := writer.Do(ctx, evictionOf(p.Pod, req))
		v.answer(s.clock.Now(), p.Pod, answer)
		worst = worse(worst, answer.Code)
		outcome = dryOutcome(worst)
	}
	v.say(v.commands.In(serverNote))
	now := s.clock.Now()
	v.idle(now, now.Sub(req.Started), outcome)
	return exitWith(worst)
}

// serverNote says what the answers of the server do not mean.
const serverNote = "The server was asked only whether each eviction is allowed now, by itself. Pods that share a budget may not all go at once; " +
	"where a budget allows none, a drain may start a replacement first (--surge), and waits for what others will allow. `usher plan` counts all of that together."

// dryOutcome is how a dry run with an exit code has ended.
func dryOutcome(code int) drain.Outcome {
	switch code {
	case exitDone:
		return drain.Drained
	case exitUsage:
		return drain.NoAccess
	}
	return drain.Blocked
}

func evictionOf(p *snapshot.Pod, req drain.Request) drain.Action {
	kind := drain.Evict
	if req.DisableEviction {
		kind = drain.Delete
	}
	return drain.Action{Kind: kind, Pod: p, Grace: req.Grace}
}

func worse(code int, answer answers.Code) int {
	switch {
	case answer == answers.Accepted || answer == answers.Gone:
		return code
	case answer == answers.Forbidden || code == exitUsage:
		return exitUsage
	}
	return exitBlocked
}

// answer prints what the server said to an eviction that was not carried out.
func (v *printer) answer(at time.Time, p *snapshot.Pod, a answers.Answer) {
	e := drain.Event{At: at, Kind: drain.EventAnswer, Node: p.Node, Pod: p.Key(), State: string(a.Code), Message: a.Message}
	if a.Code == answers.Accepted {
		e.Message = "would be evicted (server dry run)"
	}
	v.reporter().Event(e)
}
