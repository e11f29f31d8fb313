// Package text answers: what may be printed of words that others wrote? Annotations, answers of systems and messages of
// servers reach terminals, logs and the API's own messages, and their author may be a user that the reader does not trust.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns the text on one line, its words parted by single spaces, without anything that a terminal obeys: escape
// sequences, control characters (C0, DEL, C1), and format characters, among which are all marks that turn the direction of
// text. What is not UTF-8 becomes U+FFFD. Line(Line(s)) is Line(s).
func Line(s string) string {
	if plain(s) {
		return s
	}
	return strings.Join(strings.FieldsFunc(withoutSequences(s), func(r rune) bool { return unicode.IsSpace(r) || obeyed(r) }), " ")
}

// Lines is Line for each line of a text. Spaces and tabs stay as they are.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && obeyed(r) {
			return -1
		}
		return r
	}, withoutSequences(s))
}

// Printable reports whether nothing in the text is obeyed by a terminal: it may have to be compared as it is, and so cannot
// be cleaned.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, obeyed)
}

// mostName is how many bytes of a name are printed: as many as a label's value has, twice.
const mostName = 128

// Name returns a name that others gave, quoted where it could be read as words of the sentence in which it stands, and cut where it is
// longer than 128 bytes.
func Name(s string) string {
	s = Cut(s, mostName)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > '~' || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@._:/-", r)
	}) {
		return s
	}
	return strconv.Quote(Line(s))
}

func obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// plain reports whether Line has nothing to do, which is nearly always.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

const escape = '\x1b'

// withoutSequences takes out escape sequences with what they say (ECMA-48, 5.4 and 5.6), in their forms of seven and of
// eight bits. One that is not ended loses only its beginning.
func withoutSequences(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsFunc(s, func(r rune) bool { return r == escape || 0x80 <= r && r <= 0x9f }) {
		return s
	}
	var kept strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		introducer, from := r, size
		if r == escape && len(s) > 1 {
			introducer, from = rune(s[1])+0x40, 2 // ESC [ is U+009B, and so on
		}
		if n := sequence(introducer, s[from:]); n >= 0 {
			s = s[from+n:]
			continue
		}
		if r != escape && (r < 0x80 || r > 0x9f) {
			kept.WriteString(s[:size])
		}
		s = s[size:]
	}
	return kept.String()
}

// longest bounds how far the end of a sequence is looked for, so that a text full of beginnings takes no longer than another.
const longest = 4096

// sequence returns how much of rest belongs to the sequence that its C1 introducer begins; -1: none does.
func sequence(introducer rune, rest string) int {
	switch introducer {
	case 0x9b: // CSI: parameters and intermediates, then a final byte
		n := strings.IndexFunc(rest, func(r rune) bool { return r < ' ' || r > '?' })
		if n >= 0 && rest[n] >= '@' && rest[n] <= '~' {
			return n + 1
		}
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // DCS, SOS, OSC, PM, APC: a string up to ST, or BEL
		rest = rest[:min(len(rest), longest)]
		for _, end := range []string{"\x1b\\", "\u009c", "\a"} {
			if before, _, ended := strings.Cut(rest, end); ended && !strings.ContainsAny(before, "\x1b\u009c\a\n") {
				return len(before) + len(end)
			}
		}
	}
	return -1
}
