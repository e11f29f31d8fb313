package text

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain", "plain"},
		{"  two\nlines\tand\r\nmore  ", "two lines and more"},
		{"\x1b[2Jwiped \x1b]0;title\x07clean", "wiped clean"},
		{"\x1b[38;5;1mred\x1b[0m and \u009b31mred", "red and red"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1bPq#0\x1b\\sixel", "sixel"},
		{"\u009d0;title\u009cclean", "clean"},
		{"an unended \x1b]0;title", "an unended ]0;title"},
		{"an unended \x1b[12", "an unended [12"},
		{"escape at the end\x1b", "escape at the end"},
		{"bell\aring\x7f", "bell ring"},
		{"turned \u202egnp.exe", "turned gnp.exe"},
		{"isolates \u2066a\u2069 marks \u200e\u200f\u061c", "isolates a marks"},
		{"lines\u2028and\u2029paragraphs", "lines and paragraphs"},
		{"raw \x9b31m, \xff", "raw \uFFFD31m, \uFFFD"},
		{"Grüße, 世界 👋", "Grüße, 世界 👋"},
	} {
		if got := Line(c.in); got != c.want {
			t.Errorf("Line(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	const in, want = "error:\n  \x1b[31mline\x1b[0m one\r\n\tline \u202etwo\a\n", "error:\n  line one\n\tline two\n"
	if got := Lines(in); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]bool{"PRMR-x1": true, "ü 世": true, "": true, "a\x1b[2J": false, "a\nb": false, "\u202e": false, "\xff": false, "\u0085": false} {
		if Printable(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

// Nothing that a terminal obeys comes through, and a second cleaning finds nothing.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"\x1b[2J\x1b]0;owned\x07\u202etxt", "\x1b\x1b[[1mm", "\u009b\u009b1m", "\xc2\x9b31m", "\xc2", "a\u2028b", "\x1b]\x1b]0;x\x07\x07"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := Line(s)
		if again := Line(line); again != line {
			t.Errorf("Line(%q) = %q, and then %q", s, line, again)
		}
		for name, got := range map[string]string{"Line": line, "Lines": strings.NewReplacer("\n", "", "\t", "").Replace(Lines(s))} {
			bad := func(r rune) bool {
				return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x61c || r == 0x2028 || r == 0x2029
			}
			if strings.ContainsFunc(got, bad) || !utf8.ValidString(got) {
				t.Errorf("%s(%q) = %q", name, s, got)
			}
		}
		if !Printable(line) {
			t.Errorf("Line(%q) = %q is not printable", s, line)
		}
	})
}

func TestName(t *testing.T) {
	for given, want := range map[string]string{
		"alice@laptop":      "alice@laptop",
		"apps.kruise.io/v1": "apps.kruise.io/v1",
		"":                  `""`,
		"evil run: kubectl": `"evil run: kubectl"`,
		"a\x1b[31mb c":      `"ab c"`,
		`a"b`:               `"a\"b"`,
		"аdmin":             `"аdmin"`,

		strings.Repeat("a", 200): `"` + strings.Repeat("a", 125) + `…"`,
	} {
		if got := Name(given); got != want {
			t.Errorf("Name(%q) = %s, want %s", given, got, want)
		}
	}
}
