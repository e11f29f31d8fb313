package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func blockedEvent(message string, dead bool) drain.Event {
	b := held("web-1", drain.BudgetExhausted, message, dead).Blockers[0]
	return drain.Event{At: noon, Kind: drain.EventBlocked, Pod: b.Pod, Node: b.Node, Blocker: &b}
}

func TestEventLine(t *testing.T) {
	cleared := blockedEvent("x", false)
	cleared.Kind = drain.EventCleared
	tests := []struct {
		name string
		e    drain.Event
		want string
	}{
		{"node", drain.Event{At: noon, Kind: drain.EventNode, Node: "worker-1", State: "draining"}, "2026-01-02T12:00:00Z node worker-1 draining"},
		{"pod", drain.Event{At: noon, Kind: drain.EventPod, Node: "worker-1", Pod: pod("web-1").Key(), State: "gone"}, "2026-01-02T12:00:00Z pod shop/web-1 gone"},
		{"note", drain.Event{At: noon, Kind: drain.EventNote, Message: "no\x1b[31m colours"}, "2026-01-02T12:00:00Z note no colours"},
		{"end", drain.Event{At: noon, Kind: drain.EventEnd, Outcome: drain.Drained}, "2026-01-02T12:00:00Z end drained"},
		{"blocked", blockedEvent("needs 9, has 9", false), "2026-01-02T12:00:00Z blocked shop/web-1 BudgetExhausted: needs 9, has 9; remedy: do something about BudgetExhausted"},
		{"dead", blockedEvent("never", true), "2026-01-02T12:00:00Z blocked shop/web-1 BudgetExhausted (cannot clear by itself): never; remedy: do something about BudgetExhausted"},
		{"cleared", cleared, "2026-01-02T12:00:00Z cleared shop/web-1 BudgetExhausted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, eventLine(tt.e)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlainSaysABlockerOnce(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out)
	report := func(e drain.Event) {
		p.Event(e)
		p.Frame(noon, drain.Decision{})
	}
	report(blockedEvent("has 8", false))
	report(blockedEvent("has 7", false))
	report(blockedEvent("never", true))
	cleared := blockedEvent("never", true)
	cleared.Kind = drain.EventCleared
	report(cleared)
	report(blockedEvent("has 6", false))
	want := []string{"has 8", "never", "has 6"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want 3: appeared, became dead, appeared again\n%s", len(lines), out.String())
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], want[i])
		}
	}
}

// In a log, what holds a pod now is said where it is another thing than before, and causes that take turns are said once each.
func TestPlainSaysANewCause(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out)
	report := func(message string) {
		p.Event(blockedEvent(message, false))
		p.Frame(noon, drain.Decision{})
	}
	for range 3 {
		report("budget a needs 3 healthy (has 3 for 2m10s)")
		report("budget b needs 2 healthy (has 2 for 3s)")
	}
	for i := range 100 {
		report("waits for pod " + strings.Repeat("x", i+1))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != mostCauses || !strings.Contains(lines[0], "budget a") || !strings.Contains(lines[1], "budget b") {
		t.Errorf("%d lines, want %d, each of another cause:\n%s", len(lines), mostCauses, out.String())
	}
}

func TestPlainPutsPodsOfOneCauseOnOneLine(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out)
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		b := held(name, drain.BudgetExhausted, "budget web is used up", false).Blockers[0]
		p.Event(drain.Event{At: noon, Kind: drain.EventPod, Pod: b.Pod, State: "waiting"})
		p.Event(drain.Event{At: noon, Kind: drain.EventBlocked, Pod: b.Pod, Node: b.Node, Blocker: &b})
	}
	p.Frame(noon, drain.Decision{})
	want := "2026-01-02T12:00:00Z blocked 3 pods BudgetExhausted: budget web is used up; remedy: do something about BudgetExhausted: shop/web-1 shop/web-2 shop/web-3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	j := NewJSON(&out)
	j.Know([]*snapshot.Pod{pod("web-1")})
	j.Event(blockedEvent("needs <9> & has 9\nnow", false))
	j.Event(drain.Event{At: noon, Kind: drain.EventNode, Node: "worker-1", State: "drained"})
	j.Event(drain.Event{At: noon, Kind: drain.EventEnd, Outcome: drain.Drained})
	j.End(noon, Summary{Outcome: drain.Drained, Took: 90 * time.Second, Gone: 3})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"type":"blocked","time":"2026-01-02T12:00:00Z","node":"worker-1","pod":{"namespace":"shop","name":"web-1","uid":"uid-web-1"},"blocker":{"reason":"BudgetExhausted","namespace":"shop","pod":"web-1","node":"worker-1","message":"needs <9> & has 9\nnow","remedy":"do something about BudgetExhausted","since":"2026-01-02T11:57:00Z","dead":false}}`,
		`{"type":"node","time":"2026-01-02T12:00:00Z","node":"worker-1","state":"drained"}`,
		`{"type":"end","time":"2026-01-02T12:00:00Z","outcome":"drained","summary":{"seconds":90,"nodes":[],"gone":3,"left":0,"staying":0,"emptied":0,"notReplaced":[],"ended":[],"leftPods":[],"surged":[],"blockers":[]}}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

type broken struct{ tries int }

func (b *broken) Write([]byte) (int, error) {
	b.tries++
	return 0, errors.New("broken pipe")
}

func TestQuietOutlivesItsReader(t *testing.T) {
	pipe := &broken{}
	q := &Quiet{Out: pipe}
	p := NewPlain(q)
	for range 3 {
		p.Event(drain.Event{At: noon, Kind: drain.EventNote, Message: "x"})
	}
	if n, err := q.Write([]byte("abc")); n != 3 || err != nil || pipe.tries != 1 {
		t.Errorf("wrote %d, %v after %d tries; want 3, nil, 1", n, err, pipe.tries)
	}
}
