package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal is what can be drawn on; the zero value is a pipe or a file.
type terminal struct {
	fd     int
	live   bool // lines can be redrawn in place
	colour bool
}

// terminalOf looks at what out is. A dumb terminal gets plain lines; NO_COLOR is
// respected (no-color.org).
func terminalOf(out io.Writer) terminal {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return terminal{}
	}
	kind := os.Getenv("TERM")
	able := kind != "" && kind != "dumb"
	return terminal{fd: int(file.Fd()), live: able, colour: able && os.Getenv("NO_COLOR") == ""}
}

// canAsk reports whether a person reads what is written to out, and answers in in.
func canAsk(in io.Reader, out io.Writer) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && terminalOf(out) != (terminal{})
}

// size returns columns and rows. A terminal that does not report them is taken to be 80x24.
func (t terminal) size() (width, height int) {
	width, height, err := term.GetSize(t.fd)
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// textWidth is where sentences are broken: 0, not at all, unless on a terminal.
func (t terminal) textWidth() int {
	if !t.live {
		return 0
	}
	width, _ := t.size()
	return width
}
