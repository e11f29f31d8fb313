package show

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// margin is what stands before lines that go on with the one above.
const margin = "    "

// passage is lines that belong together, of which the first ones can stand for all.
type passage struct {
	lines []string
	least int // lines that are always shown
}

// flow puts a text after a head, and what does not fit beside it onto further lines behind
// the margin. Words that are wider than a line are broken: a table shows all of a sentence.
func flow(head, text, margin string, width int) []string {
	f := flowing{lines: []string{head}, room: width - ansi.StringWidth(head), margin: margin, width: width}
	for word := range strings.FieldsSeq(text) {
		f.put(word)
	}
	return f.lines
}

// flowing is a text that is being laid out.
type flowing struct {
	lines  []string
	room   int  // cells that are left on the last line
	begun  bool // a word is on the last line
	margin string
	width  int
}

func (f *flowing) put(word string) {
	if f.begun {
		word = " " + word
	}
	if ansi.StringWidth(word) > f.room && (f.begun || len(f.lines) == 1) {
		f.next()
		word = strings.TrimLeft(word, " ")
	}
	for ansi.StringWidth(word) > f.room {
		f.lines[len(f.lines)-1] += ansi.Cut(word, 0, f.room)
		word = ansi.Cut(word, f.room, ansi.StringWidth(word))
		f.next()
	}
	f.lines[len(f.lines)-1] += word
	f.room, f.begun = f.room-ansi.StringWidth(word), true
}

func (f *flowing) next() {
	if f.lines[len(f.lines)-1] != f.margin { // a line with a margin alone is as good as a new one
		f.lines = append(f.lines, f.margin)
	}
	f.room, f.begun = max(2, f.width-ansi.StringWidth(f.margin)), false // two: no letter is wider
}

// stack puts passages under each other in at most height lines, if their least lines fit at
// all. What goes beyond these is given to the first ones first.
func stack(passages []passage, height int) []string {
	room := height
	for _, b := range passages {
		room -= b.least
	}
	var lines []string
	for _, b := range passages {
		more := max(0, min(len(b.lines)-b.least, room))
		room -= more
		shown := b.lines[:b.least+more]
		lines = append(lines, shown...)
		if len(shown) < len(b.lines) {
			lines[len(lines)-1] += " …"
		}
	}
	return lines
}
