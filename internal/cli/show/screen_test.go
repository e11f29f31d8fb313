package show

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// glass is a terminal that understands what Screen sends: text, CR, LF, cursor up,
// erase to the end of the line and of the screen. It never breaks lines.
type glass struct {
	rows []string
	row  int
	col  int
}

func (g *glass) write(t interface{ Fatalf(string, ...any) }, s string) {
	for s != "" {
		switch {
		case s[0] == '\r':
			g.col, s = 0, s[1:]
		case s[0] == '\n':
			g.row, g.col, s = g.row+1, 0, s[1:]
		case strings.HasPrefix(s, "\x1b["):
			end := strings.IndexAny(s[2:], "ABCDEFGHJKm") + 2
			g.escape(t, s[2:end], s[end])
			s = s[end+1:]
		default:
			g.at(g.row)
			text := g.rows[g.row]
			text += strings.Repeat(" ", max(0, g.col-len(text)))
			g.rows[g.row] = text[:g.col] + s[:1] + text[min(len(text), g.col+1):]
			g.col, s = g.col+1, s[1:]
		}
	}
}

func (g *glass) at(row int) {
	for len(g.rows) <= row {
		g.rows = append(g.rows, "")
	}
}

func (g *glass) escape(t interface{ Fatalf(string, ...any) }, arg string, verb byte) {
	g.at(g.row)
	switch verb {
	case 'A':
		n, _ := strconv.Atoi(arg)
		if g.row -= n; g.row < 0 {
			t.Fatalf("the cursor left the screen")
		}
	case 'K':
		g.rows[g.row] = g.rows[g.row][:min(g.col, len(g.rows[g.row]))]
	case 'J':
		g.rows[g.row] = g.rows[g.row][:min(g.col, len(g.rows[g.row]))]
		g.rows = g.rows[:g.row+1]
	default:
		t.Fatalf("unexpected escape %q%c", arg, verb)
	}
}

func (g *glass) text() []string {
	return strings.Split(strings.TrimRight(strings.Join(g.rows, "\n"), "\n"), "\n")
}

func TestScreenShowsTheLastPictureWhateverCameBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		screen, g := NewScreen(&out), &glass{}
		var kept, block []string
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "above") {
				line := rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "line")
				screen.Above([]string{line}, 80)
				kept = append(kept, line)
			} else {
				block = rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}`), 0, 6).Draw(t, "block")
				screen.Draw(block, 80)
			}
			g.write(t, out.String())
			out.Reset()
			want := append(append([]string{}, kept...), block...)
			if len(want) == 0 {
				want = []string{""}
			}
			if diff := cmp.Diff(want, g.text()); diff != "" {
				t.Fatalf("on screen (-want +got):\n%s", diff)
			}
		}
	})
}

func TestScreenSendsOnlyTheLinesThatChanged(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out)
	lines := make([]string, 20)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i)
	}
	screen.Draw(lines, 80)
	out.Reset()
	lines[7] = "changed"
	screen.Draw(lines, 80)
	if got := out.String(); !strings.Contains(got, "changed") || strings.Contains(got, "line") {
		t.Errorf("sent %q", got)
	}
}

func TestScreenForgetsBrokenLinesOfANarrowerTerminal(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out)
	screen.Draw([]string{strings.Repeat("x", 80), "short"}, 80)
	out.Reset()
	screen.Draw([]string{"new"}, 40)
	if want := "\r\x1b[3A\x1b[J"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("sent %q, want it to begin with %q: the long line takes two rows now", out.String(), want)
	}
}
