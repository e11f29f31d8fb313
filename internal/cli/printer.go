package cli

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

// printer writes the output of a drain: to a terminal, to a pipe or to a program. A reader
// that goes away silences it and does not stop the drain.
type printer struct {
	out  *show.Quiet
	err  *show.Quiet
	term terminal
	json *show.JSON // nil unless -o json, or yaml
	yaml bool       // of a page: its JSON as YAML

	commands show.Commands // how to type those that advice names

	// live is nil unless a table is being drawn. Signals arrive in a goroutine of their own, at any time.
	live atomic.Pointer[show.Live]
}

func newVoice(streams genericiooptions.IOStreams, output string, commands show.Commands) *printer {
	v := &printer{commands: commands, out: &show.Quiet{Out: streams.Out}, err: &show.Quiet{Out: streams.ErrOut}, term: terminalOf(streams.Out)}
	if v.yaml = output == "yaml"; v.yaml || output == "json" {
		v.json, v.term = show.NewJSON(v.out), terminal{}
	}
	return v
}

func (v *printer) paint() show.Paint { return show.Paint{On: v.term.colour} }

// reporter takes events as long as no table is drawn.
func (v *printer) reporter() runner.Reporter {
	if v.json != nil {
		return advised{v.json, v.commands}
	}
	return advised{show.NewPlain(v.out), v.commands}
}

// know gives the JSON output the UIDs of pods that events only name.
func (v *printer) know(pods []*snapshot.Pod) {
	if v.json != nil {
		v.json.Know(pods)
	}
}

// begin starts the table where there is a terminal for it, and returns what takes the
// frames and events of the drain. Now is the clock by which the request was started.
func (v *printer) begin(req drain.Request, now func() time.Time) runner.Reporter {
	if !v.term.live {
		return v.reporter()
	}
	start := show.Picture{Started: req.Started, Deadline: req.Deadline}
	live := show.NewLive(v.out, start, v.paint(), v.term.size, now)
	v.live.Store(live)
	return advised{live, v.commands}
}

// end leaves the last table where it is.
func (v *printer) end() {
	if live := v.live.Swap(nil); live != nil {
		live.Close()
	}
}

// say prints sentences for people; programs get them as notes.
func (v *printer) say(lines ...string) {
	for _, line := range lines {
		if v.json != nil {
			v.json.Event(drain.Event{At: time.Now(), Kind: drain.EventNote, Message: strings.TrimSpace(line)})
			continue
		}
		fmt.Fprintln(v.out, line)
	}
}

// urgent confirms that a key was pressed.
func (v *printer) urgent(text string) {
	if live := v.live.Load(); live != nil {
		live.Banner(text)
		return
	}
	fmt.Fprintln(v.err, text)
}

// summary prints how the drain ended; it is the last thing printed.
func (v *printer) summary(s show.Summary) {
	s.Blockers, s.Commands = v.commands.Blockers(s.Blockers), v.commands
	if v.json != nil {
		v.json.End(s.Now, s)
		return
	}
	if !v.term.live {
		show.NewPlain(v.out).End(s.Now, s.Outcome)
	}
	v.say(s.Lines(v.term.textWidth(), v.paint())...)
}

// idle prints for programs how a drain ended that changed nothing; it is the last line.
func (v *printer) idle(now time.Time, took time.Duration, outcome drain.Outcome, left ...string) {
	if v.json != nil {
		v.json.End(now, show.Summary{Outcome: outcome, Now: now, Took: took, Surged: v.commands.InAll(left)})
	}
}

// blockers prints blockers with their remedies.
func (v *printer) blockers(found []drain.Blocker, now time.Time) {
	v.say(show.BlockerLines(found, now, v.term.textWidth(), v.paint())...)
}

// deadlinePhases says beforehand what a deadline will do and when.
func (v *printer) deadlinePhases(steps []drain.DeadlinePhase, start time.Time) {
	for _, step := range steps {
		if v.json != nil {
			v.json.Event(drain.Event{At: step.At, Kind: "ladder", Message: step.Text})
			continue
		}
		v.say(show.Item("after "+show.Span(step.At.Sub(start)), step.Text, v.term.textWidth())...)
	}
}

// objections prints what keeps a drain from starting.
func (v *printer) objections(found []drain.Blocker, now time.Time, accept string) {
	found = v.commands.Blockers(found)
	if v.json != nil {
		for i := range found {
			v.json.Event(drain.Event{At: now, Kind: drain.EventBlocked, Blocker: &found[i]})
		}
		v.json.End(now, show.Summary{Outcome: drain.Blocked, Now: now, Blockers: found, GoOn: accept})
		return
	}
	v.say(fmt.Sprintf("The drain was not started and nothing was changed (%s):", show.Count(len(found), "objection")))
	v.say("", show.AcceptTitle+":", "  "+accept, "", "What objects:")
	v.blockers(found, now)
}

// page prints something that is not a stream of events: one object as JSON or YAML, or lines.
func (v *printer) page(object func() ([]byte, error), lines func(width int, paint show.Paint) []string) error {
	if v.json == nil {
		v.say(lines(v.term.textWidth(), v.paint())...)
		return v.out.Err()
	}
	text, err := object()
	if err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	if v.yaml {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("printing YAML: %w", err)
		}
	}
	fmt.Fprintln(v.out, strings.TrimSuffix(string(text), "\n"))
	return v.out.Err()
}
