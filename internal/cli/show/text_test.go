package show

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
)

func TestCleanTakesOutWhatMovesTheCursor(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain", "plain"},
		{"two\nlines\tand\r\nmore", "two lines and more"},
		{"\x1b[2Jwiped \x1b]0;title\x07clean", "wiped clean"},
		{"bell\aring", "bell ring"},
		{"turned \u202egnp.exe", "turned gnp.exe"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := clean(tt.in); got != tt.want {
			t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPadIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := clean(rapid.String().Draw(t, "text")), rapid.IntRange(1, 60).Draw(t, "width")
		if got := ansi.StringWidth(pad(text, width)); got != width {
			t.Fatalf("pad(%q, %d) is %d cells wide", text, width, got)
		}
	})
}

// TestPadAfterALetterThatJoins: this one shares its cell with the letter after it, or with a space.
func TestPadAfterALetterThatJoins(t *testing.T) {
	if got := ansi.StringWidth(pad("a\u0d4e", 5)); got != 5 {
		t.Errorf("%d cells wide, want 5", got)
	}
}

// TestFitWithAVariationSelector: one after an ASCII letter gives it two cells.
func TestFitWithAVariationSelector(t *testing.T) {
	for width, want := range map[int]string{1: "…", 2: "…", 3: "A\ufe0fA", 4: "A\ufe0fA"} {
		if diff := cmp.Diff(want, fit("A\ufe0fA", width)); diff != "" {
			t.Errorf("%d cells: %s", width, diff)
		}
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		in   time.Duration
		want string
	}{
		{0, "0s"},
		{-time.Second, "0s"},
		{400 * time.Millisecond, "0s"},
		{4 * time.Second, "4s"},
		{time.Minute, "1m"},
		{130 * time.Second, "2m10s"},
		{3*time.Hour + 5*time.Minute + 4*time.Second, "3h5m"},
		{52 * time.Hour, "2d4h"},
	}
	for _, tt := range tests {
		if got := Span(tt.in); got != tt.want {
			t.Errorf("Span(%s) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestWrapKeepsNamesWhole(t *testing.T) {
	got := wrap("shop/a-name-that-is-long, shop/b then words", 12)
	want := []string{"shop/a-name-that-is-long,", "shop/b then", "words"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is pasted is a whole command: half of one can do something else.
func TestWrapKeepsCommandsWhole(t *testing.T) {
	lab := Commands{Program: "kubectl usher", Flags: []string{"--context=lab", "--as='eva o'\\''b'"}}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"it fits", "wait, or usher uncordon a", []string{"wait, or usher uncordon a"}},
		{"alone", "kubectl edit pdb -n a-long-namespace a-long-name", []string{"kubectl edit pdb -n a-long-namespace a-long-name"}},
		{"in the middle", "move it, kubectl edit pdb -n a-long-namespace a-long-name, or wait for it", []string{"move it,", "kubectl edit pdb -n a-long-namespace a-long-name", "or wait for it"}},
		{"it fits on a line", "let another node run it, or kubectl edit pdb -n a b; or wait", []string{"let another node run it, or", "kubectl edit pdb -n a b", "or wait"}},
		{"two", "usher drain a starts a replacement first (--surge=auto); or kubectl scale -n shop deployment/web --replicas=2", []string{
			"usher drain a starts a", "replacement first", "(--surge=auto); or", "kubectl scale -n shop deployment/web --replicas=2",
		}},
		{"in brackets", "let another run it (kubectl describe pod -n shop web-1 shows its node selector)", []string{"let another run it", "(kubectl describe pod -n shop web-1", "shows its node selector)"}},
		{"in quotes", "wait, as long as `usher evictions -A` lists it", []string{"wait, as long as", "`usher evictions -A`", "lists it"}},
		{"with a quoted value", `kubectl patch hpa -n a b --type=merge -p '{"spec":{"maxReplicas": 3, "minReplicas": 2}}' so that it can be surged`, []string{
			`kubectl patch hpa -n a b --type=merge -p '{"spec":{"maxReplicas": 3, "minReplicas": 2}}'`, "so that it can be surged",
		}},
		{"with flags that lead to the cluster", lab.In("wait, or usher uncordon a"), []string{"wait, or", `kubectl usher --context=lab --as='eva o'\''b' uncordon a`}},
		{"names that begin like prose", "let another node run it, or kubectl edit pdb -n and-prod so-web; or wait", []string{
			"let another node run it, or", "kubectl edit pdb -n and-prod so-web", "or wait",
		}},
		{"names that are words", "kubectl edit pdb -n or once-or-twice and, which never allows it, or usher uncordon lists", []string{
			"kubectl edit pdb -n or once-or-twice and", "which never allows it, or", "usher uncordon lists",
		}},
		{"names of domains", "to give it back: usher uncordon or.example.com once.example.com", []string{
			"to give it back:", "usher uncordon or.example.com once.example.com",
		}},
		{"names like prose after flags", lab.In("wait, or usher uncordon so-1 or-2"), []string{
			"wait, or", `kubectl usher --context=lab --as='eva o'\''b' uncordon so-1 or-2`,
		}},
		{"prose that lets", "once it is back, kubectl taint node a node.kubernetes.io/out-of-service- lets it run pods again", []string{
			"once it is back,", "kubectl taint node a node.kubernetes.io/out-of-service-", "lets it run pods again",
		}},
		{"prose that asks", "no system was asked; usher why POD asks its own", []string{"no system was asked;", "usher why POD", "asks its own"}},
		{"prose", "the manager of usher gets what it is asked for by others", []string{"the manager of usher gets what", "it is asked for by others"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, wrap(tt.text, 30)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandsInRemediesAreNotBroken(t *testing.T) {
	const edit = "kubectl edit pdb -n a-long-namespace a-long-name-of-a-budget-that-many-share"
	blocked := drain.Blocker{Reason: drain.BudgetNeverAllows, Node: "a", Message: "no", Remedy: "let another node run it, or " + edit, Dead: true}
	sum := Summary{Outcome: drain.Blocked, Nodes: []NodeEnd{{Name: "a-long-name-of-a-node-1", Free: true}, {Name: "a-long-name-of-a-node-2", Free: true}, {Name: "a-long-name-of-a-node-3", Free: true}}, Blockers: []drain.Blocker{blocked}}
	page := Plan{}
	page.Notes = []string{"to know, and to mend: " + edit}
	for _, width := range []int{40, 60, 80} {
		for name, lines := range map[string][]string{"blockers": BlockerLines(sum.Blockers, noon, width, Paint{}), "summary": sum.Lines(width, Paint{}), "notes": page.noteLines(width)} {
			text := strings.Join(lines, "\n")
			if !strings.Contains(text, edit) {
				t.Errorf("%s at %d columns break the command:\n%s", name, width, text)
			}
			if name == "summary" && !strings.Contains(text, "usher uncordon a-long-name-of-a-node-1 a-long-name-of-a-node-2 a-long-name-of-a-node-3") {
				t.Errorf("the way to undo is broken at %d columns:\n%s", width, text)
			}
		}
	}
}
