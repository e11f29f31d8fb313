package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"usher.sh/usher/lab/testlab"
)

// event is a line of usher's JSON output. It is written down a second time here because it is a contract with
// programs that cannot see usher's own types.
type event struct {
	Type, Node, State, Message, Outcome string
	Time                                time.Time

	Pod     *podRef
	Blocker *blocker
	Summary *summary
}

type podRef struct{ Namespace, Name, UID string }

type blocker struct {
	Reason, Namespace, Pod, Node, Message, Remedy string
	Dead                                          bool
}

type summary struct {
	Nodes []struct {
		Name, State               string
		Left                      int
		Cordoned, CordonedByUsher bool
	}
	Gone, Left, Staying   int
	NotReplaced, LeftPods []struct{ Namespace, Name, State, Note, Replacement string }
	Surged                []string
	Blockers              []blocker
	GoOn                  string
}

// process is a usher that runs with -o json, and what it has said so far.
type process struct {
	cmd    *exec.Cmd
	began  time.Time
	errOut bytes.Buffer

	mu     sync.Mutex
	lines  []string
	events []event
	broken error         // a line that is no event
	more   chan struct{} // closed and renewed with every line
	ended  chan struct{} // closed when it has ended
}

// start starts `usher <args> -o json` with the administrator's access.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startIn(t, testlab.Get(t).Kubeconfig(), args...)
}

func startIn(t *testing.T, kubeconfig string, args ...string) *process {
	t.Helper()
	p := &process{more: make(chan struct{}), ended: make(chan struct{}), began: time.Now()}
	p.cmd = exec.CommandContext(t.Context(), usherBinary(t), append(args, "-o", "json")...)
	p.cmd.Env = environment(kubeconfig)
	p.cmd.Stderr = &p.errOut
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatalf("starting usher: %v", err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.enter(lines.Text())
	}
	_ = p.cmd.Wait() // its exit code is looked at in wait
	close(p.ended)
}

func (p *process) enter(line string) {
	var e event
	err := json.Unmarshal([]byte(line), &e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.broken == nil {
		p.broken = fmt.Errorf("%q is no event: %w", line, err)
	}
	p.lines = append(p.lines, line)
	p.events = append(p.events, e)
	close(p.more)
	p.more = make(chan struct{})
}

// find returns the first event that matches; a channel that closes with the next one if there is none.
func (p *process) find(match func(event) bool) (event, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.events, match); i >= 0 {
		return p.events[i], true, nil
	}
	return event{}, false, p.more
}

// await returns the first event that matches, also one that was there before.
func (p *process) await(t *testing.T, what string, match func(event) bool) event {
	t.Helper()
	late := time.After(patience)
	for ended := false; ; {
		e, ok, more := p.find(match)
		switch {
		case ok:
			return e
		case ended:
			t.Fatalf("usher ended without %s:\n%s", what, p.output())
		}
		select {
		case <-more:
		case <-p.ended:
			ended = true
		case <-late:
			t.Fatalf("no %s:\n%s", what, p.output())
		}
	}
}

// blocked waits for a blocker with this reason.
func (p *process) blocked(t *testing.T, reason string) blocker {
	t.Helper()
	e := p.await(t, "blocker "+reason, func(e event) bool {
		return e.Type == "blocked" && e.Blocker != nil && e.Blocker.Reason == reason
	})
	return *e.Blocker
}

// reached waits until a pod is in this state.
func (p *process) reached(t *testing.T, pod, state string) event {
	t.Helper()
	return p.await(t, pod+" "+state, func(e event) bool {
		return e.Type == "pod" && e.Pod != nil && e.Pod.Name == pod && e.State == state
	})
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("sending %s: %v", s, err)
	}
}

// wait returns when usher has ended.
func (p *process) wait(t *testing.T) finished {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("usher did not end:\n%s", p.output())
	}
	if p.broken != nil {
		t.Error(p.broken)
	}
	f := finished{Code: p.cmd.ProcessState.ExitCode(), Events: p.events, text: p.output()}
	if n := len(p.events); n > 0 && p.events[n-1].Summary != nil {
		f.End = *p.events[n-1].Summary
		f.Outcome = p.events[n-1].Outcome
	}
	return f
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	for _, line := range p.lines {
		text += line + "\n"
	}
	select {
	case <-p.ended:
		return text + p.errOut.String()
	default:
		return text
	}
}

// finished is a usher that has ended. End and Outcome are its last line.
type finished struct {
	Code    int
	Events  []event
	Outcome string
	End     summary
	text    string
}

// want fails the test with all that was printed if usher ended otherwise.
func (f finished) want(t *testing.T, code int, outcome string) finished {
	t.Helper()
	if f.Code != code || f.Outcome != outcome {
		t.Fatalf("exit code %d with outcome %q, want %d with %q\n%s", f.Code, f.Outcome, code, outcome, f.text)
	}
	return f
}

// blockers returns those of the summary with this reason.
func (f finished) blockers(reason string) []blocker {
	return slices.DeleteFunc(slices.Clone(f.End.Blockers), func(b blocker) bool { return b.Reason != reason })
}

// drain runs `usher drain` to its end.
func drainNode(t *testing.T, args ...string) finished {
	t.Helper()
	return start(t, append([]string{"drain"}, args...)...).wait(t)
}
