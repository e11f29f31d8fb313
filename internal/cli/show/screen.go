package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Screen redraws a block of lines in place, writing only the lines that changed. It
// stays on the normal screen, so that the last picture is still there at the end.
// The cursor rests at the start of the line below the block.
type Screen struct {
	out   io.Writer
	width int
	drawn []string
}

// NewScreen draws to a terminal.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// Draw replaces the block. Each line must be at most width cells.
func (s *Screen) Draw(lines []string, width int) {
	var b strings.Builder
	if width != s.width {
		b.WriteString(s.erase(width))
	}
	if n := len(s.drawn); n > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", n)
	}
	for i, line := range lines {
		if i < len(s.drawn) && s.drawn[i] == line {
			b.WriteString("\n")
			continue
		}
		b.WriteString("\r" + line + "\x1b[K\n")
	}
	if len(lines) < len(s.drawn) {
		b.WriteString("\x1b[J")
	}
	s.drawn, s.width = append([]string(nil), lines...), width
	io.WriteString(s.out, b.String()) //nolint:errcheck // a drain goes on without its output
}

// Above prints lines that stay, above the block.
func (s *Screen) Above(lines []string, width int) {
	block := s.drawn
	io.WriteString(s.out, s.erase(width)+strings.Join(lines, "\n")+"\n") //nolint:errcheck // as above
	s.Draw(block, width)
}

// erase removes the block. A terminal that became narrower has broken its lines.
func (s *Screen) erase(width int) string {
	if len(s.drawn) == 0 {
		return ""
	}
	rows := 0
	for _, line := range s.drawn {
		rows += 1 + max(0, ansi.StringWidth(line)-1)/max(1, width)
	}
	s.drawn = nil
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", rows)
}
